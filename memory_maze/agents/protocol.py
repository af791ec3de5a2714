"""The interface of agents: networks that act, and what they are trained on."""

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax

from memory_maze.policies.protocol import Sight


class Network(Protocol):
    """A policy network as a pytree of weights. Leading axes of arrays, if any, are batch axes."""

    def initial(self) -> Any:
        """Returns the carry at the start of an episode, without batch axes: a pytree of arrays."""
        ...

    def step(self, carry: Any, sight: Sight, key: jax.Array) -> tuple[Any, jax.Array]:
        """Returns the next carry, and the action logits. `key` is for what the network itself samples."""
        ...

    def ready(self) -> Any:
        """Returns the network prepared for repeated acting: something with the same `step`."""
        ...


class Sequence(NamedTuple):
    """T actions in B environments."""

    carry: Any  # (B, ...) before the first sight
    sights: Sight  # (T + 1, B, ...)
    actions: jax.Array  # (T, B) int32
    logits: jax.Array  # (T, B, 6) float32, of the behaviour policy
    truncated: jax.Array  # (T, B) bool: the time limit ended the episode after the action


class Window(NamedTuple):
    """T records of B episodes from a replay."""

    image: jax.Array  # (T, B, S, S, 3) uint8
    action: jax.Array  # (T, B) int32: the one that led to the image
    reward: jax.Array  # (T, B) float32: on the way there
    first: jax.Array  # (T, B) bool: the first record of an episode, to which no action led
    reset: jax.Array  # (T, B) bool: the memory before the record is to be forgotten
    others: dict[str, jax.Array]  # (T, B, ...) further observations that the config names


@dataclasses.dataclass(frozen=True, eq=False)
class Actor:
    """A trained network as a policy, for evaluation and data collection."""

    network: Network
    sees_pictures = True

    def start(self, state: Any) -> Any:
        return self.network.initial()

    def act(self, memory: Any, state: Sight, key: jax.Array) -> tuple[jax.Array, Any]:
        # Not a part of the key that the action is sampled with.
        memory, logits = self.network.step(memory, state, jax.random.fold_in(key, 1))
        return jax.random.categorical(key, logits), memory
