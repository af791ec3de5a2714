"""Networks of (..., inputs): leading axes are a batch, if there are any."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.convolution import Weights, conv, conv_pool, residual

IMAGE_SIDE = 64
COLORS = 4  # of which the fourth is black: memory is read in powers of two


class Linear(eqx.Module):
    """A matrix and a bias. Weights are float32 and used in the type of the input."""

    weight: jax.Array  # (inputs, outputs)
    bias: jax.Array  # (outputs,)

    def __init__(self, key: jax.Array, inputs: int, outputs: int, scale: float = 1.0) -> None:
        self.weight = scale * jax.nn.initializers.lecun_normal()(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight.astype(x.dtype) + self.bias.astype(x.dtype)


class Stage(eqx.Module):
    """Half the resolution, if it is to be pooled, then two residual blocks."""

    conv: Weights
    blocks: list[tuple[Weights, Weights]]
    pooled: bool = eqx.field(static=True)

    def __init__(self, key: jax.Array, inputs: int, channels: int, pooled: bool) -> None:
        self.pooled = pooled
        keys = jax.random.split(key, 5)
        self.conv = _make_conv(keys[0], inputs, channels)
        first, second, third, fourth = (_make_conv(key, channels, channels) for key in keys[1:])
        self.blocks = [(first, second), (third, fourth)]

    def __call__(self, x: jax.Array) -> jax.Array:
        x = conv_pool(x, self.conv) if self.pooled else conv(x, self.conv)
        for first, second in self.blocks:
            x = residual(x, first, second)
        return x


def _make_conv(key: jax.Array, inputs: int, outputs: int) -> Weights:
    bound = 1 / math.sqrt(9 * inputs)
    weight = jax.random.uniform(key, (3, 3, inputs, outputs), minval=-bound, maxval=bound)
    return Weights(weight, jnp.zeros(outputs))


class ResNet(eqx.Module):
    """IMPALA's deep network (Espeholt et al. 2018): (..., 64, 64, 3) uint8 images to vectors.

    Args:
        key: Of the weights.
        outputs: Size of the vectors.
        channels: Of the stages, each at half the resolution of the one before.
        fold: See squares of four pixels as one with all their colours, where the first stage would take the
            largest of what it makes of each: nearly as much is seen in a quarter of the time.
        shrink: See the means of squares of so many pixels.
        dtype: Of the computation.
    """

    stages: list[Stage]
    out: Linear
    fold: bool = eqx.field(static=True)
    shrink: int = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        outputs: int,
        channels: tuple[int, ...] = (16, 32, 32),
        fold: bool = False,
        shrink: int = 1,
        dtype: Any = jnp.float32,
    ) -> None:
        out_key, *stage_keys = jax.random.split(key, 1 + len(channels))
        inputs = (4 * COLORS if fold else COLORS, *channels)
        self.stages = [
            Stage(key, inputs[index], inputs[index + 1], pooled=index > 0 or not fold)
            for index, key in enumerate(stage_keys)
        ]
        side = IMAGE_SIDE // shrink >> len(channels)
        self.out = Linear(out_key, side * side * inputs[-1], outputs, scale=math.sqrt(2))
        self.fold, self.shrink, self.dtype = fold, shrink, dtype

    def __call__(self, images: jax.Array) -> jax.Array:
        batch = images.shape[:-3]
        x = self._look(images.reshape(-1, *images.shape[-3:]))
        for stage in self.stages:
            x = stage(x)
        x = jax.nn.relu(x).reshape(*batch, -1)
        return jax.nn.relu(self.out(x)).astype(jnp.float32)

    def _look(self, images: jax.Array) -> jax.Array:
        """Numbers from 0 to 1: (N, S, S, 4), or (N, S / 2, S / 2, 16) folded."""
        x = images.astype(jnp.float32) / 255
        if self.shrink > 1:
            x = _squares(x, self.shrink).mean(axis=(2, 4))
        x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, COLORS - 3))).astype(self.dtype)
        if self.fold:
            x = _squares(x, 2).swapaxes(2, 3)
            x = x.reshape(*x.shape[:3], -1)
        return x

    def ready(self) -> "ResNet":
        """The same with its matrices in the type that they are used in: for acting many times."""
        return jax.tree.map(lambda leaf: leaf.astype(self.dtype) if leaf.ndim > 1 else leaf, self)


def _squares(x: jax.Array, side: int) -> jax.Array:
    """(N, H, W, C) to (N, H / side, side, W / side, side, C)."""
    count, height, width, channels = x.shape
    return x.reshape(count, height // side, side, width // side, side, channels)
