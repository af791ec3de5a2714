"""A scan over time whose gradients cost little.

The gradient of `lax.scan` keeps every intermediate array of a step for the way back, and adds to those
of all weights in every step: with large weights that is most of the time, and in low precision most of the
error. Here the scan keeps the carry alone. The layers' outputs are computed again for all steps at once; the
scan backwards finds nothing but their cotangents, and then the gradients of the weights are computed at once.
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
UNROLL = 4  # steps in an iteration of the compiled loop, each of which costs as much as a small kernel


def unroll(step: Step, layers: dict[str, Any], carry: Carry, xs: Any, given: Any = ()) -> tuple[Carry, Any]:
    """`lax.scan` of `step(layers, carry, x, given)`, which calls each layer once and uses no other weights.

    `xs` and all that `step` returns are floating point arrays. What is `given` to the steps has no gradient.
    """
    return _unroll(step, layers, carry, xs, given)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _unroll(step: Step, layers: dict[str, Any], carry: Carry, xs: Any, given: Any) -> tuple[Carry, Any]:
    return lax.scan(lambda carry, x: step(layers, carry, *x), carry, (xs, given), unroll=UNROLL)


def _forward(step: Step, layers: dict[str, Any], carry: Carry, xs: Any, given: Any) -> Any:
    def step_forward(carry: Carry, x: Any) -> tuple[Carry, Any]:
        carry, out = step(layers, carry, *x)
        return carry, (carry, out)

    last, (after, outs) = _scan(step_forward, carry, (xs, given))
    before = jax.tree.map(lambda first, later: jnp.concatenate([first[None], later[:-1]]), carry, after)
    return (last, outs), (layers, before, xs, given)


def _backward(step: Step, residuals: Any, cotangents: Any) -> Any:
    """Cotangents of the layers, of the first carry, of `xs` and of `given` (none)."""
    layers, before, xs, given = residuals
    inputs, outputs = jax.vmap(functools.partial(_record, step, layers))(before, xs, given)

    def step_back(of_carry: Carry, now: Any) -> tuple[Carry, Any]:
        before, x, given, outputs, of_out = now

        def replay(before: Carry, x: Any, offsets: Any) -> tuple[Carry, Any]:
            replayed = {name: _Replayed(layers[name], outputs[name], offsets[name]) for name in layers}
            return step(replayed, before, x, given)

        _, pull_back = jax.vjp(replay, before, x, jax.tree.map(jnp.zeros_like, outputs))
        of_before, *of_x_and_outputs = pull_back((of_carry, of_out))
        return of_before, of_x_and_outputs

    of_last, of_outs = cotangents
    everything = before, xs, given, outputs, of_outs
    of_first, (of_xs, of_outputs) = _scan(step_back, of_last, everything, reverse=True)
    of_layers = {
        name: jax.vjp(functools.partial(_call, inputs[name]), layer)[1](of_outputs[name])[0]
        for name, layer in layers.items()
    }
    return of_layers, of_first, of_xs, None


_unroll.defvjp(_forward, _backward)


def _scan(step: Callable, carry: Carry, xs: Any, reverse: bool = False) -> tuple[Carry, Any]:
    """`lax.scan`, where an array that a step returns twice is kept once."""
    places: list[int] = []
    structure: Any = None

    def step_once(carry: Carry, x: Any) -> tuple[Carry, list[jax.Array]]:
        nonlocal structure
        carry, out = step(carry, x)
        leaves, structure = jax.tree.flatten(out)
        kept = list({id(leaf): leaf for leaf in leaves}.values())
        places[:] = [next(at for at, one in enumerate(kept) if one is leaf) for leaf in leaves]
        return carry, kept

    carry, kept = lax.scan(step_once, carry, xs, reverse=reverse, unroll=UNROLL)
    return carry, jax.tree.unflatten(structure, [kept[at] for at in places])


def _call(x: jax.Array, layer: Layer) -> jax.Array:
    return layer(x)


class _Recorded:
    """A layer that notes its input and its output."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self.input: jax.Array | None = None

    def __call__(self, x: jax.Array) -> jax.Array:
        if self.input is not None:
            raise ValueError("a layer is called twice in a step: give it two names")
        self.input, self.output = x, self._layer(x)
        return self.output


def _record(step: Step, layers: dict[str, Any], carry: Carry, x: Any, given: Any) -> tuple[Any, Any]:
    """The input and the output of each layer in a step."""
    recorded = {name: _Recorded(layer) for name, layer in layers.items()}
    step(recorded, carry, x, given)
    inputs, outputs = (
        {name: getattr(recorded[name], what) for name in layers} for what in ("input", "output")
    )
    return inputs, outputs


class _Replayed:
    """A layer whose output is known. The offset is zero: its cotangent is that of the output."""

    def __init__(self, layer: Layer, output: jax.Array, offset: jax.Array) -> None:
        self._layer, self._output, self._offset = layer, output, offset

    def __call__(self, x: jax.Array) -> jax.Array:
        return _replay(self._layer, x, self._output) + self._offset


@jax.custom_vjp
def _replay(layer: Layer, x: jax.Array, output: jax.Array) -> jax.Array:
    """The known output, with the gradient of the layer by its input, not by its weights."""
    return output


def _replay_forward(layer: Layer, x: jax.Array, output: jax.Array) -> tuple[jax.Array, Any]:
    return output, (layer, x)


def _replay_backward(residuals: Any, cotangent: jax.Array) -> Any:
    layer, x = residuals
    return None, jax.vjp(layer, x)[1](cotangent)[0], None


_replay.defvjp(_replay_forward, _replay_backward)
