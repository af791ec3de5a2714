"""Small networks of one input each; `vmap` makes batches."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax


class Linear(eqx.Module):
    """A matrix and a bias. Weights are float32 and used in the type of the input."""

    weight: jax.Array  # (inputs, outputs)
    bias: jax.Array  # (outputs,)

    def __init__(self, key: jax.Array, inputs: int, outputs: int, scale: float = 1.0) -> None:
        self.weight = scale * jax.nn.initializers.lecun_normal()(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight.astype(x.dtype) + self.bias.astype(x.dtype)


class Conv(eqx.Module):
    """A 3x3 convolution of (H, W, C)."""

    weight: jax.Array  # (3, 3, inputs, outputs)
    bias: jax.Array  # (outputs,)

    def __init__(self, key: jax.Array, inputs: int, outputs: int) -> None:
        bound = 1 / math.sqrt(9 * inputs)
        self.weight = jax.random.uniform(key, (3, 3, inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        layout = ("NHWC", "HWIO", "NHWC")
        weight = self.weight.astype(x.dtype)
        y = lax.conv_general_dilated(x[None], weight, (1, 1), "SAME", dimension_numbers=layout)[0]
        return y + self.bias.astype(x.dtype)


class Residual(eqx.Module):
    """x plus two convolutions of it."""

    first: Conv
    second: Conv

    def __init__(self, key: jax.Array, channels: int) -> None:
        keys = jax.random.split(key)
        self.first, self.second = (Conv(key, channels, channels) for key in keys)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.second(jax.nn.relu(self.first(jax.nn.relu(x))))


class Stage(eqx.Module):
    """Half the resolution, then two residual blocks."""

    conv: Conv
    blocks: list[Residual]

    def __init__(self, key: jax.Array, inputs: int, channels: int) -> None:
        conv_key, *block_keys = jax.random.split(key, 3)
        self.conv = Conv(conv_key, inputs, channels)
        self.blocks = [Residual(block_key, channels) for block_key in block_keys]

    def __call__(self, x: jax.Array) -> jax.Array:
        x = halve(self.conv(x))
        for block in self.blocks:
            x = block(x)
        return x


def halve(x: jax.Array) -> jax.Array:
    """The largest of 3x3 at every second pixel."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (3, 3, 1), (2, 2, 1), "SAME")


class ResNet(eqx.Module):
    """IMPALA's deep network (Espeholt et al. 2018): a (64, 64, 3) uint8 image to a vector."""

    stages: list[Stage]
    out: Linear
    dtype: Any = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, outputs: int, channels: tuple[int, ...] = (16, 32, 32), dtype: Any = jnp.float32
    ) -> None:
        out_key, *stage_keys = jax.random.split(key, 1 + len(channels))
        inputs = (3, *channels)
        self.stages = [Stage(k, i, o) for k, i, o in zip(stage_keys, inputs, channels, strict=False)]
        side = 64 >> len(channels)
        self.out = Linear(out_key, side * side * channels[-1], outputs, scale=math.sqrt(2))
        self.dtype = dtype

    def __call__(self, image: jax.Array) -> jax.Array:
        x = image.astype(self.dtype) / 255
        for stage in self.stages:
            x = stage(x)
        return jax.nn.relu(self.out(jax.nn.relu(x).reshape(-1))).astype(jnp.float32)
