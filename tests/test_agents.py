"""An agent of one's own is one file: trained, evaluated, reported and found as those of the package are."""

import json
import sys

import numpy as np
import orbax.checkpoint as ocp
import pytest

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.impala.config import Config
from memory_maze.agents.registry import AGENTS, find_config, name_agent
from memory_maze.cli import main
from memory_maze.results.metrics import read_metrics

pytestmark = pytest.mark.usefixtures("plain_pictures")

OWN = """
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.agents.config import OnPolicyConfig


@dataclasses.dataclass(frozen=True)
class Config(OnPolicyConfig):
    title: ClassVar = "Mean colour"
    module: ClassVar = "own_agent"
    num_envs: int = 4
    batch_size: int = 2
    unroll_length: int = 4
    learning_rate: float = 1e-2


class Network(eqx.Module):
    weight: jax.Array

    def initial(self):
        return jnp.zeros(())

    def step(self, carry, sight, key):
        return carry + 1, sight.image.mean((-3, -2)) / 255 @ self.weight

    def ready(self):
        return self


def init(key, config):
    return Network(0.1 * jax.random.normal(key, (3, 6)))


def make_optimizer(config):
    return optax.sgd(config.learning_rate)


def update(network, optimizer_state, sequence, config, axis=None):
    def loss(network):
        sights = jax.tree.map(lambda leaf: leaf[:-1], sequence.sights)
        _, logits = network.step(sequence.carry, sights, None)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), sequence.actions[..., None], axis=-1)
        return -(chosen[..., 0] * sequence.sights.reward[1:]).mean()

    value, gradients = eqx.filter_value_and_grad(loss)(network)
    if axis is not None:
        value, gradients = jax.lax.pmean((value, gradients), axis)
    changes, optimizer_state = make_optimizer(config).update(gradients, optimizer_state)
    return eqx.apply_updates(network, changes), optimizer_state, {"loss_total": value}
"""


