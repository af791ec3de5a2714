"""Memories: acting and learning give the same, each has hyperparameters of its own, one's own is one file."""

import dataclasses
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from memory_maze.agents.impala.config import PRESETS, Config
from memory_maze.agents.network import load_network
from memory_maze.cli import main
from memory_maze.models.cores.config import CoreConfig, GRUConfig, LSTMConfig
from memory_maze.models.cores.core import Core
from memory_maze.models.cores.forgetful import Forgetful
from memory_maze.models.cores.gru import GRU
from memory_maze.models.cores.lstm import LSTM
from memory_maze.models.cores.registry import CORES
from memory_maze.report.online import name_agent
from memory_maze.results.find import find_results
from memory_maze.results.metrics import read_metrics
from memory_maze.system.imports import import_name
from memory_maze.system.overrides import override

pytestmark = pytest.mark.usefixtures("plain_pictures")

DEBUG = PRESETS["debug"]

# The example of docs/training.md, whose carry has another size than its output, and whose steps are parallel.
OWN = next(
    code
    for code in re.findall(
        r"```python\n(.*?)```", (Path(__file__).parent.parent / "docs/training.md").read_text(), re.DOTALL
    )
    if "# my_core.py" in code
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_core.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_core", raising=False)
    return tmp_path


def make(name, **values):
    return CoreConfig.find(name)(**values).make(jax.random.key(0), 5)


def assert_steps_give_what_unroll_gives(core):
    xs = jax.random.normal(jax.random.key(1), (12, 3, 5))
    resets = jnp.zeros((12, 3), bool).at[0].set(True).at[8, 1].set(True)
    carry = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (3, *leaf.shape)), core.initial())
    last, whole = core.unroll(carry, xs, resets)
    assert whole.shape == (12, 3, core.output_size)
    steps = []
    for x, reset in zip(xs, resets, strict=True):
        carry, out = core(carry, x, reset)
        steps.append(out)
    np.testing.assert_allclose(whole, jnp.stack(steps), atol=1e-5)
    for one, two in zip(jax.tree.leaves(last), jax.tree.leaves(carry), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def seen_after(core):
    """In which of 12 steps an output tells what was seen in step 2, where step 8 begins an episode."""
    xs = jax.random.normal(jax.random.key(1), (12, 5))
    resets = jnp.zeros(12, bool).at[jnp.array([0, 8])].set(True)
    _, one = core.unroll(core.initial(), xs, resets)
    _, other = core.unroll(core.initial(), xs.at[2].add(1.0), resets)
    return np.flatnonzero(np.abs(np.array(other - one)).max(axis=1) > 1e-6).tolist()


@pytest.mark.parametrize("name", CORES)
def test_the_packages_cores_keep_the_contract(name):
    config = CoreConfig.find(name)(size=7)
    assert config.describe()["name"] == name
    assert CoreConfig.read(json.loads(json.dumps(config.describe()))) == config
    core = config.make(jax.random.key(0), 5)
    assert core.output_size == 7
    assert_steps_give_what_unroll_gives(core)
    assert_steps_give_what_unroll_gives(Forgetful(core, 3))
    assert seen_after(core) == ([2] if name == "none" else [2, 3, 4, 5, 6, 7])
    assert seen_after(Forgetful(core, 3)) == [2]


def test_a_core_of_ones_own_keeps_the_contract(folder):
    core = make("my_core:Config", size=16, outputs=9)
    assert (core.output_size, len(core.initial())) == (9, 16)
    assert_steps_give_what_unroll_gives(core)
    assert_steps_give_what_unroll_gives(Forgetful(core, 3))
    assert seen_after(core) == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("core", [LSTM, GRU])
def test_gradients_written_by_hand_are_those_of_the_steps(core):
    made = core(jax.random.key(0), 5, 7)
    xs = jax.random.normal(jax.random.key(1), (9, 2, 5))
    resets = jnp.zeros((9, 2), bool).at[4, 1].set(True)
    count = len(jax.tree.leaves(made.initial()))
    carries = list(jax.random.normal(jax.random.key(2), (count, 2, 7)))
    carry = jax.tree.unflatten(jax.tree.structure(made.initial()), carries)

    def total(unroll, inputs):
        core, carry, xs = inputs
        last, out = unroll(core, carry, xs, resets)
        return (out * jnp.arange(7)).sum() + sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(last))

    by_hand, by_steps = (
        eqx.filter_grad(functools.partial(total, unroll))((made, carry, xs))
        for unroll in (core.unroll, Core.unroll)
    )
    for one, two in zip(jax.tree.leaves(by_hand), jax.tree.leaves(by_steps), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_a_horizon_lets_memories_last(name):
    def half_life(horizon):
        """After how many steps half of what was remembered is left, in each unit, where nothing is seen."""
        core = make(name, size=64, horizon=horizon)
        core = eqx.tree_at(lambda core: core.weight, core, jnp.zeros_like(core.weight))
        carry = jax.tree.map(jnp.ones_like, core.initial())
        still = eqx.tree_at(lambda core: core.inputs.weight, core, jnp.zeros_like(core.inputs.weight))
        after, _ = still(carry, jnp.zeros(5), jnp.array(False))
        kept = jax.tree.leaves(after)[-1]  # an LSTM's cell, a GRU's state
        return np.log(0.5) / np.log(np.asarray(kept))

    short, long = half_life(None), half_life(1000)
    assert short.max() < 3
    assert 100 < np.median(long) < 700
    assert long.max() < 1000
    with pytest.raises(ValueError, match="horizon must be at least 3"):
        half_life(2)


def test_a_core_is_chosen_by_name_and_then_its_values():
    small = PRESETS["small"]
    assert override(small, ("core.horizon=1000",)).core == LSTMConfig(64, 1000)
    assert override(small, ("core=gru",)).core == GRUConfig(64), "what both have stays as it was"
    for settings in (("core=gru", "core.size=128"), ("core.size=128", "core=gru")):
        assert override(small, settings) == dataclasses.replace(small, core=GRUConfig(128))
    long = override(small, ("core.horizon=50",))
    assert override(long, ("core=none",)) == override(small, ("core=none",))
    assert override(small, ("core=lstm", "epochs=2")) == dataclasses.replace(small, epochs=2)


def test_a_core_of_ones_own_starts_from_its_own_defaults(folder):
    assert override(DEBUG, ("core=my_core:Config",)).core.size == 256


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["core=gruu"], "unknown core 'gruu': did you mean 'gru'?"),
        (["core=mamba"], "choose from lstm, gru, none, or your own as package.module:Name"),
        (["core="], "unknown core ''"),
        (["core=my_core:Conf"], "my_core has no Conf"),
        (
            ["core=my_core:Traces"],
            "my_core:Traces is not a subclass of CoreConfig: see memory_maze.models.cores",
        ),
        (["core=memory_maze.models.cores.config:SizedConfig"], "lacks methods of a core: see memory_maze."),
        (["core.sise=3"], "unknown hyperparameter 'sise' of core=lstm: did you mean 'size'?"),
        (["core=none", "core.horizon=10"], "unknown hyperparameter 'horizon' of core=none: choose from size"),
        (["core.size=0"], "core.size must be at least 1: got 0"),
        (["core.size=big"], "core.size=big is neither a number"),
        (["core.size"], "give core.size=value"),
        (["core_size=3"], "it is now called core.size"),
        (["horizon=3"], "it is now called core.horizon"),
        (["channels.first=3"], "unknown hyperparameter 'channels.first': did you mean 'channels'?"),
    ],
)
def test_a_mistyped_core_is_told_in_a_line(folder, settings, message, capsys):
    with pytest.raises(SystemExit):
        main(["train", "impala", "--preset", "debug", "--out", "run", "--set", *settings])
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("field", "message"),
    [("size: int", "its field size needs a default"), ("name: str = 'a'", "the field name is reserved")],
)
def test_a_config_that_cannot_be_chosen_says_why(folder, field, message):
    (folder / "my_core.py").write_text(OWN.replace("size: int = 256", field))
    with pytest.raises(ValueError, match=message):
        CoreConfig.find("my_core:Config")


