"""What an agent's module gives and takes: networks that act, and sequences to learn from."""

import dataclasses
from typing import Any, NamedTuple, Protocol, Self

import jax

from memory_maze.policies.protocol import Sight


class Network(Protocol):
    """A pytree of weights that acts. Leading axes of arrays are a batch, if there are any."""

    def initial(self) -> Any:
        """The carry at the start of an episode: a pytree of arrays, of one stream."""
        ...

    def step(self, carry: Any, sight: Sight) -> tuple[Any, jax.Array]:
        """The next carry, and the logits of the actions."""
        ...

    def ready(self) -> Self:
        """The same network, prepared for acting many times."""
        ...


class Sequence(NamedTuple):
    """What happened in B mazes over T actions."""

    carry: Any  # (B, ...) before the first sight
    sights: Sight  # (T + 1, B, ...)
    actions: jax.Array  # (T, B) int32
    logits: jax.Array  # (T, B, 6) float32, when they were taken
    truncated: jax.Array  # (T, B) bool: the time limit ended the episode after the action


@dataclasses.dataclass(frozen=True, eq=False)
class Actor:
    """A trained network as a policy, for evaluation and for data sets."""

    network: Network
    sees_pictures = True

    def start(self, state: Any) -> Any:
        return self.network.initial()

    def act(self, memory: Any, state: Sight, key: jax.Array) -> tuple[jax.Array, Any]:
        memory, logits = self.network.step(memory, state)
        return jax.random.categorical(key, logits), memory
