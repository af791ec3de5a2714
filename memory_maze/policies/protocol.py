"""The policy interface: two pure functions of a single environment's state, vectorized with `vmap`."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from memory_maze.engine.types import State


class Sight(NamedTuple):
    """The input of policies that see images, instead of the state."""

    image: jax.Array  # (64, 64, 3) uint8, with the border
    reward: jax.Array  # () float32: reward of the last action
    action: jax.Array  # () int32: the last action, 0 at the start
    first: jax.Array  # () bool: the first step of an episode


class Policy(Protocol):
    """Selects actions. Policies must be hashable, as objects are by default: a program is compiled for each.

    With an attribute `sees_pictures = True`, `act` receives a `Sight` instead of the state.
    """

    def start(self, state: State) -> Any:
        """Returns the memory at the start of an episode: a pytree of arrays."""
        ...

    def act(self, memory: Any, state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        """Returns the next action, () int32, and the new memory."""
        ...


@dataclasses.dataclass(frozen=True)
class Function:
    """Wraps a function of the state and a key as a policy without memory."""

    function: Callable[[State, jax.Array], jax.Array]

    def start(self, state: State) -> tuple[()]:
        return ()

    def act(self, memory: tuple[()], state: State, key: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return self.function(state, key), memory
