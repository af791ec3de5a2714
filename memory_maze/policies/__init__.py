"""Policies that need no training: they know the maze, or nothing. And by their names, those that had some.

    oracle    knows the map and goes to the target as fast as the six actions allow
    explorer  knows the map and wanders through all of it: the policy of the paper's data sets
    random    any of the six actions

Trained agents that come with the package are folders in `memory_maze/assets/agents`.

A policy is two pure functions of one maze's `State`, so that `vmap` runs it in thousands of mazes.
"""

import dataclasses
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax

from memory_maze.assets import AGENTS
from memory_maze.engine.types import State
from memory_maze.extras import missing
from memory_maze.files import read_small
from memory_maze.imports import import_name
from memory_maze.training.names import CONFIG

POLICIES = ("oracle", "explorer", "random")


class Sight(NamedTuple):
    """What a policy that sees pictures is given in place of the state."""

    image: jax.Array  # (64, 64, 3) uint8, with the border
    reward: jax.Array  # () float32: of the last action
    action: jax.Array  # () int32: the last one, 0 at the start
    first: jax.Array  # () bool: no action was taken yet


class Policy(Protocol):
    """What chooses actions. A program is compiled for each policy, so it must be hashable, as objects are.

    With an attribute `sees_pictures = True` it is given a `Sight` in place of the state at each action.
    """

    def start(self, state: State) -> Any:
        """What it remembers at the start of an episode: a pytree of arrays."""
        ...

    def act(self, memory: Any, state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        """The next action, () int32, and what it remembers from now on."""
        ...


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of the state and a key as a policy without memory."""

    function: Callable[[State, jax.Array], jax.Array]

    def start(self, state: State) -> tuple[()]:
        return ()

    def act(self, memory: tuple[()], state: State, key: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return self.function(state, key), memory


def load_policy(name: str) -> Policy:
    """A policy by its name, a trained agent by its name or folder, or one of your own as "module:name".

    Your own is a policy, its class, or f(state, key).
    """
    if name == "oracle":
        from memory_maze.policies.oracle import Oracle

        return Oracle()
    if name == "explorer":
        from memory_maze.policies.explorer import Explorer

        return Explorer()
    if name == "random":
        from memory_maze.policies.random import Random

        return Random()
    if (folder := find_agent(name)) is not None:
        return _load_agent(folder)
    if ":" not in name:
        raise ValueError(
            f"no policy {name!r}: there are {', '.join([*POLICIES, *agent_names()])}, your own as "
            "module:name, and folders of trained agents"
        )
    policy = import_name(name, "policy")
    if inspect.isfunction(policy):
        return Function(policy)
    policy = policy() if isinstance(policy, type) else policy
    if not (hasattr(policy, "start") and hasattr(policy, "act")):
        raise ValueError(
            f"{name} is no policy: it is neither a function of (state, key) nor has it "
            "start(state) and act(memory, state, key)"
        )
    return policy


def agent_names() -> list[str]:
    """The trained agents that come with the package."""
    return sorted(path.parent.name for path in AGENTS.glob(f"*/{CONFIG}"))


def find_agent(name: str) -> Path | None:
    """The folder of a trained agent; your own comes before one of the package. None for other policies."""
    if name in POLICIES:
        return None
    if os.path.isdir(name):
        return Path(name)
    return AGENTS / name if name in agent_names() else None


def agent_task(folder: Path) -> str:
    """The task that an agent was trained in."""
    try:
        return str(json.loads(read_small(folder / CONFIG))["task"])
    except FileNotFoundError as error:
        raise ValueError(f"{folder}: no run or agent: there is no {CONFIG} in it") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{folder}: no run or agent: {error}") from error


def _load_agent(folder: Path) -> Policy:
    try:
        from safetensors import SafetensorError

        from memory_maze.agents.protocol import Actor
        from memory_maze.training.run import load_network
    except ModuleNotFoundError as error:
        raise missing(f"trained agents need {error.name}", error.name, "train") from error
    try:
        return Actor(load_network(folder)[0])
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: no agent, or a damaged one: {error}") from error
