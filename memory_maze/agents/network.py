"""The network of a trained agent, from the folder of its run."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.folder import read_config
from memory_maze.agents.protocol import Network
from memory_maze.agents.registry import find_config
from memory_maze.agents.weights import load_weights


def load_network(folder: Path) -> tuple[Network, dict[str, Any]]:
    """A trained network and what config.json says of it."""
    described = read_config(folder)
    config = read_agent(described, folder)
    template = eqx.filter_eval_shape(config.load().init, jax.random.key(0), config)
    return load_weights(folder, template), described


def read_agent(described: dict[str, Any], folder: Path) -> AgentConfig:
    """The agent's hyperparameters, also of a run of an earlier version."""
    try:
        return find_config(described["algorithm"]).read(described["agent"])
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
