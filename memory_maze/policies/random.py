"""A policy that knows nothing."""

import dataclasses

import jax

from memory_maze.engine.types import State
from memory_maze.options import ACTIONS


@dataclasses.dataclass(frozen=True)
class Random:
    """Any of the six actions, each as likely."""

    def start(self, state: State) -> tuple[()]:
        return ()

    def act(self, memory: tuple[()], state: State, key: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return jax.random.randint(key, (), 0, len(ACTIONS)), memory
