"""What a sequence model is, for the offline benchmarks: the interface, and how one is found by its name.

class Model(SequenceModel):
    state_size = 2048

    def __init__(self, key): ...                    # makes its arrays
    def initial(self): ...                          # what one stream carries at first
    def observe(self, carry, sequence, key): ...    # -> carry, states (T, B, state_size)
    def loss(self, carry, sequence, key): ...       # -> loss, Learned(carry, states, metrics)
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.paper import STATE_SIZE
from memory_maze.system.imports import import_name

Carry = Any  # a pytree of arrays


class Sequence(NamedTuple):
    """What a model is shown: T steps of B streams."""

    image: jax.Array  # (T, B, 64, 64, 3) uint8
    action: jax.Array  # (T, B, 6) float32: one-hot, the action that led to the image; zero at the start
    reset: jax.Array  # (T, B) bool: a trajectory begins, and nothing before it may be known


class Learned(NamedTuple):
    """What a model learned from."""

    carry: Carry
    """After the sequence, for the next one."""
    states: jax.Array  # (T, B, state_size)
    metrics: dict[str, jax.Array]
    """Numbers to log."""


class SequenceModel(eqx.Module):
    """The interface. Methods are functions of their arguments and the module's arrays alone.

    Beside the methods a model may have other values of these:

        state_size: The length of a state; probes of 2,048 are comparable.
        carries: Training goes on with the carry of the batch before, on whole trajectories in order
            (truncated backpropagation through time). If not: on random windows, from the initial carry.
        supervised: The probe's gradients train the model too: an upper bound, and no entry of the benchmark.
        frozen: The model is not trained at all.
    """

    state_size = STATE_SIZE
    carries = True
    supervised = False
    frozen = False

    @abc.abstractmethod
    def initial(self) -> Carry:
        """What one stream carries before its trajectory begins."""

    @abc.abstractmethod
    def observe(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[Carry, jax.Array]:
        """Steps over a sequence: the carry after it, and (T, B, state_size) states."""

    @abc.abstractmethod
    def loss(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[jax.Array, Learned]:
        """What training makes smaller, and the states on the way."""


Make = Callable[[jax.Array], SequenceModel]


def initial_carry(model: SequenceModel, *streams: int) -> Carry:
    """The initial carry of so many streams; of several numbers, in as many axes."""
    initial = jax.tree.map(jnp.asarray, model.initial())
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*streams, *leaf.shape)), initial)


def find_maker(name: str) -> Make:
    """What makes the model of `package.module:Name` from a key."""
    found = import_name(name, "model")
    if not callable(found):
        raise ValueError(f"invalid model {name!r}: it cannot be called with a key")
    if isinstance(found, type) and not issubclass(found, SequenceModel):
        raise ValueError(f"{name} is not a SequenceModel: see memory_maze.probing.model")
    return found
