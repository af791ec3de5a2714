"""Pictures to vectors and back: the convolutions of Dreamer (Hafner et al. 2020), and small ones for CPUs."""

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.nets import IMAGE_SIDE, MLP, Linear

_STRIDE = 2
_ENCODER = (4, 4, 4, 4)  # sides of the kernels
_DECODER = (5, 5, 6, 6)
_GROUPS = 64  # of pictures, whose gradients are computed apart


def to_numbers(images: jax.Array, shrink: int = 1) -> jax.Array:
    """(..., 64, 64, 3) uint8 to (..., S, S, 3) float32 from -0.5 to 0.5: means of squares of pixels."""
    *batch, side, _, colors = images.shape
    x = images.astype(jnp.float32) / 255 - 0.5
    if shrink == 1:
        return x
    small = side // shrink
    return x.reshape(*batch, small, shrink, small, shrink, colors).mean(axis=(-4, -2))


class Encoder(eqx.Module):
    """Four convolutions: (..., 64, 64, 3) uint8 to (..., 32 * depth)."""

    convs: list[tuple[jax.Array, jax.Array]]
    dtype: Any = eqx.field(static=True)

    def __init__(self, key: jax.Array, depth: int = 48, dtype: Any = jnp.float32) -> None:
        channels = (3, *(depth * 2**index for index in range(len(_ENCODER))))
        keys = jax.random.split(key, len(_ENCODER))
        self.convs = [_make_conv(*args) for args in zip(keys, _ENCODER, channels, channels[1:], strict=False)]
        self.dtype = dtype

    @property
    def outputs(self) -> int:
        return 4 * len(self.convs[-1][1])

    def __call__(self, images: jax.Array) -> jax.Array:
        batch = images.shape[:-3]
        x = to_numbers(images).astype(self.dtype).reshape(-1, *images.shape[-3:])
        for weight, bias in self.convs:
            x = jax.nn.elu(halve(x, weight.astype(x.dtype)) + bias.astype(x.dtype))
        return x.reshape(*batch, -1)


class Decoder(eqx.Module):
    """The way back: (..., inputs) to (..., 64, 64, 3) float32."""

    enter: Linear
    convs: list[tuple[jax.Array, jax.Array]]
    dtype: Any = eqx.field(static=True)

    def __init__(self, key: jax.Array, inputs: int, depth: int = 48, dtype: Any = jnp.float32) -> None:
        enter_key, *keys = jax.random.split(key, 1 + len(_DECODER))
        channels = (32 * depth, *(depth * 2**index for index in reversed(range(len(_DECODER) - 1))), 3)
        self.enter = Linear(enter_key, inputs, channels[0])
        self.convs = [_make_conv(*args) for args in zip(keys, _DECODER, channels, channels[1:], strict=False)]
        self.dtype = dtype

    def __call__(self, x: jax.Array) -> jax.Array:
        batch = x.shape[:-1]
        x = self.enter(x.astype(self.dtype)).reshape(math.prod(batch), 1, 1, -1)
        for index, (weight, bias) in enumerate(self.convs):
            x = jax.nn.elu(x) if index else x
            x = double(x, weight.astype(x.dtype)) + bias.astype(x.dtype)
        return x.reshape(*batch, *x.shape[1:]).astype(jnp.float32)

    def loss(self, x: jax.Array, images: jax.Array) -> jax.Array:
        """(...): minus the logarithm of the pictures' probability, but for a constant."""
        return 0.5 * jnp.square(self(x) - to_numbers(images)).sum(axis=(-3, -2, -1))


