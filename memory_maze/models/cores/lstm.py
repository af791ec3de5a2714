"""Long short-term memory (Hochreiter and Schmidhuber 1997)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from memory_maze.models.cores.chrono import sample_log_spans
from memory_maze.models.cores.core import Carry, Core
from memory_maze.models.nets import Linear
from memory_maze.models.ops.recurrence import UNROLL


class LSTM(Core):
    """The carry is (hidden, cell), and the output hidden.

    Args:
        key: Of the weights.
        inputs: Size of the input.
        size: Of the output.
        horizon: Initialise the gates for time spans of up to so many steps; None for a few.
    """

    inputs: Linear
    weight: jax.Array  # (size, 4 * size)

    def __init__(self, key: jax.Array, inputs: int, size: int, horizon: int | None = None) -> None:
        self.output_size = size
        input_key, key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs, 4 * size)
        self.weight = jax.nn.initializers.orthogonal()(key, (size, 4 * size))
        if horizon is not None:
            span, zeros = sample_log_spans(key, size, horizon), jnp.zeros(size)
            bias = jnp.concatenate([-span, span - 1, zeros, zeros])  # in the order of `_gates`
            self.inputs = eqx.tree_at(lambda layer: layer.bias, self.inputs, bias)

    def initial(self) -> Carry:
        zeros = jnp.zeros(self.output_size)
        return zeros, zeros

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.inputs(x)

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        hidden, cell = _step(self.weight, carry, prepared)
        return (hidden, cell), hidden

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        keep = 1 - resets[..., None].astype(jnp.float32)
        hiddens, cells = _unroll(self.weight, self.prepare(xs), keep, carry)
        return (hiddens[-1], cells[-1]), hiddens


def _gates(sums: jax.Array) -> tuple[jax.Array, ...]:
    """The input gate, the forget gate, the candidate for the cell, and the output gate."""
    input_gate, forget_gate, candidate, output_gate = jnp.split(sums, 4, axis=-1)
    # The forget gate starts open, as usual.
    return (
        jax.nn.sigmoid(input_gate),
        jax.nn.sigmoid(forget_gate + 1),
        jnp.tanh(candidate),
        jax.nn.sigmoid(output_gate),
    )


def _step(weight: jax.Array, carry: Carry, prepared: jax.Array) -> Carry:
    hidden, cell = carry
    input_gate, forget_gate, candidate, output_gate = _gates(prepared + hidden @ weight)
    cell = forget_gate * cell + input_gate * candidate
    return output_gate * jnp.tanh(cell), cell


@jax.custom_vjp
def _unroll(
    weight: jax.Array, prepared: jax.Array, keep: jax.Array, carry: Carry
) -> tuple[jax.Array, jax.Array]:
    """Hiddens and cells of all steps. Its gradient leaves in the loop only what must be step by step."""

    def step(carry: Carry, inputs: tuple[jax.Array, jax.Array]) -> tuple[Carry, Carry]:
        prepared, keep = inputs
        hidden, cell = carry
        carry = _step(weight, (keep * hidden, keep * cell), prepared)
        return carry, carry

    return lax.scan(step, carry, (prepared, keep), unroll=UNROLL)[1]


def _unroll_forward(weight: jax.Array, prepared: jax.Array, keep: jax.Array, carry: Carry) -> Any:
    outputs = _unroll(weight, prepared, keep, carry)
    return outputs, (weight, prepared, keep, carry, outputs)


def _unroll_backward(residuals: Any, cotangents: tuple[jax.Array, jax.Array]) -> Any:
    """Cotangents of the weight, of what was prepared, of `keep` (none) and of the first carry."""
    weight, prepared, keep, carry, outputs = residuals
    hiddens, cells = (
        keep * jnp.concatenate([first[None], later[:-1]]) for first, later in zip(carry, outputs, strict=True)
    )
    input_gate, forget_gate, candidate, output_gate = _gates(prepared + hiddens @ weight)
    tanh_cell = jnp.tanh(outputs[1])
    # Derivatives within a step, of all steps at once: of the hidden by the cell and by the output gate's sum,
    # of the cell by the other three sums and by the cell before.
    derivatives = (
        output_gate * (1 - tanh_cell**2),
        tanh_cell * output_gate * (1 - output_gate),
        jnp.concatenate(
            [
                candidate * input_gate * (1 - input_gate),
                cells * forget_gate * (1 - forget_gate),
                input_gate * (1 - candidate**2),
            ],
            axis=-1,
        ),
        forget_gate,
    )

    def step_back(from_later: Carry, inputs: tuple) -> tuple[Carry, jax.Array]:
        (hidden_by_cell, hidden_by_output, cell_by_sums, forget_gate), keep, from_outputs = inputs
        hidden, cell = (one + two for one, two in zip(from_later, from_outputs, strict=True))
        cell += hidden * hidden_by_cell
        sums = jnp.concatenate([cell, cell, cell], axis=-1) * cell_by_sums
        sums = jnp.concatenate([sums, hidden * hidden_by_output], axis=-1)
        return (keep * (sums @ weight.T), keep * (cell * forget_gate)), sums

    zeros = jax.tree.map(jnp.zeros_like, carry)
    inputs = derivatives, keep, cotangents
    first, sums = lax.scan(step_back, zeros, inputs, reverse=True, unroll=UNROLL)
    return jnp.einsum("...i,...j->ij", hiddens, sums), sums, jnp.zeros_like(keep), first


_unroll.defvjp(_unroll_forward, _unroll_backward)
