"""A variant is the same in every command: trained in, evaluated, collected, filmed and reported."""

import json

import pytest

from memory_maze.cli import main
from memory_maze.data import load
from memory_maze.registration import VARIANTS
from memory_maze.variants import name_options, parse_options, read_variant

PIXELS = {"HD", "Top", "ExtraObs-Top", "Oracle-Top", "HiFreq-HD", "6CL-Top"}  # of 256, which no agent sees
SMALL = "camera_resolution=64"
QUICK = {"Vis"}


@pytest.mark.parametrize(
    "variant", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
)
def test_a_variant_goes_through_all_commands(variant, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = (SMALL,) if variant in PIXELS else ()
    where = ["--task", "7x7", "--seconds", "5", "--variant", variant, "--options", *settings]
    train = ["train", "impala", "--preset", "debug", "--out", "runs/tiny", "--steps", "64"]
    main([*train, *where, "--evaluate", "5"])
    main(["evaluate", "runs/tiny", "--episodes", "6"])
    # Of one length, so that the program of the evaluation plays them.
    lengths = ["--seconds", "5", "--episodes", "2", "--evaluation", "1"]
    main(["collect", "--policy", "runs/tiny", "--out", "data", *lengths])
    main(["video", "runs/tiny", "--steps", "3", "--out", "walk.gif"])
    shown = capsys.readouterr().out
    main(["report", "online", "runs"])
    reported = capsys.readouterr().out

    options = parse_options(variant, settings)
    task, trained = read_variant(json.loads((tmp_path / "runs/tiny/config.json").read_text()))
    assert (task.name, task.seconds, trained) == ("7x7", 5, options)
    assert "unchanged" not in shown
    (evaluation,) = json.loads((tmp_path / "runs/tiny/result.json").read_text())["evaluations"]
    assert (evaluation["episodes"], evaluation["steps"]) == (6, 5 * options.control_freq)
    assert load("data", "train").options == options
    assert (tmp_path / "walk.gif").stat().st_size > 1000
    assert name_options(options).partition(",")[0] in shown
    assert name_options(options).partition(",")[0] in " ".join(reported.split())


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """What a command that should be refused says."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        with pytest.raises(SystemExit):
            main([*words])
        assert not list(tmp_path.iterdir())
        return capsys.readouterr().err

    return call


def test_what_no_agent_can_be_trained_in_is_refused(refused):
    train = ("train", "impala", "--preset", "debug", "--task", "7x7", "--out", "run")
    assert "needs 64x64 images, not 256x256" in refused(*train, "--variant", "HD")
    assert "did you mean 'Vis'?" in refused(*train, "--variant", "Vs")
    assert "discrete_actions must be true" in refused(*train, "--options", "discrete_actions=false")
    assert "sees the target only by the border" in refused(*train, "--options", "target_color_in_image=false")


def test_a_run_goes_on_in_its_own_variant_alone(tmp_path, capsys):
    train = ["train", "impala", "--preset", "debug", "--task", "7x7", "--seconds", "5", "--evaluate", "0"]
    train += ["--steps", "16", "--out", str(tmp_path / "run")]
    main([*train, "--variant", "Vis"])
    with pytest.raises(SystemExit):
        main(train)
    assert "its run has task 7x7, Vis, 20 steps, not 7x7, 20 steps" in capsys.readouterr().err
