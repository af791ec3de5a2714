"""Networks of (..., inputs): leading axes are a batch, if there are any."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.ops.convolution import Weights, conv, conv_pool, ready, residual

IMAGE_SIDE = 64
COLORS = 4  # of which the fourth is black: memory is read in powers of two


@jax.custom_vjp
def elu(x: jax.Array) -> jax.Array:
    """The exponential linear unit, whose gradient needs nothing but what it gave."""
    return jax.nn.elu(x)


def _elu_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = elu(x)
    return y, y


def _elu_backward(y: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
    return (jnp.where(y > 0, cotangent, cotangent * (y + 1)),)


elu.defvjp(_elu_forward, _elu_backward)


class Linear(eqx.Module):
    """A matrix and a bias. Weights are float32 and used in the type of the input."""

    weight: jax.Array  # (inputs, outputs)
    bias: jax.Array  # (outputs,)

    def __init__(self, key: jax.Array, inputs: int, outputs: int, scale: float = 1.0) -> None:
        self.weight = scale * jax.nn.initializers.glorot_uniform()(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight.astype(x.dtype) + self.bias.astype(x.dtype)


def upper(layer: Linear, inputs: int) -> Linear:
    """The part of a layer that takes its first inputs, with all of its bias."""
    return eqx.tree_at(lambda layer: layer.weight, layer, layer.weight[:inputs])


class LayerNorm(eqx.Module):
    """Mean 0 and standard deviation 1 over the last axis, then a scale and an offset (Ba et al. 2016)."""

    scale: jax.Array  # (size,)
    offset: jax.Array  # (size,)
    epsilon: float = eqx.field(static=True)

    def __init__(self, size: int, epsilon: float = 1e-6) -> None:
        self.scale, self.offset, self.epsilon = jnp.ones(size), jnp.zeros(size), epsilon

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.astype(jnp.float32)
        x = x - x.mean(axis=-1, keepdims=True)
        variance = jnp.square(x).mean(axis=-1, keepdims=True)
        return x * jax.lax.rsqrt(variance + self.epsilon) * self.scale + self.offset


class MLP(eqx.Module):
    """Hidden layers of one size with ELU, and a linear one at the end.

    Args:
        key: Of the weights.
        inputs: Size of the input.
        units: Of each hidden layer.
        layers: How many hidden ones.
        outputs: Size of the output, which is float32.
        epsilon: Of layer norms before the ELUs; None for no norms.
        dtype: Of the matrices' products.
        init: What weights are initialised as; "pytorch" means what PyTorch does by itself, biases too.
        zero: Let all outputs be 0 at first.
    """

    hidden: list[Linear]
    norms: list[LayerNorm] | None
    out: Linear
    dtype: Any = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        inputs: int,
        units: int,
        layers: int,
        outputs: int,
        epsilon: float | None = None,
        dtype: Any = jnp.float32,
        *,
        init: Literal["glorot", "pytorch"] = "glorot",
        zero: bool = False,
    ) -> None:
        out_key, *keys = jax.random.split(key, 1 + layers)
        sizes = (inputs, *[units] * layers)
        make = _pytorch_linear if init == "pytorch" else Linear
        self.hidden = [make(key, sizes[index], units) for index, key in enumerate(keys)]
        self.norms = None if epsilon is None else [LayerNorm(units, epsilon) for _ in keys]
        self.out = make(out_key, sizes[-1], outputs)
        self.out = jax.tree.map(jnp.zeros_like, self.out) if zero else self.out
        self.dtype = dtype

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.astype(self.dtype)
        for index, layer in enumerate(self.hidden):
            x = layer(x)
            if self.norms is not None:
                x = self.norms[index](x).astype(self.dtype)
            x = elu(x)
        product = jnp.matmul(x, self.out.weight.astype(x.dtype), preferred_element_type=jnp.float32)
        return product + self.out.bias


def _pytorch_linear(key: jax.Array, inputs: int, outputs: int) -> Linear:
    """Weights and biases within 1 / sqrt(inputs)."""
    weight_key, bias_key = jax.random.split(key)
    limit = inputs**-0.5
    weight = jax.random.uniform(weight_key, (inputs, outputs), minval=-limit, maxval=limit)
    bias = jax.random.uniform(bias_key, (outputs,), minval=-limit, maxval=limit)
    return eqx.tree_at(
        lambda layer: (layer.weight, layer.bias), Linear(weight_key, inputs, outputs), (weight, bias)
    )


class Stage(eqx.Module):
    """Half the resolution, if it is to be pooled, then residual blocks."""

    conv: Weights
    blocks: list[tuple[Weights, Weights]]
    pooled: bool = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, inputs: int, channels: int, blocks: int, pooled: bool, small: bool = False
    ) -> None:
        self.pooled = pooled
        key, *keys = jax.random.split(key, 1 + 2 * blocks)
        self.conv = _make_conv(key, inputs, channels, small)
        convs = [_make_conv(key, channels, channels, small) for key in keys]
        self.blocks = list(zip(convs[::2], convs[1::2], strict=True))

    def __call__(self, x: jax.Array) -> jax.Array:
        x = conv_pool(x, self.conv) if self.pooled else conv(x, self.conv)
        for first, second in self.blocks:
            x = residual(x, first, second)
        return x


def _make_conv(key: jax.Array, inputs: int, outputs: int, small: bool) -> Weights:
    # Keras counts an output once for each pixel that it is made of.
    make = jax.nn.initializers.glorot_uniform(in_axis=-2 if small else (0, 1, 2))
    return Weights(make(key, (3, 3, inputs, outputs)), jnp.zeros(outputs))


class ResNet(eqx.Module):
    """IMPALA's deep network (Espeholt et al. 2018): (..., 64, 64, 3) uint8 images to vectors.

    Args:
        key: Of the weights.
        outputs: Size of the vectors.
        channels: Of the stages, each at half the resolution of the one before.
        blocks: Residual blocks in each stage.
        fold: See squares of four pixels as one with all their colours, where the first stage would take the
            largest of what it makes of each: nearly as much is seen in a quarter of the time.
        shrink: See the means of squares of so many pixels.
        normalize: Keep the vectors' numbers of a size that a memory can take.
        small: Let convolutions begin as small as those of Keras.
        dtype: Of the computation.
    """

    stages: list[Stage]
    out: Linear
    norm: LayerNorm | None
    fold: bool = eqx.field(static=True)
    shrink: int = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        outputs: int,
        channels: tuple[int, ...] = (16, 32, 32),
        blocks: int = 2,
        fold: bool = False,
        shrink: int = 1,
        normalize: bool = False,
        small: bool = False,
        dtype: Any = jnp.float32,
    ) -> None:
        out_key, *stage_keys = jax.random.split(key, 1 + len(channels))
        inputs = (4 * COLORS if fold else COLORS, *channels)
        self.stages = [
            Stage(key, inputs[index], inputs[index + 1], blocks, pooled=index > 0 or not fold, small=small)
            for index, key in enumerate(stage_keys)
        ]
        side = IMAGE_SIDE // shrink >> len(channels)
        self.out = Linear(out_key, side * side * inputs[-1], outputs)
        self.norm = LayerNorm(outputs) if normalize else None
        self.fold, self.shrink, self.dtype = fold, shrink, dtype

    def __call__(self, images: jax.Array) -> jax.Array:
        batch = images.shape[:-3]
        x = self._look(images.reshape(-1, *images.shape[-3:]))
        for stage in self.stages:
            x = stage(x)
        x = self.out(jax.nn.relu(x).reshape(*batch, -1))
        return jax.nn.relu(x.astype(jnp.float32) if self.norm is None else self.norm(x))

    def _look(self, images: jax.Array) -> jax.Array:
        """Numbers from 0 to 1: (N, S, S, 4), or (N, S / 2, S / 2, 16) folded."""
        x = images.astype(jnp.float32) / 255
        if self.shrink > 1:
            x = _squares(x, self.shrink).mean(axis=(2, 4))
        x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, COLORS - 3))).astype(self.dtype)
        return fold(x) if self.fold else x

    def ready(self) -> "ResNet":
        """The same for acting many times: what is made of the weights is made once."""

        def make(part: Any) -> Any:
            if isinstance(part, Weights):
                return ready(part, self.dtype)
            return part.astype(self.dtype) if part.ndim > 1 else part

        return jax.tree.map(make, self, is_leaf=lambda part: isinstance(part, Weights))


def fold(x: jax.Array) -> jax.Array:
    """(N, H, W, C) to (N, H / 2, W / 2, 4 C): squares of four pixels as one."""
    x = _squares(x, 2).swapaxes(2, 3)
    return x.reshape(*x.shape[:3], -1)


def unfold(x: jax.Array) -> jax.Array:
    """The way back."""
    count, height, width, channels = x.shape
    x = x.reshape(count, height, width, 2, 2, channels // 4).swapaxes(2, 3)
    return x.reshape(count, 2 * height, 2 * width, channels // 4)


def _squares(x: jax.Array, side: int) -> jax.Array:
    """(N, H, W, C) to (N, H / side, side, W / side, side, C)."""
    count, height, width, channels = x.shape
    return x.reshape(count, height // side, side, width // side, side, channels)
