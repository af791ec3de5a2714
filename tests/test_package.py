"""The package as it is installed: light to import, typed, with remedies for what is missing."""

import importlib.resources
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memory_maze
from memory_maze.system.extras import install_command

pytestmark = pytest.mark.pythons

ROOT = Path(__file__).parent.parent


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_importing_loads_no_extra():
    extras = {"mujoco", "jax", "pygame", "imageio", "PIL", "OpenGL", "tyro"}
    result = run(f"import sys, memory_maze; print(sorted({extras} & set(sys.modules)))")
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "code", "remedy"),
    [
        ("pygame", "from memory_maze.adapters.viewer import Window; Window(4)", "[play]"),
        ("imageio", "from memory_maze.watch.demo import run_demo; run_demo(None, 1, 1, 1)", "[video]"),
        (
            "mujoco",
            "from memory_maze.adapters.simulation import Simulation; Simulation(engine='mujoco')",
            f'engine="mujoco" needs MuJoCo: {install_command("mujoco")}, or',
        ),
        ("mujoco", "import memory_maze.compare.report", "[mujoco]"),
        ("equinox", "from memory_maze.cli import main; main(['train', 'impala', '--out', 'x'])", "[train]"),
        ("safetensors", "from memory_maze.cli import main; main(['export-agent', 'x', 'y'])", "[train]"),
        (
            "imageio",
            "from memory_maze.cli import main; main(['evaluate', 'x', '--video', 'y.mp4'])",
            "[video]",
        ),
        ("huggingface_hub", "from memory_maze import data; data.load('hub:a/b')", install_command("hub")),
    ],
)
def test_missing_extras_name_the_remedy(module, code, remedy):
    result = run(f"import sys; sys.modules[{module!r}] = None\n{code}")
    assert result.returncode == 1
    assert remedy in result.stderr.splitlines()[-1]


def test_the_default_needs_neither_mujoco_nor_opengl():
    result = run("""
import sys
for name in ("mujoco", "OpenGL", "glfw", "pygame", "imageio", "PIL"):
    sys.modules[name] = None
import gymnasium, memory_maze
env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0", render_mode="rgb_array")
env.reset(seed=1)
print(env.step(1)[0].shape, env.render().shape)
env.close()
print([name for name in sys.modules if name.startswith("memory_maze.reference")])
""")
    assert result.stdout == "(64, 64, 3) (256, 256, 3)\n[]\n"
    assert result.stderr == ""


def test_commands_without_mujoco():
    block = "import sys; sys.modules['mujoco'] = None\nfrom memory_maze.cli import main\n"
    result = run(f"{block}main(['compare-engines'])")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert install_command("mujoco") in result.stderr
    result = run(f"{block}main(['info'])")
    assert result.returncode == 0, result.stderr


def test_types_are_shipped():
    assert importlib.resources.files(memory_maze).joinpath("py.typed").is_file()


def test_the_newest_version_is_in_the_changelog():
    assert memory_maze.__version__.split(".dev")[0] in (ROOT / "CHANGELOG.md").read_text()


def test_nothing_reads_pickles():
    for path in (ROOT / "memory_maze").rglob("*.py"):
        assert not re.search(r"import pickle|allow_pickle=True", path.read_text()), path


def test_nothing_of_unix_is_needed_to_start(tmp_path):
    """Windows has neither these locks nor these calls. What stands for them there is not tested."""
    result = run(f"""
import os, sys
import jax, orbax.checkpoint  # what others do there is their own affair
sys.modules["fcntl"] = None
del os.sched_getaffinity, os.sysconf
import importlib, pkgutil, memory_maze
for module in pkgutil.walk_packages(memory_maze.__path__, "memory_maze."):
    if module.name != "memory_maze.__main__":
        importlib.import_module(module.name)
from memory_maze.cli import main
main(["info"])
from memory_maze.system.files import replacing
with replacing({str(tmp_path / "file")!r}) as path:
    path.write_text("whole")
""")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_text() == "whole"


def choose_python(folder, *words, **env):
    """What scripts/python.sh says where the PATH has nothing but what is in the folder."""
    bash, script = shutil.which("bash"), ROOT / "scripts" / "python.sh"
    env = {"PATH": str(folder), "HOME": str(folder)} | env
    return subprocess.run([bash, script, *words], env=env, capture_output=True, text=True)


def put_pythons(folder, good=(), bad=()):
    """Some that this package runs on, and some that it does not run on."""
    for name in good:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(sys.executable)
    for name in bad:
        (folder / name).write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.13\n')
        (folder / name).chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="a script of Unix")
@pytest.mark.parametrize(
    ("good", "bad", "chosen"),
    [
        (["python3.11", "python3.13", "python3"], [], "python3.13"),
        (["python3.12", "python3"], ["python3.13"], "python3.12"),  # as one of pyenv that is not switched on
        (["python3.13"], [], "python3.13"),
        (["python3"], [], "python3"),
        (["python3.14", ".pyenv/versions/3.15.0/bin/python"], ["python3"], "python3.14"),
    ],
)
def test_the_newest_python_on_the_path_is_chosen(tmp_path, good, bad, chosen):
    put_pythons(tmp_path, good, bad)
    result = choose_python(tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{chosen}\n", "")


@pytest.mark.skipif(os.name != "posix", reason="a script of Unix")
def test_a_python_that_only_pyenv_knows_is_chosen_when_asked_for(tmp_path):
    other = ".pyenv/versions/3.13.1/bin/python"
    put_pythons(tmp_path, ["python3.11", other])
    assert choose_python(tmp_path).stdout == "python3.11\n"
    assert choose_python(tmp_path, "any").stdout == f"{tmp_path / other}\n"


@pytest.mark.skipif(os.name != "posix", reason="a script of Unix")
def test_without_a_python_it_is_told_what_was_looked_for(tmp_path):
    put_pythons(tmp_path, bad=["python3", "other"])
    result = choose_python(tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "there is no python3.14, python3.13, python3.12 or python3.11 on the PATH" in result.stderr
    assert "python3 is Python 3.10.13" in result.stderr
    result = choose_python(tmp_path, PYTHON="other")
    assert (result.returncode, result.stdout) == (1, "")
    assert "other is no Python from 3.11 to 3.14" in result.stderr
