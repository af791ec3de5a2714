"""A loop over time whose gradients cost little.

The gradient of `lax.scan` keeps whatever a step makes for the way back, array by array, and adds to the
slopes of all weights in every turn: with large weights that is most of the time, and with small numbers most
of the error. Here the loop keeps nothing but the carry. What the layers gave is made again for all turns at
once, the loop backwards only finds its slopes, and those of the weights are made of them afterwards.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Carry = Any
Layer = Callable[[jax.Array], jax.Array]  # a pytree of its weights; acts on the last axis
Step = Callable[[Mapping[str, Layer], Carry, Any, Any], tuple[Carry, Any]]
UNROLL = 4  # steps between two turns of a loop, each of which costs as much as a small kernel


def unroll(step: Step, layers: dict[str, Any], carry: Carry, xs: Any, given: Any = ()) -> tuple[Carry, Any]:
    """`lax.scan` of `step(layers, carry, x, given)`, which calls each layer once and uses no other weights.

    `xs` and all that `step` gives are floating point arrays. What is `given` to the steps has no gradient.
    """
    return _unroll(step, layers, carry, xs, given)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _unroll(step: Step, layers: dict[str, Any], carry: Carry, xs: Any, given: Any) -> tuple[Carry, Any]:
    return lax.scan(lambda carry, x: step(layers, carry, *x), carry, (xs, given), unroll=UNROLL)


def _forward(step: Step, layers: dict[str, Any], carry: Carry, xs: Any, given: Any) -> Any:
    def turn(carry: Carry, x: Any) -> tuple[Carry, Any]:
        carry, out = step(layers, carry, *x)
        return carry, (carry, out)

    last, (after, outs) = _scan(turn, carry, (xs, given))
    before = jax.tree.map(lambda first, later: jnp.concatenate([first[None], later[:-1]]), carry, after)
    return (last, outs), (layers, before, xs, given)


def _backward(step: Step, kept: Any, slopes: Any) -> Any:
    layers, before, xs, given = kept
    inputs, outputs = jax.vmap(functools.partial(_record, step, layers))(before, xs, given)

    def turn(later: Carry, now: Any) -> tuple[Carry, Any]:
        before, x, given, outputs, slope = now

        def run(before: Carry, x: Any, taps: Any) -> tuple[Carry, Any]:
            recalled = {name: _Recalled(layers[name], outputs[name], taps[name]) for name in layers}
            return step(recalled, before, x, given)

        _, pull = jax.vjp(run, before, x, jax.tree.map(jnp.zeros_like, outputs))
        to_before, *to_others = pull((later, slope))
        return to_before, to_others

    last, outs = slopes
    everything = before, xs, given, outputs, outs
    first, (to_xs, to_outputs) = _scan(turn, last, everything, reverse=True)
    to_layers = {
        name: jax.vjp(functools.partial(_call, inputs[name]), layer)[1](to_outputs[name])[0]
        for name, layer in layers.items()
    }
    return to_layers, first, to_xs, None


_unroll.defvjp(_forward, _backward)


def _scan(turn: Callable, carry: Carry, xs: Any, reverse: bool = False) -> tuple[Carry, Any]:
    """`lax.scan`, where an array that a turn gives twice is kept once."""
    places: list[int] = []
    structure: Any = None

    def once(carry: Carry, x: Any) -> tuple[Carry, list[jax.Array]]:
        nonlocal structure
        carry, out = turn(carry, x)
        leaves, structure = jax.tree.flatten(out)
        kept = list({id(leaf): leaf for leaf in leaves}.values())
        places[:] = [next(at for at, one in enumerate(kept) if one is leaf) for leaf in leaves]
        return carry, kept

    carry, kept = lax.scan(once, carry, xs, reverse=reverse, unroll=UNROLL)
    return carry, jax.tree.unflatten(structure, [kept[at] for at in places])


def _call(x: jax.Array, layer: Layer) -> jax.Array:
    return layer(x)


class _Recorded:
    """A layer that notes what it was given and what it made of it."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self.input: jax.Array | None = None

    def __call__(self, x: jax.Array) -> jax.Array:
        if self.input is not None:
            raise ValueError("a layer is called twice in a step: give it two names")
        self.input, self.output = x, self._layer(x)
        return self.output


def _record(step: Step, layers: dict[str, Any], carry: Carry, x: Any, given: Any) -> tuple[Any, Any]:
    """Of each layer, what it is given in a step and what it makes of it."""
    recorded = {name: _Recorded(layer) for name, layer in layers.items()}
    step(recorded, carry, x, given)
    inputs, outputs = (
        {name: getattr(recorded[name], what) for name in layers} for what in ("input", "output")
    )
    return inputs, outputs


class _Recalled:
    """A layer whose output is known. It adds nothing to it, of which the slope will be known."""

    def __init__(self, layer: Layer, output: jax.Array, tap: jax.Array) -> None:
        self._layer, self._output, self._tap = layer, output, tap

    def __call__(self, x: jax.Array) -> jax.Array:
        return _recall(self._layer, x, self._output) + self._tap


@jax.custom_vjp
def _recall(layer: Layer, x: jax.Array, output: jax.Array) -> jax.Array:
    return output


def _recall_forward(layer: Layer, x: jax.Array, output: jax.Array) -> tuple[jax.Array, Any]:
    return output, (layer, x)


def _recall_backward(kept: Any, slope: jax.Array) -> Any:
    layer, x = kept
    return None, jax.vjp(layer, x)[1](slope)[0], None


_recall.defvjp(_recall_forward, _recall_backward)
