"""The command line."""

import errno
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import memory_maze
from memory_maze import Scenario, cli
from memory_maze.commands import tasks


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "memory_maze", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
    )


SHARED = {"__init__", "environment", "presets", "schedule"}
FILES = [path.stem for path in (Path(cli.__file__).parent / "commands").glob("*.py")]
LISTED = [name for names in cli.COMMANDS.values() for name in names]


def test_help_tells_what_every_command_does():
    result = run("--help")
    assert result.returncode == 0
    assert {name.replace("-", "_") for name in LISTED} == set(FILES) - SHARED
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    lines = {name: words for name, *words in rows}
    assert lines.keys() == set(LISTED)
    assert all(len(words) >= 3 for words in lines.values())


def test_help_loads_nothing_that_is_slow():
    """Neither the parser nor what any command needs."""
    code = "import sys; from memory_maze.cli import main; main(['--help']); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    for module in ("jax", "tyro", "rich", "memory_maze.training", "memory_maze.commands"):
        assert f"'{module}'" not in loaded, module


@pytest.mark.parametrize("name", LISTED)
def test_every_command_explains_its_options(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert f"usage: memory-maze {name}" in told
    assert "Its options" not in told


@pytest.mark.parametrize("engine", ["mujoco", pytest.param("jax", marks=pytest.mark.slow)])
def test_the_demo_writes_pictures_and_a_video(engine, tmp_path):
    import imageio.v2 as imageio
    import imageio_ffmpeg

    result = run("demo", "--out", str(tmp_path / "demo"), "--steps", "6", "--engine", engine)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [
        "contact_sheet.png",
        "variants.png",
        "walk.mp4",
    ]
    assert imageio.imread(tmp_path / "demo" / "contact_sheet.png").std() > 20
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "demo" / "walk.mp4"))
    assert frames == 7
    assert 0.5 < seconds < 1.5


@pytest.mark.newest
def test_info_tells_the_versions():
    import mujoco

    result = run("info")
    assert result.returncode == 0, result.stderr
    assert version("jax") in result.stdout
    assert "1 cpu" in result.stdout
    assert mujoco.__version__ in result.stdout
    assert ("yes" in result.stdout) == (mujoco.__version__ == "3.10.0")


def test_tasks_are_listed():
    assert "15x15" in run("tasks").stdout


def test_scenarios_are_drawn_saved_and_read(tmp_path):
    drawn = run(
        "scenario", "--task", "11x11", "--seed", "3", "--episode", "2", "--out", str(tmp_path / "maze.json")
    )
    assert drawn.returncode == 0, drawn.stderr
    assert Scenario.load(tmp_path / "maze.json").size == 11
    assert run("scenario", str(tmp_path / "maze.json")).stdout in drawn.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scenario", "--task", "8x8"], "size must be odd, from 7 to 31: got 8"),
        (["scenario", "missing.json"], "sample one with memory-maze scenario --out missing.json"),
        (["scenario", "broken.txt"], "wrong shape"),
        (["scenario", "--episode", "-1"], "episode must be from 0 to 10,000: got -1"),
        (["demo", "--steps", "-1"], "steps must be from 1"),
    ],
)
def test_mistakes_are_explained_in_a_line(tmp_path, arguments, message):
    (tmp_path / "broken.txt").write_text("###\n#P#\n###\n")
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def fail(capsys, *arguments):
    """What a command says that ends with an error."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    printed = capsys.readouterr().err
    assert ended.value.code in (1, 2)
    assert printed.count("\n") == 1, printed
    assert "Errno" not in printed
    return printed


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evalute oracle", "unknown command 'evalute': did you mean evaluate?"),
        ("xyz", "unknown command 'xyz': choose from demo, "),
        (
            "report online nowhere",
            "nowhere not found: give directories or files written by memory-maze train",
        ),
        ("report online", "results/online not found"),
        ("report online probing.json", "1 probing run (memory-maze report probing probing.json)"),
        (
            "report probing nowhere",
            "nowhere not found: give directories or files written by memory-maze probe",
        ),
        ("report probing online.json", "1 online run (memory-maze report online online.json)"),
        ("report human online.json", "1 online run (memory-maze report online online.json)"),
        ("scenario folder", "folder: is a directory"),
        ("scenario broken.json", "broken.json is neither a text map nor JSON"),
        ("export-agent runs/nothing x", "it has no config.json, which memory-maze train writes"),
        ("evaluate folder", "folder: not a run or agent: it has no config.json"),
        ("evaluate nothere.py:Policy", "write the module without .py: nothere:Policy"),
        ("evaluate nothere:Policy", "expected nothere.py in the current directory"),
        ("evaluate random --json /proc/x/y.json", "y.json: cannot write to it"),
        ("inspect data --json /proc/x", "/proc/x: cannot write to it"),
        ("demo --out /proc/x", "cannot write to it"),
        ("compare-engines --out /proc/x", "cannot write to it"),
        ("video oracle --out /proc/x.mp4", "cannot write to it"),
        ("collect --out /proc/x", "/proc/x: cannot write to it"),
    ],
)
def test_mistakes_name_the_file_and_the_remedy(tmp_path, monkeypatch, capsys, command, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.json").write_bytes(b"{\xff")
    (tmp_path / "online.json").write_text('{"evaluations": []}')
    (tmp_path / "probing.json").write_text('{"kind": "probing"}')
    assert message in fail(capsys, *command.split())


def test_errors_of_the_system_are_told_in_words(monkeypatch, capsys):
    def fill_disk(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tasks.Command, "run", fill_disk)
    assert fail(capsys, "tasks") == "error: no space left on device\n"


def test_the_version_is_told(capsys):
    cli.main(["--version"])
    assert capsys.readouterr().out == f"memory-maze {memory_maze.__version__}\n"


def test_who_reads_a_part_of_the_output_sees_no_error():
    script = f"{sys.executable} -m memory_maze train --help | head -1"
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout.startswith("usage: memory-maze train")
    assert result.stderr == ""


def test_interrupted_commands_end_without_a_traceback(monkeypatch, capsys):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks.Command, "run", interrupt)
    with pytest.raises(SystemExit) as ended:
        cli.main(["tasks"])
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_the_installed_command_works():
    command = Path(sys.executable).parent / "memory-maze"
    assert "usage: memory-maze" in subprocess.run([command, "--help"], capture_output=True, text=True).stdout