def test_a_core_of_ones_own_is_one_file(folder, monkeypatch, capsys):
    words = ["train", "impala", "--preset", "debug", "--task", "7x7", "--out", "run", "--evaluate", "0"]
    own = ["--set", "core=my_core:Config", "core.size=16", "core.outputs=9"]
    unroll, unrolled = import_name("my_core:Traces", "core").unroll, []

    def record(core, carry, xs, resets):
        unrolled.append(len(xs))
        return unroll(core, carry, xs, resets)

    monkeypatch.setattr(sys.modules["my_core"].Traces, "unroll", record)
    main([*words, "--steps", "64", *own])
    assert "trained: run" in capsys.readouterr().out
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["agent"]["core"] == {"name": "my_core:Config", "size": 16, "outputs": 9}
    weights = load_file(folder / "run" / "agent.safetensors")
    assert (weights["core.leave.weight"].shape, weights["policy.weight"].shape) == ((16, 9), (9, 6))
    assert DEBUG.unroll_length + 1 in unrolled
    (result,) = find_results([folder / "run"], "online").results
    name = "IMPALA, preset debug, core=my_core:Config, core.size=16, core.outputs=9, 64 steps"
    assert name_agent(result) == name
    network, _ = load_network(folder / "run")
    np.testing.assert_array_equal(network.core.rates, weights["core.rates"])
    for settings, message in (
        ([*own, "core.size=4"], "its run has core.size 16, not 4"),
        ([], "its run has core my_core:Config, not lstm"),
    ):
        with pytest.raises(SystemExit):
            main([*words, "--steps", "96", *settings])
        assert message in capsys.readouterr().err


