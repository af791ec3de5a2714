"""Gated recurrent unit (Cho et al. 2014)."""

import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.cores.chrono import sample_log_spans
from memory_maze.models.cores.core import Carry, Core
from memory_maze.models.nets import Linear
from memory_maze.models.ops import recurrence


class GRU(Core):
    """The carry is the output.

    Args:
        key: Of the weights.
        inputs: Size of the input.
        size: Of the output.
        dtype: Of the matrices' products.
        horizon: Initialise the gates for time spans of up to so many steps; None for a few.
    """

    inputs: Linear
    weight: jax.Array  # (size, 3 * size)
    dtype: Any = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, inputs: int, size: int, dtype: Any = jnp.float32, horizon: int | None = None
    ) -> None:
        self.output_size, self.dtype = size, dtype
        input_key, key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs, 3 * size)
        self.weight = jax.nn.initializers.orthogonal()(key, (size, 3 * size))
        if horizon is not None:
            span, zeros = sample_log_spans(key, size, horizon), jnp.zeros(size)
            bias = jnp.concatenate([zeros, 1 - span, zeros])  # of reset gate, update gate and candidate
            self.inputs = eqx.tree_at(lambda layer: layer.bias, self.inputs, bias)

    def initial(self) -> Carry:
        return jnp.zeros(self.output_size)

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.inputs(x.astype(self.dtype))

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        return _step(self.dtype, {"recurrent": _Matrix(self.weight)}, carry, prepared, jnp.float32(1))

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        keep = 1 - resets[..., None].astype(jnp.float32)
        step = functools.partial(_step, self.dtype)
        recurrent = _Matrix(self.weight.astype(self.dtype))  # once, and not in every step
        return recurrence.unroll(step, {"recurrent": recurrent}, carry, self.prepare(xs), keep)


class _Matrix(eqx.Module):
    """A layer without a bias."""

    weight: jax.Array  # (inputs, outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight.astype(x.dtype)


def _step(
    dtype: Any,
    layers: Mapping[str, recurrence.Layer],
    carry: jax.Array,
    prepared: jax.Array,
    keep: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    carry = keep * carry
    reset_input, update_input, candidate_input = jnp.split(prepared.astype(jnp.float32), 3, axis=-1)
    recurrent = layers["recurrent"](carry.astype(dtype)).astype(jnp.float32)
    reset_carry, update_carry, candidate_carry = jnp.split(recurrent, 3, axis=-1)
    reset_gate = jax.nn.sigmoid(reset_input + reset_carry)
    update_gate = jax.nn.sigmoid(update_input + update_carry - 1)  # starts nearly closed: it remembers
    candidate = jnp.tanh(candidate_input + reset_gate * candidate_carry)
    carry = update_gate * candidate + (1 - update_gate) * carry
    return carry, carry
