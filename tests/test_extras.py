"""Remedies for missing extras: commands that leave the package as it is."""

import functools
import http.server
import json
import subprocess
import sys
import threading
import venv
from pathlib import Path

import pytest

import memory_maze
from memory_maze.system.extras import install_command, missing

ROOT = Path(__file__).parent.parent
VERSION = memory_maze.__version__
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Pretends that an installer has left this record, or none."""
    folder = tmp_path / f"memory_maze-{VERSION}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: memory-maze\nVersion: {VERSION}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return lambda record: (folder / "direct_url.json").write_text(json.dumps(record))


def test_from_a_folder(installed, tmp_path):
    place = tmp_path / "my code"
    place.mkdir()
    installed({"url": place.as_uri(), "dir_info": {"editable": True}})
    assert install_command("train") == f'pip install -e "{place}[train]"'
    installed({"url": place.as_uri(), "dir_info": {}})
    assert install_command("video,plots") == f'pip install "{place}[video,plots]"'
    place.rmdir()
    assert install_command("train") == f'pip install "memory-maze[train]>={VERSION}"'


def test_from_git(installed):
    record = {
        "url": "https://example.org/mazes.git",
        "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": COMMIT},
    }
    installed(record)
    expected = f"memory-maze[train] @ git+https://example.org/mazes.git@{COMMIT}"
    assert install_command("train") == f'pip install "{expected}"'
    installed(record | {"subdirectory": "python"})
    assert install_command("train") == f'pip install "{expected}#subdirectory=python"'


def test_from_a_wheel(installed, tmp_path):
    wheel = tmp_path / "memory_maze.whl"
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert install_command("train") == f'pip install "memory-maze[train]>={VERSION}"', "it is gone"
    wheel.touch()
    assert install_command("train") == f'pip install "memory-maze[train] @ {wheel.as_uri()}"'
    installed({"url": "https://example.org/memory_maze.whl", "archive_info": {}})
    assert (
        install_command("train") == 'pip install "memory-maze[train] @ https://example.org/memory_maze.whl"'
    )


def test_from_an_index(installed):
    assert install_command("train") == f'pip install "memory-maze[train]>={VERSION}"'
    assert int(VERSION.split(".")[0]) >= 2, "the package of 2022 is version 1"


def test_the_error_names_the_module_and_the_remedy(installed):
    error = missing("figures need matplotlib", "matplotlib", "plots")
    assert error.name == "matplotlib"
    assert str(error) == f'figures need matplotlib: pip install "memory-maze[plots]>={VERSION}"'


def test_no_remedy_stands_anywhere_else():
    """They would install the package of 2022 over this one."""
    places = [*(ROOT / "memory_maze").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    for path in places:
        if path.name != "extras.py":
            assert "memory-maze[" not in path.read_text(), path


@pytest.fixture
def repository(tmp_path):
    """The address of a copy of this one, as a plain folder on a web server."""
    subprocess.run(["git", "clone", "-q", "--bare", ROOT, tmp_path / "maze.git"], check=True)
    subprocess.run(["git", "update-server-info"], cwd=tmp_path / "maze.git", check=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"git+http://127.0.0.1:{server.server_port}/maze.git"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "editable", "git", "wheel", "index"])
def test_pip_takes_the_remedy(tmp_path, kind, request):
    """In an environment where the package is really installed that way; extras are not downloaded."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    if kind in ("wheel", "index"):
        subprocess.run([python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT], check=True)
    repository = request.getfixturevalue("repository") if kind == "git" else ""
    sources = {
        "folder": [str(ROOT)],
        "editable": ["-e", str(ROOT)],
        "git": [repository],
        "wheel": map(str, tmp_path.glob("*.whl")),
        "index": ["--no-index", "--find-links", str(tmp_path), f"memory-maze=={VERSION}"],
    }
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *sources[kind]], check=True)
    # Its record is read there; the code, and what that imports, is taken from here.
    code = f"import sys; sys.path[1:] += {sys.path}; from memory_maze.system.extras import install_command"
    told = subprocess.run(
        [python, "-c", f"{code}; print(install_command('train'))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    command = told.stdout.strip()
    origins = {"git": repository, "wheel": str(tmp_path), "index": VERSION}
    assert origins.get(kind, str(ROOT)) in command
    result = subprocess.run(
        f"{python} -m {command} --no-deps --dry-run", shell=True, capture_output=True, text=True
    )
    assert result.returncode == 0, (command, result.stderr)
    said = result.stdout + result.stderr
    assert "does not provide the extra" not in said, said
    assert "memory-maze-1." not in said, said
