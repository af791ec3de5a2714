"""Policies that need no training: they know the maze, or nothing.

    oracle   knows the map and goes to the target as fast as the six actions allow
    random   any of the six actions

A policy is two pure functions of one maze's `State`, so that `vmap` runs it in thousands of mazes.
"""

import importlib
import os
import sys
from typing import Any, Protocol

import jax

from memory_maze.engine.types import State

POLICIES = ("oracle", "random")


class Policy(Protocol):
    """What chooses actions. A program is compiled for each policy, so it must be hashable, as objects are."""

    def start(self, state: State) -> Any:
        """What it remembers at the start of an episode: a pytree of arrays."""
        ...

    def act(self, memory: Any, state: State, key: jax.Array) -> tuple[jax.Array, Any]:
        """The next action, () int32, and what it remembers from now on."""
        ...


def load_policy(name: str) -> Policy:
    """A policy by its name, or one of your own as "module:name"."""
    if name == "oracle":
        from memory_maze.policies.oracle import Oracle

        return Oracle()
    if name == "random":
        from memory_maze.policies.random import Random

        return Random()
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"no policy {name!r}: there are {', '.join(POLICIES)}, and your own as module:name")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a command's path lacks the folder that it is called in
    try:
        policy = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no policy {name!r}: {error}") from error
    policy = policy() if isinstance(policy, type) else policy
    if not (hasattr(policy, "start") and hasattr(policy, "act")):
        raise ValueError(f"{name} is no policy: it lacks start(state) or act(memory, state, key)")
    return policy