OFF_POLICY = """
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.agents.config import OffPolicyConfig


@dataclasses.dataclass(frozen=True)
class Config(OffPolicyConfig):
    title: ClassVar = "Q-learning of mean colours"
    module: ClassVar = "own_agent"
    carries: ClassVar = True
    num_envs: int = 4
    unroll_length: int = 10
    steps_per_update: int = 10
    batch_size: int = 2
    batch_length: int = 6
    turns: int = 2
    replay_steps: int = 2000
    prefill_steps: int = 0
    store_images: bool = True
    downsample: int = 8


class Network(eqx.Module):
    weight: jax.Array

    def initial(self):
        return jnp.zeros((), jnp.int32)

    def values(self, image):
        return image.mean((-3, -2)) / 255 @ self.weight

    def step(self, carry, sight, key):
        return carry + 1, self.values(sight.image)

    def ready(self):
        return self


def init(key, config):
    return Network(0.1 * jax.random.normal(key, (3, 6)))


def begin(network, config):
    return optax.sgd(1e-2).init(network)


def update(network, learner, carry, window, key, config, axis=None):
    def loss(network):
        values = network.values(window.image)
        taken = jnp.take_along_axis(values[:-1], window.action[1:, :, None], axis=-1)[..., 0]
        target = window.reward[1:] + 0.99 * jax.lax.stop_gradient(values[1:].max(axis=-1))
        return jnp.square((taken - target) * ~window.first[1:]).mean()

    value, gradients = eqx.filter_value_and_grad(loss)(network)
    if axis is not None:
        value, gradients = jax.lax.pmean((value, gradients), axis)
    changes, learner = optax.sgd(1e-2).update(gradients, learner)
    # The memory counts the records of a stream since it was reset.
    since = jnp.argmax(window.reset[::-1], axis=0) + 1
    carry = jnp.where(window.reset.any(axis=0), since, carry + len(window.reset))
    return eqx.apply_updates(network, changes), learner, carry, {"loss_total": value}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_agent.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_agent", raising=False)
    return tmp_path


def test_an_agent_of_ones_own_is_one_file(folder, capsys):
    words = [
        "train",
        "own_agent:Config",
        "--task",
        "7x7",
        "--layouts",
        "64",
        "--out",
        "run",
        "--evaluate",
        "0",
    ]
    main([*words, "--steps", "64", "--set", "learning_rate=0.1"])
    assert "trained: run" in capsys.readouterr().out
    config = json.loads((folder / "run" / "config.json").read_text())
    assert (config["algorithm"], config["agent"]["learning_rate"]) == ("own_agent:Config", 0.1)
    main([*words, "--steps", "96", "--set", "learning_rate=0.1"])  # goes on
    main(["evaluate", "run", "--episodes", "2"])
    assert "run in 7x7 on jax" in capsys.readouterr().out
    main(["report", "online", "run"])
    assert "Mean colour" in capsys.readouterr().out.replace("\n", " ")


def test_an_off_policy_agent_of_ones_own_is_one_file_too(folder, capsys):
    (folder / "own_agent.py").write_text(OFF_POLICY)
    words = [
        "train",
        "own_agent:Config",
        "--task",
        "7x7",
        "--seconds",
        "10",
        "--layouts",
        "64",
        "--out",
        "run",
    ]
    main([*words, "--steps", "1200", "--log-every", "0", "--evaluate", "2"])
    assert "run in 7x7" in capsys.readouterr().out
    updates = sum(line["updates"] for line in read_metrics(folder / "run"))
    with ocp.CheckpointManager((folder / "run" / "checkpoints").resolve()) as manager:
        saved = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore())
    # Each turn has streams and memories of its own, and each window of a stream follows the one before: a
    # memory has counted the records since the beginning of the episode.
    assert updates == saved["updates"] > 20
    assert saved["carries"].shape == (2, 2)
    np.testing.assert_array_equal(saved["carries"], saved["streams.next"] - saved["streams.begin"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("impale", "unknown agent 'impale': did you mean 'impala'?"),
        ("dqn", "choose from impala, dreamer, dreamer-tbtt, dreamer-tbtt-probe, or your own as package"),
        ("own_agent:Configuration", "own_agent has no Configuration"),
        ("own_agent:Network", "own_agent:Network is not a subclass of AgentConfig"),
        ("nowhere:Config", "expected nowhere.py in the current directory"),
    ],
)
def test_what_is_no_agent_is_told_in_a_line(folder, name, message, capsys):
    with pytest.raises(SystemExit):
        main(["train", name, "--out", "run"])
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "run").exists()


def test_presets_are_the_agents_own(folder, capsys):
    with pytest.raises(SystemExit):
        main(["train", "impala", "--preset", "fats", "--out", "run"])
    assert "unknown preset 'fats' of IMPALA: did you mean fast?" in capsys.readouterr().err


def test_names_of_hyperparameters_that_were_renamed_are_told(folder, capsys):
    for setting, hint in (
        ("trust=0.2", "now called clip_ratio"),
        ("learnin_rate=1", "did you mean 'learning_rate'?"),
    ):
        with pytest.raises(SystemExit):
            main(["train", "impala", "--preset", "debug", "--set", setting, "--out", "run"])
        assert hint in capsys.readouterr().err


@pytest.mark.parametrize("name", AGENTS)
def test_the_packages_agents_have_what_all_have(name):
    config = find_config(name)
    assert issubclass(config, AgentConfig)
    assert name_agent(config) == name
    assert {"paper", "fast", "small", "debug"} <= config.presets.keys()
    for preset_name, preset in config.presets.items():
        assert config.read(json.loads(json.dumps(preset.describe()))) == preset
        assert config.nearest_preset(preset.describe()) == (preset_name, {})
        parts = {"sequences": ("init", "make_optimizer", "update"), "replay": ("init", "begin", "update")}
        assert all(callable(getattr(preset.load(), part)) for part in parts[preset.learns_from])


def test_every_former_name_is_a_field_now():
    names = set(Config().settings())
    assert set(Config.former_names.values()) <= names
    assert not set(Config.former_names) & names
