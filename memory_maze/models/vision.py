"""Pictures to vectors and back: the convolutions of Dreamer (Hafner et al. 2020), and small ones for CPUs."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.nets import COLORS, IMAGE_SIDE, MLP, Linear, elu, fold, unfold

_ENCODER = (4, 4, 4, 4)  # sides of the kernels
_DECODER = (5, 5, 6, 6)


def pool(images: jax.Array, shrink: int) -> jax.Array:
    """(..., 64, 64, 3) uint8 to (..., S, S, 3) uint8: means of squares of pixels."""
    if shrink == 1:
        return images
    return jnp.round(_means(images.astype(jnp.float32), shrink)).astype(jnp.uint8)


def to_numbers(images: jax.Array, shrink: int = 1) -> jax.Array:
    """(..., 64, 64, 3) uint8 to (..., S, S, 3) float32 from -0.5 to 0.5: means of squares of pixels.

    Images that are pooled already stay as they are.
    """
    x = images.astype(jnp.float32) / 255 - 0.5
    return x if images.shape[-2] * shrink == IMAGE_SIDE else _means(x, shrink)


def _means(x: jax.Array, shrink: int) -> jax.Array:
    *batch, side, _, colors = x.shape
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
        x = _see(images).astype(self.dtype)
        for index, (weight, bias) in enumerate(self.convs):
            weight, bias = weight.astype(x.dtype), bias.astype(x.dtype)
            x = halve(x, weight) if index else _conv(x, _fold_weight(_blacken(weight, 2)), 0)
            x = elu(x + bias)
        return x.reshape(*images.shape[:-3], -1)


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
        image = unfold(self._draw(x))[..., :3]
        return image.reshape(*x.shape[:-1], *image.shape[1:])

    def loss(self, x: jax.Array, images: jax.Array) -> jax.Array:
        """(...): minus the logarithm of the pictures' probability, but for a constant."""
        # Squares of pixels stay together on both sides: nobody asks where they are.
        wrong = jnp.square(self._draw(x) - _see(images)).sum(axis=(-3, -2, -1))
        return 0.5 * wrong.reshape(x.shape[:-1])

    def _draw(self, x: jax.Array) -> jax.Array:
        """(N, 32, 32, 16) float32: folded, with black."""
        x = self.enter(x.astype(self.dtype)).reshape(math.prod(x.shape[:-1]), 1, 1, -1)
        for index, (weight, bias) in enumerate(self.convs[:-1]):
            x = elu(x) if index else x
            x = double(x, weight.astype(x.dtype), bias.astype(x.dtype))
        weight, bias = (_blacken(part.astype(x.dtype), -1) for part in self.convs[-1])
        x = _conv(elu(x), _make_phases(weight), len(weight) // 2 - 1) + jnp.tile(bias, 4)
        return x.astype(jnp.float32)


def _see(images: jax.Array) -> jax.Array:
    """(..., 64, 64, 3) uint8 to (N, 32, 32, 16) float32 from -0.5 to 0.5: folded, with black, which is 0."""
    return fold(_blacken(to_numbers(images.reshape(-1, *images.shape[-3:])), -1))


def _blacken(x: jax.Array, axis: int) -> jax.Array:
    """With a fourth colour that is nothing."""
    return jnp.pad(x, [(0, COLORS - 3) if index == axis % x.ndim else (0, 0) for index in range(x.ndim)])


def halve(x: jax.Array, weight: jax.Array) -> jax.Array:
    """A convolution of stride 2, as one of stride 1 over squares of four pixels."""
    _, height, width, _ = x.shape
    return _conv(fold(x[:, : height // 2 * 2, : width // 2 * 2]), _fold_weight(weight), 0)


def double(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """A transposed convolution of stride 2, as one of stride 1 that makes squares of four pixels."""
    side = len(weight)
    _, height, width, _ = x.shape
    if height == width == 1:
        return jnp.tensordot(x[:, 0, 0], weight[::-1, ::-1].transpose(2, 0, 1, 3), axes=1) + bias
    # The bias is added while it is one number for each channel: cuDNN does it on the way.
    made = unfold(_conv(x, _make_phases(weight), (side + 1) // 2 - 1) + jnp.tile(bias, 4))
    return made[:, : 2 * height - 2 + side, : 2 * width - 2 + side]


def _fold_weight(weight: jax.Array) -> jax.Array:
    side, _, inputs, outputs = weight.shape
    weight = weight.reshape(side // 2, 2, side // 2, 2, inputs, outputs).swapaxes(1, 2)
    return weight.reshape(side // 2, side // 2, 4 * inputs, outputs)


def _make_phases(weight: jax.Array) -> jax.Array:
    """Of a transposed convolution, the weights of all four pixels of a square."""
    side, _, inputs, outputs = weight.shape
    if side % 2:
        weight = jnp.pad(weight, ((1, 0), (1, 0), (0, 0), (0, 0)))
    half = (side + 1) // 2
    weight = weight.reshape(half, 2, half, 2, inputs, outputs)[:, ::-1, :, ::-1]
    return weight.transpose(0, 2, 4, 1, 3, 5).reshape(half, half, inputs, 4 * outputs)


def _conv(x: jax.Array, weight: jax.Array, padding: int) -> jax.Array:
    if padding:
        # Apart, for XLA would move it into the gradient of the weights, and no longer see that it is one: it
        # would then be a convolution with pictures as kernels, which is slow.
        x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
        x = jax.lax.optimization_barrier(x)
    return jax.lax.conv_general_dilated(
        x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _make_conv(key: jax.Array, side: int, inputs: int, outputs: int) -> tuple[jax.Array, jax.Array]:
    weight = jax.nn.initializers.glorot_uniform()(key, (side, side, inputs, outputs))
    return weight, jnp.zeros(outputs)


class FlatEncoder(eqx.Module):
    """Sees the means of squares of pixels, by a network without convolutions."""

    net: MLP
    shrink: int = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, shrink: int, units: int, layers: int = 2, epsilon: float | None = None
    ) -> None:
        inputs = 3 * (IMAGE_SIDE // shrink) ** 2
        self.net, self.shrink = MLP(key, inputs, units, layers, units, epsilon), shrink

    @property
    def outputs(self) -> int:
        return len(self.net.out.bias)

    def __call__(self, images: jax.Array) -> jax.Array:
        return elu(self.net(to_numbers(images, self.shrink).reshape(*images.shape[:-3], -1)))


class FlatDecoder(eqx.Module):
    """The way back, to means of squares."""

    net: MLP
    shrink: int = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        inputs: int,
        shrink: int,
        units: int,
        layers: int = 2,
        epsilon: float | None = None,
    ) -> None:
        self.net = MLP(key, inputs, units, layers, 3 * (IMAGE_SIDE // shrink) ** 2, epsilon)
        self.shrink = shrink

    def __call__(self, x: jax.Array) -> jax.Array:
        side = IMAGE_SIDE // self.shrink
        return self.net(x).reshape(*x.shape[:-1], side, side, 3)

    def loss(self, x: jax.Array, images: jax.Array) -> jax.Array:
        """As if each pixel of a square were its mean."""
        wrong = jnp.square(self(x) - to_numbers(images, self.shrink)).sum(axis=(-3, -2, -1))
        return 0.5 * self.shrink**2 * wrong


def make_vision(
    key: jax.Array,
    inputs: int,
    depth: int,
    shrink: int,
    dtype: Any,
    units: int | None = None,
    layers: int = 2,
    epsilon: float | None = None,
) -> tuple[Any, Any]:
    """An encoder, and a decoder of vectors of so many inputs.

    Args:
        key: Of the weights.
        inputs: Size of the decoder's vectors.
        depth: Channels of the first convolution.
        shrink: With more than 1, networks without convolutions see the means of squares of so many pixels.
        dtype: Of the convolutions.
        units: Of the hidden layers of networks without convolutions; by default eight for each channel.
        layers: How many hidden layers these have.
        epsilon: Of their layer norms; None for no norms.
    """
    encoder_key, decoder_key = jax.random.split(key)
    if shrink == 1:
        return Encoder(encoder_key, depth, dtype), Decoder(decoder_key, inputs, depth, dtype)
    net = units or 8 * depth, layers, epsilon
    return FlatEncoder(encoder_key, shrink, *net), FlatDecoder(decoder_key, inputs, shrink, *net)
