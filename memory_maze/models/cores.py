"""Memories: what a network carries from one step to the next.

A core is used in two ways, which give the same: step by step while acting,

    carry, out = core(carry, x, reset)

and over a whole sequence while learning, where what does not depend on the carry is done for all steps at
once. `reset` forgets: the carry is the initial one before the step. Leading axes are a batch, if there are
any.
"""

import abc
import functools
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from memory_maze.models.ops import recurrence
from memory_maze.models.nets import Linear

Carry = Any  # a pytree of arrays


class Core(eqx.Module):
    """The interface of all memories."""

    @abc.abstractmethod
    def initial(self) -> Carry:
        """At the start of an episode; of one stream."""

    @abc.abstractmethod
    def prepare(self, x: jax.Array) -> jax.Array:
        """What a step needs of its input; (..., inputs) to (..., anything)."""

    @abc.abstractmethod
    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        """One step from a prepared input."""

    def __call__(self, carry: Carry, x: jax.Array, reset: jax.Array) -> tuple[Carry, jax.Array]:
        return self.step(self.forget(carry, reset), self.prepare(x))

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        """Steps over (T, ..., inputs), with (T, ...) resets; gives (T, ..., outputs)."""

        def step(carry: Carry, inputs: tuple[jax.Array, jax.Array]) -> tuple[Carry, jax.Array]:
            prepared, reset = inputs
            return self.step(self.forget(carry, reset), prepared)

        return lax.scan(step, carry, (self.prepare(xs), resets))

    def forget(self, carry: Carry, reset: jax.Array) -> Carry:
        """The carry, or the initial one."""

        def choose(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(jnp.expand_dims(reset, range(reset.ndim, old.ndim)), new, old)

        return jax.tree.map(choose, self.initial(), carry)


class LSTM(Core):
    """Long short-term memory."""

    inputs: Linear
    weight: jax.Array  # (size, 4 * size)

    def __init__(self, key: jax.Array, inputs: int, size: int, horizon: int | None = None) -> None:
        input_key, key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs, 4 * size)
        self.weight = jax.nn.initializers.orthogonal()(key, (size, 4 * size))
        if horizon is not None:
            span, zeros = _draw_spans(key, size, horizon), jnp.zeros(size)
            bias = jnp.concatenate([-span, span - 1, zeros, zeros])  # of entry, forget, update and output
            self.inputs = eqx.tree_at(lambda layer: layer.bias, self.inputs, bias)

    def initial(self) -> Carry:
        zeros = jnp.zeros(len(self.weight))
        return zeros, zeros

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.inputs(x)

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        hidden, cell = carry
        entry, forget, update, output = _gates(prepared + hidden @ self.weight)
        cell = forget * cell + entry * update
        hidden = output * jnp.tanh(cell)
        return (hidden, cell), hidden

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        keep = 1 - resets[..., None].astype(jnp.float32)
        hiddens, cells = _unroll_lstm(self.weight, self.prepare(xs), keep, carry)
        return (hiddens[-1], cells[-1]), hiddens


def _draw_spans(key: jax.Array, size: int, horizon: int) -> jax.Array:
    """Logarithms of time spans of up to so many steps, one for each unit (Tallec & Ollivier 2018)."""
    if horizon < 3:
        raise ValueError(f"a horizon of {horizon} steps: memories span at least 3")
    return jnp.log(jax.random.uniform(jax.random.fold_in(key, 1), (size,), minval=1.0, maxval=horizon - 1.0))


def _gates(sums: jax.Array) -> tuple[jax.Array, ...]:
    """Entry, forget, update and output."""
    entry, forget, update, output = jnp.split(sums, 4, axis=-1)
    # Remembers at first, as usual: the forget gate starts open.
    return jax.nn.sigmoid(entry), jax.nn.sigmoid(forget + 1), jnp.tanh(update), jax.nn.sigmoid(output)


@jax.custom_vjp
def _unroll_lstm(
    weight: jax.Array, prepared: jax.Array, keep: jax.Array, carry: Carry
) -> tuple[jax.Array, jax.Array]:
    """Hiddens and cells of all steps. Its gradient leaves in the loop only what must be step by step."""

    def step(carry: Carry, inputs: tuple[jax.Array, jax.Array]) -> tuple[Carry, Carry]:
        prepared, keep = inputs
        hidden, cell = (keep * leaf for leaf in carry)
        entry, forget, update, output = _gates(prepared + hidden @ weight)
        cell = forget * cell + entry * update
        hidden = output * jnp.tanh(cell)
        return (hidden, cell), (hidden, cell)

    return lax.scan(step, carry, (prepared, keep), unroll=recurrence.UNROLL)[1]