def test_a_run_of_before_cores_had_configs_goes_on(tmp_path):
    words = ["train", "impala", "--preset", "debug", "--evaluate", "0", "--out", str(tmp_path)]
    main([*words, "--steps", "32"])
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    core = config["agent"].pop("core")
    config["agent"] |= {"core": core["name"], "core_size": core["size"], "horizon": core["horizon"]}
    path.write_text(json.dumps(config))
    main([*words, "--steps", "48"])
    assert json.loads(path.read_text())["agent"]["core"] == core
    assert [line["steps"] for line in read_metrics(tmp_path)] == [32, 48]


@pytest.mark.parametrize(
    ("core", "read", "label"),
    [
        ({"core": "lstm", "core_size": 256, "horizon": None}, LSTMConfig(256), {}),
        ({"core": "gru", "core_size": 256, "horizon": None}, GRUConfig(256), {"core": "gru"}),
        (
            {"core": "lstm", "core_size": 64, "horizon": 100},
            LSTMConfig(64, 100),
            {"core.size": 64, "core.horizon": 100},
        ),
        ({"core": "none", "core_size": 256, "horizon": None}, CoreConfig.find("none")(256), {"core": "none"}),
        ({"core": {"name": "gru", "size": 256, "horizon": None}}, GRUConfig(256), {"core": "gru"}),
        ({"core": {"name": "none", "size": 256}}, CoreConfig.find("none")(256), {"core": "none"}),
    ],
)
def test_cores_of_former_runs_are_read_and_called_as_ever(core, read, label):
    values = PRESETS["fast"].describe()
    del values["core"]
    assert Config.read(values | core).core == read
    assert Config.nearest_preset(values | core) == ("fast", label)
    assert Config.ablation(values | core) == ("no memory" if label == {"core": "none"} else None)


def test_reports_need_not_find_a_core_of_ones_own():
    values = PRESETS["small"].describe() | {"core": {"name": "gone:Config", "heads": 2}}
    changes = {"core": "gone:Config", "core.heads": 2}
    assert Config.nearest_preset(values) == ("small", changes)
    with pytest.raises(ValueError, match="unknown core 'gone:Config'"):
        Config.read(values)


@pytest.mark.parametrize("core", [5, None, [], {}, {"size": 8}, {"name": 3}, {"name": ["lstm"]}])
def test_a_damaged_core_is_refused(core):
    values = DEBUG.describe() | {"core": core}
    Config.nearest_preset(values)
    with pytest.raises(ValueError, match="is not a core"):
        Config.read(values)


def test_configs_need_no_extra():
    code = """
import sys
for name in ("jax", "equinox", "optax"):
    sys.modules[name] = None
from memory_maze.agents.impala.config import Config
from memory_maze.models.cores.config import CoreConfig
from memory_maze.models.cores.registry import CORES
print([CoreConfig.find(name)().describe()["name"] for name in CORES], Config.nearest_preset({"core": "gru"}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("['lstm', 'gru', 'none'] (")