def halve(x: jax.Array, weight: jax.Array) -> jax.Array:
    """A convolution of stride 2, as one of stride 1 over squares of four pixels: three colours are slow."""
    side, _, inputs, outputs = weight.shape
    half = side // 2
    weight = weight.reshape(half, 2, half, 2, inputs, outputs).swapaxes(1, 2)
    weight = weight.reshape(half, half, 4 * inputs, outputs)
    count, height, width, _ = x.shape
    x = x[:, : height // 2 * 2, : width // 2 * 2]
    x = x.reshape(count, height // 2, 2, width // 2, 2, inputs).swapaxes(2, 3)
    return _conv(x.reshape(count, height // 2, width // 2, 4 * inputs), weight, 0)


def double(x: jax.Array, weight: jax.Array) -> jax.Array:
    """A transposed convolution of stride 2, as one of stride 1 that makes squares of four pixels."""
    side, _, inputs, outputs = weight.shape
    count, height, width, _ = x.shape
    if height == width == 1:
        weight = weight[::-1, ::-1].transpose(2, 0, 1, 3)
        return jnp.tensordot(x[:, 0, 0], weight, axes=1)
    shape = 2 * height - 2 + side, 2 * width - 2 + side
    if side % 2:
        weight = jnp.pad(weight, ((1, 0), (1, 0), (0, 0), (0, 0)))
    half = (side + 1) // 2
    weight = weight.reshape(half, 2, half, 2, inputs, outputs)[:, ::-1, :, ::-1].transpose(0, 2, 4, 1, 3, 5)
    x = _conv(x, weight.reshape(half, half, inputs, 4 * outputs), half - 1)
    x = x.reshape(*x.shape[:3], 2, 2, outputs).swapaxes(2, 3)
    return x.reshape(count, 2 * x.shape[1], -1, outputs)[:, : shape[0], : shape[1]]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _conv(x: jax.Array, weight: jax.Array, padding: int) -> jax.Array:
    """A convolution whose weights' gradient is a product of matrices: XLA's own is slow on GPUs."""
    return jax.lax.conv_general_dilated(
        x, weight, (1, 1), ((padding, padding),) * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _conv_forward(x: jax.Array, weight: jax.Array, padding: int) -> tuple[jax.Array, Any]:
    return _conv(x, weight, padding), (x, weight)


def _conv_backward(padding: int, kept: Any, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weight = kept
    side = len(weight)
    to_x = _conv(slope, weight[::-1, ::-1].swapaxes(2, 3), side - 1 - padding)
    count, height, width, outputs = slope.shape
    x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    seen = [x[:, i : i + height, j : j + width] for i in range(side) for j in range(side)]
    groups = math.gcd(count, _GROUPS)
    to_weight = jnp.einsum(
        "gni,gno->gio",
        jnp.concatenate(seen, axis=-1).reshape(groups, -1, side * side * x.shape[-1]),
        slope.reshape(groups, -1, outputs),
        preferred_element_type=jnp.float32,
    ).sum(axis=0)
    return to_x, to_weight.reshape(weight.shape).astype(weight.dtype)


_conv.defvjp(_conv_forward, _conv_backward)


def _make_conv(key: jax.Array, side: int, inputs: int, outputs: int) -> tuple[jax.Array, jax.Array]:
    weight = jax.nn.initializers.glorot_uniform(in_axis=(0, 1, 2))(key, (side, side, inputs, outputs))
    return weight, jnp.zeros(outputs)


class FlatEncoder(eqx.Module):
    """Sees the means of squares of pixels, by a network without convolutions."""

    net: MLP
    shrink: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, shrink: int, units: int, layers: int = 2) -> None:
        inputs = 3 * (IMAGE_SIDE // shrink) ** 2
        self.net, self.shrink = MLP(key, inputs, units, layers, units), shrink

    @property
    def outputs(self) -> int:
        return len(self.net.out.bias)

    def __call__(self, images: jax.Array) -> jax.Array:
        return jax.nn.elu(self.net(to_numbers(images, self.shrink).reshape(*images.shape[:-3], -1)))


class FlatDecoder(eqx.Module):
    """The way back, to means of squares."""

    net: MLP
    shrink: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, inputs: int, shrink: int, units: int, layers: int = 2) -> None:
        self.net = MLP(key, inputs, units, layers, 3 * (IMAGE_SIDE // shrink) ** 2)
        self.shrink = shrink

    def __call__(self, x: jax.Array) -> jax.Array:
        side = IMAGE_SIDE // self.shrink
        return self.net(x).reshape(*x.shape[:-1], side, side, 3)

    def loss(self, x: jax.Array, images: jax.Array) -> jax.Array:
        """As if each pixel of a square were its mean."""
        wrong = jnp.square(self(x) - to_numbers(images, self.shrink)).sum(axis=(-3, -2, -1))
        return 0.5 * self.shrink**2 * wrong


def make_vision(key: jax.Array, inputs: int, depth: int, shrink: int, dtype: Any) -> tuple[Any, Any]:
    """An encoder, and a decoder of vectors of so many inputs."""
    encoder_key, decoder_key = jax.random.split(key)
    if shrink > 1:
        units = 8 * depth
        return FlatEncoder(encoder_key, shrink, units), FlatDecoder(decoder_key, inputs, shrink, units)
    return Encoder(encoder_key, depth, dtype), Decoder(decoder_key, inputs, depth, dtype)
