"""A loop over time whose gradients cost little.

The gradient of `lax.scan` adds to the slopes of all weights in every turn: with large weights that is most of
the time, and with small numbers most of the error. Here the loop backwards only finds the slopes of what each
layer gave; those of the weights are made of them afterwards, for all turns at once.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Carry = Any
Layer = Callable[[jax.Array], jax.Array]  # a pytree of its weights; acts on the last axis
Step = Callable[[Mapping[str, Layer], Carry, Any], tuple[Carry, Any]]


def unroll(step: Step, layers: dict[str, Any], carry: Carry, xs: Any) -> tuple[Carry, Any]:
    """`lax.scan` of `step(layers, carry, x)`, which calls each layer once and uses no other weights.

    `xs` are floating point arrays, and so is all that `step` gives.
    """
    return _unroll(step, layers, carry, xs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _unroll(step: Step, layers: dict[str, Any], carry: Carry, xs: Any) -> tuple[Carry, Any]:
    return lax.scan(functools.partial(step, layers), carry, xs)


def _forward(step: Step, layers: dict[str, Any], carry: Carry, xs: Any) -> Any:
    taps = _make_taps(step, layers, carry, xs)
    run = functools.partial(_unroll_tapped, step, layers)
    results, pull, inputs = jax.vjp(run, carry, xs, taps, has_aux=True)
    return results, (pull, inputs, layers)


def _backward(step: Step, kept: Any, slopes: Any) -> Any:
    pull, inputs, layers = kept
    to_carry, to_xs, to_taps = pull(slopes)
    to_layers = {
        name: jax.vjp(functools.partial(_call, inputs[name]), layer)[1](to_taps[name])[0]
        for name, layer in layers.items()
    }
    return to_layers, to_carry, to_xs


_unroll.defvjp(_forward, _backward)


def _call(x: jax.Array, layer: Layer) -> jax.Array:
    return layer(x)


class _Tap:
    """A layer that notes what it was given, and adds nothing, of which the slope will be known."""

    def __init__(self, layer: Layer, tap: jax.Array | None) -> None:
        self._layer, self._tap = layer, tap
        self.input: jax.Array | None = None

    def __call__(self, x: jax.Array) -> jax.Array:
        if self.input is not None:
            raise ValueError("a layer is called twice in a step: give it two names")
        self.input = x
        self.output = self._layer(x)
        return self.output if self._tap is None else self.output + self._tap


def _make_taps(step: Step, layers: dict[str, Any], carry: Carry, xs: Any) -> dict[str, jax.Array]:
    """Zeros of the shapes of what the layers give in all turns."""

    def outputs(carry: Carry, x: Any) -> dict[str, jax.Array]:
        tapped = {name: _Tap(layer, None) for name, layer in layers.items()}
        step(tapped, carry, x)
        return {name: tap.output for name, tap in tapped.items()}

    turns = len(jax.tree.leaves(xs)[0])
    shapes = jax.eval_shape(outputs, carry, jax.tree.map(lambda leaf: leaf[0], xs))
    return jax.tree.map(lambda leaf: jnp.zeros((turns, *leaf.shape), leaf.dtype), shapes)


def _unroll_tapped(step: Step, layers: dict[str, Any], carry: Carry, xs: Any, taps: Any) -> Any:
    def turn(carry: Carry, inputs: tuple[Any, Any]) -> tuple[Carry, Any]:
        x, taps = inputs
        tapped = {name: _Tap(layer, taps[name]) for name, layer in layers.items()}
        carry, out = step(tapped, carry, x)
        return carry, (out, {name: tap.input for name, tap in tapped.items()})

    carry, (outs, inputs) = lax.scan(turn, carry, (xs, taps))
    return (carry, outs), inputs
