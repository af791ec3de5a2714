"""The interface of sequence models for offline probing.

class Model(SequenceModel):
    state_size = 2048

    def __init__(self, key): ...                    # creates the weights
    def initial(self): ...                          # the initial carry of a single stream
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
    """The input of a model: T steps of B streams."""

    image: jax.Array  # (T, B, 64, 64, 3) uint8
    action: jax.Array  # (T, B, 6) float32: one-hot, the action that led to the image; zero at the start
    reset: jax.Array  # (T, B) bool: the first step of a trajectory, which starts from the initial carry


class Learned(NamedTuple):
    """Auxiliary outputs of the loss."""

    carry: Carry
    """Carry after the sequence, for the next one."""
    states: jax.Array  # (T, B, state_size)
    metrics: dict[str, jax.Array]
    """Scalars to log."""


class SequenceModel(eqx.Module):
    """A sequence model. Its methods must be pure functions of their arguments and the weights.

    Attributes that a model may override:

        state_size: Length of the state vector; scores are comparable for 2,048.
        carries: Train on whole trajectories in order, continuing with the carry of the previous batch
            (truncated backpropagation through time). Otherwise, on random windows from the initial carry.
        supervised: Also train the model with the probe's gradients: an upper bound, not an entry of the
            benchmark.
        frozen: Do not train the model.
    """

    state_size = STATE_SIZE
    carries = True
    supervised = False
    frozen = False

    @abc.abstractmethod
    def initial(self) -> Carry:
        """Returns the carry of a single stream at the start of a trajectory."""

    @abc.abstractmethod
    def observe(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[Carry, jax.Array]:
        """Steps over a sequence: returns the carry after it, and states of shape (T, B, state_size)."""

    @abc.abstractmethod
    def loss(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[jax.Array, Learned]:
        """Returns the training loss, and the states with other auxiliary outputs."""


Make = Callable[[jax.Array], SequenceModel]


def initial_carry(model: SequenceModel, *streams: int) -> Carry:
    """Returns the initial carry with leading axes `streams`."""
    initial = jax.tree.map(jnp.asarray, model.initial())
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*streams, *leaf.shape)), initial)


def find_maker(name: str) -> Make:
    """Imports the class or function `package.module:Name` that creates a model from a key."""
    found = import_name(name, "model")
    if not callable(found):
        raise ValueError(f"invalid model {name!r}: it cannot be called with a key")
    if isinstance(found, type) and not issubclass(found, SequenceModel):
        raise ValueError(f"{name} is not a SequenceModel: see memory_maze.probing.model")
    return found
