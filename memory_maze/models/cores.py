"""Memories: what a network carries from one step to the next.

A core is used in two ways, which give the same: step by step while acting,

    carry, out = core(carry, x, reset)

and over a whole sequence while learning, where what does not depend on the carry is done for all steps at
once. `reset` forgets: the carry is the initial one before the step.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from memory_maze.models.nets import Linear

Carry = Any  # a pytree of arrays


class Core(eqx.Module):
    """The interface of all memories, for one stream."""

    @abc.abstractmethod
    def initial(self) -> Carry:
        """At the start of an episode."""

    @abc.abstractmethod
    def prepare(self, x: jax.Array) -> jax.Array:
        """What a step needs of its input; (..., inputs) to (..., anything)."""

    @abc.abstractmethod
    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        """One step from a prepared input."""

    def __call__(self, carry: Carry, x: jax.Array, reset: jax.Array) -> tuple[Carry, jax.Array]:
        return self.step(self.forget(carry, reset), self.prepare(x))

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        """Steps over (T, inputs), with (T,) resets; gives (T, outputs)."""

        def step(carry: Carry, inputs: tuple[jax.Array, jax.Array]) -> tuple[Carry, jax.Array]:
            prepared, reset = inputs
            return self.step(self.forget(carry, reset), prepared)

        return lax.scan(step, carry, (self.prepare(xs), resets))

    def forget(self, carry: Carry, reset: jax.Array) -> Carry:
        """The carry, or the initial one."""
        return jax.tree.map(lambda new, old: jnp.where(reset, new, old), self.initial(), carry)


class LSTM(Core):
    """Long short-term memory."""

    inputs: Linear
    weight: jax.Array  # (size, 4 * size)

    def __init__(self, key: jax.Array, inputs: int, size: int) -> None:
        input_key, key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs, 4 * size)
        self.weight = jax.nn.initializers.orthogonal()(key, (size, 4 * size))

    def initial(self) -> Carry:
        zeros = jnp.zeros(len(self.weight))
        return zeros, zeros

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.inputs(x)

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        hidden, cell = carry
        entry, forget, update, output = jnp.split(prepared + hidden @ self.weight, 4)
        # Remembers at first, as usual: the forget gate starts open.
        cell = jax.nn.sigmoid(forget + 1) * cell + jax.nn.sigmoid(entry) * jnp.tanh(update)
        hidden = jax.nn.sigmoid(output) * jnp.tanh(cell)
        return (hidden, cell), hidden


class GRU(Core):
    """Gated recurrent unit."""

    inputs: Linear
    weight: jax.Array  # (size, 3 * size)

    def __init__(self, key: jax.Array, inputs: int, size: int) -> None:
        input_key, key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs, 3 * size)
        self.weight = jax.nn.initializers.orthogonal()(key, (size, 3 * size))

    def initial(self) -> Carry:
        return jnp.zeros(len(self.weight))

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.inputs(x)

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        ahead, update, candidate = jnp.split(prepared, 3)
        from_ahead, from_update, from_candidate = jnp.split(carry @ self.weight, 3)
        gate = jax.nn.sigmoid(ahead + from_ahead)
        keep = jax.nn.sigmoid(update + from_update - 1)
        new = jnp.tanh(candidate + gate * from_candidate)
        carry = keep * new + (1 - keep) * carry
        return carry, carry


class Memoryless(Core):
    """No memory, for comparison: as many parameters as it needs to give as large an output."""

    inputs: Linear

    def __init__(self, key: jax.Array, inputs: int, size: int) -> None:
        self.inputs = Linear(key, inputs, size, scale=math.sqrt(2))

    def initial(self) -> Carry:
        return ()

    def prepare(self, x: jax.Array) -> jax.Array:
        return jax.nn.relu(self.inputs(x))

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        return carry, prepared


class Forgetful(Core):
    """A memory that is emptied every so many steps, for comparison."""

    core: Core
    period: int = eqx.field(static=True)

    def initial(self) -> Carry:
        return self.core.initial(), jnp.int32(0)

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.core.prepare(x)

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        inner, steps = carry
        inner, out = self.core.step(self.core.forget(inner, steps == 0), prepared)
        return (inner, (steps + 1) % self.period), out


CORES = {"lstm": LSTM, "gru": GRU, "none": Memoryless}


def make_core(name: str, key: jax.Array, inputs: int, size: int, period: int | None = None) -> Core:
    """A core by its name; with a period it forgets everything so often."""
    if name not in CORES:
        raise ValueError(f"no core {name!r}: there are {', '.join(CORES)}")
    core = CORES[name](key, inputs, size)
    return core if period is None else Forgetful(core, period)