def _unroll_lstm_forward(weight: jax.Array, prepared: jax.Array, keep: jax.Array, carry: Carry) -> Any:
    outputs = _unroll_lstm(weight, prepared, keep, carry)
    return outputs, (weight, prepared, keep, carry, outputs)


def _unroll_lstm_backward(kept: Any, slopes: tuple[jax.Array, jax.Array]) -> Any:
    weight, prepared, keep, carry, outputs = kept
    hiddens, cells = (
        keep * jnp.concatenate([first[None], later[:-1]]) for first, later in zip(carry, outputs, strict=True)
    )
    entry, forget, update, output = _gates(prepared + hiddens @ weight)
    bent = jnp.tanh(outputs[1])
    factors = (
        output * (1 - bent**2),
        bent * output * (1 - output),
        jnp.concatenate(
            [update * entry * (1 - entry), cells * forget * (1 - forget), entry * (1 - update**2)], axis=-1
        ),
        forget,
        keep,
    )

    def step(later: Carry, inputs: tuple) -> tuple[Carry, jax.Array]:
        (to_cell, to_output, to_others, forget, keep), slope = inputs
        hidden, cell = (one + two for one, two in zip(later, slope, strict=True))
        cell += hidden * to_cell
        others = jnp.concatenate([cell, cell, cell], axis=-1) * to_others
        sums = jnp.concatenate([others, hidden * to_output], axis=-1)
        return (keep * (sums @ weight.T), keep * (cell * forget)), sums

    zeros = jax.tree.map(jnp.zeros_like, carry)
    first, sums = lax.scan(step, zeros, (factors, slopes), reverse=True, unroll=recurrence.UNROLL)
    change = jnp.einsum("...i,...j->ij", hiddens, sums)
    return change, sums, jnp.zeros_like(keep), first


_unroll_lstm.defvjp(_unroll_lstm_forward, _unroll_lstm_backward)


class GRU(Core):
    """Gated recurrent unit."""

    inputs: Linear
    weight: jax.Array  # (size, 3 * size)
    dtype: Any = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, inputs: int, size: int, dtype: Any = jnp.float32, horizon: int | None = None
    ) -> None:
        input_key, key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs, 3 * size)
        self.weight = jax.nn.initializers.orthogonal()(key, (size, 3 * size))
        self.dtype = dtype
        if horizon is not None:
            span, zeros = _draw_spans(key, size, horizon), jnp.zeros(size)
            bias = jnp.concatenate([zeros, 1 - span, zeros])  # of reset, update and candidate
            self.inputs = eqx.tree_at(lambda layer: layer.bias, self.inputs, bias)

    def initial(self) -> Carry:
        return jnp.zeros(len(self.weight))

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.inputs(x.astype(self.dtype))

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        return _step_gru(self.dtype, {"again": _Matrix(self.weight)}, carry, prepared, jnp.float32(1))

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        keep = 1 - resets[..., None].astype(jnp.float32)
        step = functools.partial(_step_gru, self.dtype)
        again = _Matrix(self.weight.astype(self.dtype))  # once, and not in every step
        return recurrence.unroll(step, {"again": again}, carry, self.prepare(xs), keep)


class _Matrix(eqx.Module):
    """A layer without a bias."""

    weight: jax.Array  # (inputs, outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight.astype(x.dtype)


def _step_gru(
    dtype: Any,
    layers: Mapping[str, recurrence.Layer],
    carry: jax.Array,
    prepared: jax.Array,
    keep: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    carry = keep * carry
    ahead, update, candidate = jnp.split(prepared.astype(jnp.float32), 3, axis=-1)
    again = layers["again"](carry.astype(dtype)).astype(jnp.float32)
    from_ahead, from_update, from_candidate = jnp.split(again, 3, axis=-1)
    gate = jax.nn.sigmoid(ahead + from_ahead)
    share = jax.nn.sigmoid(update + from_update - 1)  # remembers at first
    new = jnp.tanh(candidate + gate * from_candidate)
    carry = share * new + (1 - share) * carry
    return carry, carry


class Memoryless(Core):
    """No memory, for comparison: as many parameters as it needs to give as large an output."""

    inputs: Linear

    def __init__(self, key: jax.Array, inputs: int, size: int, horizon: int | None = None) -> None:
        if horizon is not None:
            raise ValueError("core=none remembers nothing: it has no horizon")
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


def make_core(
    name: str,
    key: jax.Array,
    inputs: int,
    size: int,
    period: int | None = None,
    horizon: int | None = None,
) -> Core:
    """A core by its name; with a period it forgets everything so often, with a horizon not soon at first."""
    if name not in CORES:
        raise ValueError(f"no core {name!r}: there are {', '.join(CORES)}")
    core = CORES[name](key, inputs, size, horizon=horizon)
    return core if period is None else Forgetful(core, period)
