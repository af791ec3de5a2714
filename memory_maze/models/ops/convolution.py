"""3x3 convolutions and pooling of (N, H, W, C), with gradients: kernels of our own where they are faster.

    conv         a convolution
    conv_pool    of which the largest of 3x3 at every second pixel
    residual     x plus two convolutions of it

They have their gradients written out, so that ReLUs, masks and sums are done where numbers are at hand.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from memory_maze.models.ops import convolution_kernels

_LAYOUT = ("NHWC", "HWIO", "NHWC")


class Weights(NamedTuple):
    """Of a 3x3 convolution."""

    weight: jax.Array  # (3, 3, I, O) float32
    bias: jax.Array  # (O,) float32
    packed: convolution_kernels.Packed | None = None  # for kernels, if it was made ready for them


def ready(weights: Weights, dtype: Any) -> Weights:
    """Weights for many uses without gradients, in the type of the computation."""
    has_kernel = _has_kernel(dtype, *weights.weight.shape[2:])
    packed = convolution_kernels.pack(weights.weight, weights.bias) if has_kernel else None
    return Weights(weights.weight.astype(dtype), weights.bias, packed)


@jax.custom_vjp
def conv(x: jax.Array, weights: Weights) -> jax.Array:
    """The convolution."""
    return convolve(x, weights)


conv.defvjp(
    lambda x, weights: (convolve(x, weights), (x, weights)),
    lambda kept, dy: (pull_back(dy, kept[1]), correlate(kept[0], dy)),
)


@jax.custom_vjp
def conv_pool(x: jax.Array, weights: Weights) -> jax.Array:
    """The largest of 3x3 numbers of the convolution, at every second pixel."""
    return _conv_pool_forward(x, weights)[0]


def _conv_pool_forward(x: jax.Array, weights: Weights) -> tuple[jax.Array, Any]:
    largest, which = pool(convolve(x, weights))
    return largest, (x, weights, which)


def _conv_pool_backward(kept: Any, dy: jax.Array) -> tuple[jax.Array, Weights]:
    x, weights, which = kept
    dy = unpool(dy, which)
    return pull_back(dy, weights), correlate(x, dy)


conv_pool.defvjp(_conv_pool_forward, _conv_pool_backward)


@jax.custom_vjp
def residual(x: jax.Array, first: Weights, second: Weights) -> jax.Array:
    """x + convolution(relu(convolution(relu(x))))."""
    return _residual_forward(x, first, second)[0]


def _residual_forward(x: jax.Array, first: Weights, second: Weights) -> tuple[jax.Array, Any]:
    middle = convolve(x, first, relu=True)
    return convolve(middle, second, skip=x, relu=True), (x, middle, first, second)


def _residual_backward(kept: Any, dy: jax.Array) -> tuple[jax.Array, Weights, Weights]:
    x, middle, first, second = kept
    dmiddle = pull_back(dy, second, mask=middle)
    return (
        pull_back(dmiddle, first, mask=x, skip=dy),
        correlate(x, dmiddle, relu=True),
        correlate(middle, dy, relu=True),
    )


residual.defvjp(_residual_forward, _residual_backward)


def convolve(x: jax.Array, weights: Weights, skip: jax.Array | None = None, relu: bool = False) -> jax.Array:
    """The convolution of x or relu(x), plus skip."""

    def with_kernel(x: jax.Array, weights: Weights, skip: jax.Array | None) -> jax.Array:
        packed = weights.packed or convolution_kernels.pack(weights.weight, weights.bias)
        return convolution_kernels.convolve(x, packed, skip, relu=relu)

    def with_xla(x: jax.Array, weights: Weights, skip: jax.Array | None) -> jax.Array:
        y = _conv(_rectify(x, relu), weights.weight.astype(x.dtype)) + weights.bias.astype(x.dtype)
        return y if skip is None else y + skip

    _, _, inputs, outputs = weights.weight.shape
    choice = _choose(x, inputs, outputs, with_kernel, with_xla)
    return choice(x, weights, skip)


def pull_back(
    dy: jax.Array, weights: Weights, mask: jax.Array | None = None, skip: jax.Array | None = None
) -> jax.Array:
    """The gradient of a convolution's input; 0 where the mask is not positive; plus skip."""

    def with_kernel(dy: jax.Array, weights: Weights, mask: Any, skip: Any) -> jax.Array:
        turned = weights.weight[::-1, ::-1].swapaxes(2, 3)
        packed = convolution_kernels.pack(turned, jnp.zeros(turned.shape[-1], jnp.float32))
        return convolution_kernels.convolve(dy, packed, skip, mask, relu=False)

    def with_xla(dy: jax.Array, weights: Weights, mask: Any, skip: Any) -> jax.Array:
        weight = weights.weight.astype(dy.dtype)
        dx = _conv(dy, weight[::-1, ::-1].swapaxes(2, 3))
        dx = dx if mask is None else jnp.where(mask > 0, dx, 0)
        return dx if skip is None else dx + skip

    _, _, inputs, outputs = weights.weight.shape
    choice = _choose(dy, outputs, inputs, with_kernel, with_xla)
    return choice(dy, weights, mask, skip)


