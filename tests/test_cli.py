"""The command line."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from memory_maze import Scenario, cli


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "memory_maze", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
    )


def test_help_names_every_command():
    result = run("--help")
    assert result.returncode == 0
    commands = ["demo", "tasks", "scenario", "info", "evaluate", "train"]
    commands += ["export-agent", "report", "collect", "convert", "inspect", "export", "compare-engines"]
    for command in commands:
        assert command in result.stdout


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
        (["scenario", "--task", "8x8"], "no task '8x8'"),
        (["scenario", "missing.json"], "No such file"),
        (["scenario", "broken.txt"], "wrong shape"),
        (["scenario", "--episode", "-1"], "episode must be 0 or more"),
        (["demo", "--steps", "-1"], "steps must be from 1"),
    ],
)
def test_mistakes_are_explained_in_a_line(tmp_path, arguments, message):
    (tmp_path / "broken.txt").write_text("###\n#P#\n###\n")
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_interrupted_commands_end_without_a_traceback(monkeypatch, capsys):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.Tasks, "run", interrupt)
    with pytest.raises(SystemExit) as ended:
        cli.main(["tasks"])
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_the_installed_command_works():
    command = Path(sys.executable).parent / "memory-maze"
    assert "usage: memory-maze" in subprocess.run([command, "--help"], capture_output=True, text=True).stdout
