"""The interface of agents: networks that act, and sequences to train on."""

import dataclasses
from typing import Any, NamedTuple, Protocol, Self

import jax

from memory_maze.policies.protocol import Sight


class Network(Protocol):
    """A policy network as a pytree of weights. Leading axes of arrays, if any, are batch axes."""

    def initial(self) -> Any:
        """Returns the carry at the start of an episode, without batch axes: a pytree of arrays."""
        ...

    def step(self, carry: Any, sight: Sight) -> tuple[Any, jax.Array]:
        """Returns the next carry, and the action logits."""
        ...

    def ready(self) -> Self:
        """Returns the network prepared for repeated acting."""
        ...


class Sequence(NamedTuple):
    """T actions in B environments."""

    carry: Any  # (B, ...) before the first sight
    sights: Sight  # (T + 1, B, ...)
    actions: jax.Array  # (T, B) int32
    logits: jax.Array  # (T, B, 6) float32, of the behaviour policy
    truncated: jax.Array  # (T, B) bool: the time limit ended the episode after the action


@dataclasses.dataclass(frozen=True, eq=False)
class Actor:
    """A trained network as a policy, for evaluation and data collection."""

    network: Network
    sees_pictures = True

    def start(self, state: Any) -> Any:
        return self.network.initial()

    def act(self, memory: Any, state: Sight, key: jax.Array) -> tuple[jax.Array, Any]:
        memory, logits = self.network.step(memory, state)
        return jax.random.categorical(key, logits), memory