def correlate(x: jax.Array, dy: jax.Array, relu: bool = False) -> Weights:
    """The gradients of a convolution's weights."""
    inputs, outputs = x.shape[-1], dy.shape[-1]

    def with_kernel(x: jax.Array, dy: jax.Array) -> Weights:
        return Weights(*convolution_kernels.correlate(x, dy, relu=relu))

    def with_xla(x: jax.Array, dy: jax.Array) -> Weights:
        # Nine products of matrices: XLA for CPUs is many times slower with such convolutions in a loop.
        _, height, width, _ = x.shape
        padded = jnp.pad(_rectify(x, relu), ((0, 0), (1, 1), (1, 1), (0, 0)))
        shifted = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        nine = [jnp.einsum("nhwi,nhwo->io", part, dy, preferred_element_type=jnp.float32) for part in shifted]
        return Weights(
            jnp.stack(nine).reshape(3, 3, inputs, outputs), dy.astype(jnp.float32).sum(axis=(0, 1, 2))
        )

    return _choose(x, inputs, outputs, with_kernel, with_xla)(x, dy)


def pool(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The largest of 3x3 at every second pixel, and which of the nine it was (uint8)."""

    def with_xla(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, height, width, _ = x.shape
        padded = jnp.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=-jnp.inf)
        nine = [padded[:, i : i + height : 2, j : j + width : 2] for i in range(3) for j in range(3)]
        best, which = nine[0], jnp.zeros(nine[0].shape, jnp.uint8)
        for k, value in enumerate(nine[1:], 1):
            which = jnp.where(value > best, jnp.uint8(k), which)
            best = jnp.maximum(value, best)
        return best, which

    return _choose(x, x.shape[-1], x.shape[-1], convolution_kernels.pool, with_xla)(x)


def unpool(dy: jax.Array, which: jax.Array) -> jax.Array:
    """The gradient of what was pooled."""

    def with_xla(dy: jax.Array, which: jax.Array) -> jax.Array:
        count, height, width, channels = dy.shape
        dx = jnp.zeros((count, 2 * height + 2, 2 * width + 2, channels), dy.dtype)
        for k in range(9):
            i, j = divmod(k, 3)
            here = jnp.where(which == k, dy, 0)
            dx = dx.at[:, i : i + 2 * height : 2, j : j + 2 * width : 2].add(here)
        return dx[:, : 2 * height, : 2 * width]

    return _choose(dy, dy.shape[-1], dy.shape[-1], convolution_kernels.unpool, with_xla, grow=4)(dy, which)


def _choose(
    x: jax.Array,
    inputs: int,
    outputs: int,
    with_kernel: Callable[..., Any],
    with_xla: Callable[..., Any],
    grow: int = 1,
) -> Callable[..., Any]:
    """Kernels on NVIDIA GPUs, if there are any for such channels; `grow` is how many more pixels come out."""
    numbers = grow * x.size // x.shape[-1] * max(inputs, outputs)
    if not _has_kernel(x.dtype, inputs, outputs) or numbers > convolution_kernels.MOST_NUMBERS:
        return with_xla
    return lambda *args: lax.platform_dependent(*args, cuda=with_kernel, default=with_xla)


def _has_kernel(dtype: Any, inputs: int, outputs: int) -> bool:
    return (
        dtype == jnp.bfloat16
        and inputs in convolution_kernels.INPUTS
        and outputs in convolution_kernels.OUTPUTS
    )


def _conv(x: jax.Array, weight: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=_LAYOUT)


def _rectify(x: jax.Array, relu: bool) -> jax.Array:
    return jnp.maximum(x, 0) if relu else x
