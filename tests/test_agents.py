"""An agent of one's own is one file: trained, evaluated, reported and found as those of the package are."""

import json

import pytest

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.impala.config import Config
from memory_maze.agents.registry import AGENTS, find_config, name_agent
from memory_maze.cli import main

OWN = """
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.agents.config import AgentConfig


@dataclasses.dataclass(frozen=True)
class Config(AgentConfig):
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

    def step(self, carry, sight):
        return carry + 1, sight.image.mean((-3, -2)) / 255 @ self.weight

    def ready(self):
        return self


def init(key, config):
    return Network(0.1 * jax.random.normal(key, (3, 6)))


def make_optimizer(config):
    return optax.sgd(config.learning_rate)


def update(network, optimizer_state, sequence, config, axis=None):
    def loss(network):
        _, logits = network.step(sequence.carry, jax.tree.map(lambda leaf: leaf[:-1], sequence.sights))
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), sequence.actions[..., None], axis=-1)
        return -(chosen[..., 0] * sequence.sights.reward[1:]).mean()

    value, gradients = eqx.filter_value_and_grad(loss)(network)
    if axis is not None:
        value, gradients = jax.lax.pmean((value, gradients), axis)
    changes, optimizer_state = make_optimizer(config).update(gradients, optimizer_state)
    return eqx.apply_updates(network, changes), optimizer_state, {"loss_total": value}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_agent.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("impale", "unknown agent 'impale': did you mean 'impala'?"),
        ("dqn", "unknown agent 'dqn': choose from impala, or your own as package.module:Name"),
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
        assert all(callable(getattr(preset.load(), part)) for part in ("init", "make_optimizer", "update"))


def test_every_former_name_is_a_field_now():
    names = set(Config().settings())
    assert set(Config.former_names.values()) <= names
    assert not set(Config.former_names) & names
