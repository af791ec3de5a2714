"""Every number that a command takes is honoured or refused, before anything is made."""

import dataclasses
import importlib
import typing

import pytest

from memory_maze import cli, tasks
from memory_maze.agents.impala.config import PRESETS
from memory_maze.data.collection import make_manifest
from memory_maze.probing.session import make_run
from memory_maze.system.overrides import override

pytestmark = pytest.mark.pythons

WHOLE = ("0", "-1", "nan", "1.5")
SEED = ("-1", "4294967296", "nan")
SECONDS = ("-1", "nan", "inf")
PACE = ("0", "-1", "nan", "inf", "1e9")
HUGE = "1000000000000"
ENVIRONMENT = {"--objects": ("0", "-1", "7", "nan"), "--seconds": ("0", *SECONDS, HUGE)}
NUMBERS = {
    "demo": {"--steps": (*WHOLE, HUGE), "--fps": (*WHOLE, HUGE), "--seed": SEED},
    "scenario": {"--seed": SEED, "--episode": ("-1", "nan", HUGE)},
    "play": {
        "--seed": SEED,
        "--pace": PACE,
        "--resolution": (*WHOLE, HUGE),
        "--episodes": WHOLE,
        **ENVIRONMENT,
    },
    "serve": {
        "--port": ("-1", "nan", "65536"),
        "--pace": PACE,
        "--seed": SEED,
        "--players": WHOLE,
        "--requests": ("0", "-1", "nan", "inf"),
        "--show-seed": SEED,
        **ENVIRONMENT,
    },
    "evaluate random": {
        "--episodes": (*WHOLE, HUGE),
        "--seed": SEED,
        "--forget-every": WHOLE,
        **ENVIRONMENT,
    },
    "train impala": {
        "--steps": WHOLE,
        "--minutes": ("0", *SECONDS),
        "--seed": SEED,
        "--layouts": WHOLE,
        "--save-every": SECONDS,
        "--log-every": SECONDS,
        "--evaluate": ("-1", "nan", HUGE),
        "--hosts": WHOLE,
        "--host": ("-1", "nan", "1.5"),
        **ENVIRONMENT,
    },
    "probe rssm": {
        "--depths": ("-1", "nan"),
        "--steps": ("-1", "nan"),
        "--minutes": ("0", *SECONDS),
        "--interleave": WHOLE,
        "--seed": SEED,
        "--trajectories": WHOLE,
        "--score-every": WHOLE,
        "--save-every": SECONDS,
        "--log-every": SECONDS,
    },
    "probe-pictures run --data none": {"--trajectory": ("nan",), "--columns": (*WHOLE, HUGE)},
    "collect": {
        "--episodes": (*WHOLE, HUGE),
        "--evaluation": ("-1", "nan", HUGE),
        "--steps": (*WHOLE, HUGE),
        "--seed": SEED,
        "--shard": WHOLE,
        **ENVIRONMENT,
    },
    "video oracle": {
        "--seed": SEED,
        "--steps": ("-1", "nan", "9:3"),
        "--every": WHOLE,
        "--fps": (*WHOLE, HUGE),
        **ENVIRONMENT,
    },
    "compare-engines": {"--seed": SEED},
}
WRONG = [
    (command, name, number)
    for command, numbers in NUMBERS.items()
    for name, wrong in numbers.items()
    for number in wrong
]


@pytest.mark.parametrize(("command", "name", "number"), WRONG, ids=[" ".join(words) for words in WRONG])
def test_numbers_that_nothing_can_be_done_with_are_refused(
    command, name, number, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = command.split()
    if words[0] in ("train", "probe", "collect"):
        words += ["--out", "made"]
    if words[0] == "probe-pictures":
        words += ["--out", "strip.png"]
    if words[0] in ("train", "probe"):
        words += ["--preset", "debug"]
    if words[0] == "serve" and name == "--show-seed":
        words += ["--show", "oracle"]
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, f"{name}={number}"])
    assert ended.value.code != 0
    told = "".join(capsys.readouterr())
    assert name.strip("-").split("-")[-1] in told
    assert "Traceback" not in told
    assert not list(tmp_path.glob("made/*.*")), "nothing was made"


def find_numbers(options):
    """Those among the options of a command, also within groups of options."""
    for name, hint in typing.get_type_hints(options).items():
        if dataclasses.is_dataclass(hint):
            yield from find_numbers(hint)
        elif {int, float} & {hint, *typing.get_args(hint)}:
            yield f"--{name.replace('_', '-')}"


@pytest.mark.parametrize("name", [name for names in cli.COMMANDS.values() for name in names])
def test_there_is_a_wrong_value_for_every_number(name):
    module = importlib.import_module(f"memory_maze.commands.{name.replace('-', '_')}")
    tried = [numbers for command, numbers in NUMBERS.items() if command.split()[0] == name]
    assert {number for numbers in tried for number in numbers} >= set(find_numbers(module.Command))


@pytest.mark.parametrize("setting", ["control_freq=0", "control_freq=-3", "camera_resolution=0"])
def test_options_of_environments_are_refused(setting, capsys):
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "random", "--options", setting])
    assert f"{setting.partition('=')[0]} must be" in capsys.readouterr().err


def test_collect_has_as_many_objects_as_were_asked_for():
    assert make_manifest(tasks.parse_task("9x9", 5), 10).task.objects == 5
    assert tasks.parse_task("9x9", 3) == tasks.TASKS["9x9"]
    with pytest.raises(ValueError, match="objects must be from 1 to 6: got 9"):
        tasks.parse_task("9x9", 9)


@pytest.mark.parametrize(
    "setting",
    [
        *("num_envs=0", "batch_size=-1", "unroll_length=0", "epochs=0", "features=0", "core.size=0"),
        *("downsample=0", "core.horizon=2", "forget_every=-5", "lr_decay_steps=0", "channels=[8, 0]"),
        *("blocks=-1", "learning_rate=-1", "learning_rate=0", "learning_rate=NaN", "learning_rate=Infinity"),
        *(
            "discount=1.5",
            "lambda_=-0.1",
            "adam_b1=2.0",
            "entropy_cost=-1.0",
            "value_cost=NaN",
            "adam_epsilon=0.0",
        ),
        *("clip_ratio=0.0", "max_grad_norm=-1.0", "lr_end_fraction=-1.0"),
    ],
)
def test_values_of_agents_are_refused(setting):
    name = setting.partition("=")[0]
    with pytest.raises(ValueError, match=rf"{name} must be"):
        override(PRESETS["small"], (setting,))


@pytest.mark.parametrize(
    "setting", ["recurrent=0", "groups=-1", "shrink=0", "balance=2.0", "divergence=-1.0", "depth=0"]
)
def test_values_of_models_are_refused(setting):
    with pytest.raises(ValueError, match=rf"{setting.partition('=')[0]} must be"):
        make_run("rssm", "debug", settings=(setting,))


@pytest.mark.parametrize("setting", ["layers=-1", "units=0", "learning_rate=-1", "epsilon=NaN"])
def test_values_of_probes_are_refused(setting):
    with pytest.raises(ValueError, match=rf"{setting.partition('=')[0]} must be"):
        make_run("rssm", "debug", probe=(setting,))
