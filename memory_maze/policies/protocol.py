"""What a policy is: two pure functions of one maze's state, so that `vmap` runs it in thousands of mazes."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from memory_maze.engine.types import State


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
