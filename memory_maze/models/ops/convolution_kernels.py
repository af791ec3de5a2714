"""3x3 convolutions of few channels, and pooling, as kernels for NVIDIA GPUs.

cuDNN's kernels are made for hundreds of channels: of 16 and 32 they leave most of their tiles empty, and
every bias, ReLU and sum is one more pass over the memory. Here a program makes all channels of some
pixels, with what comes before and after in registers. Two pixels beside each other are made together, from
the four of each row that they see: these follow each other in memory, and fill the matrices that tensor
cores multiply. Arrays are (N, H, W, C) and flat inside of kernels.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas
from jax.experimental.pallas import triton

INPUTS, OUTPUTS = (4, 16, 32), (16, 32)  # channels
CONVOLVE_PAIRS = {4: 128, 16: 128, 32: 64}  # by the channels of the input
CORRELATE_PAIRS = 128
CORRELATE_PROGRAMS = 528  # four for each processor of an H200
POOL_NUMBERS = 1024
MOST_NUMBERS = (1 << 31) - (1 << 20)  # in an array: they are counted in 32 bits, also some beyond its end

_Shape = tuple[int, ...]


class Packed(NamedTuple):
    """The weights of a convolution, for each row from four pixels to the two between them."""

    weight: jax.Array  # (3, 4 I, 2 O) bfloat16
    bias: jax.Array  # (2 O,) float32


def pack(weight: jax.Array, bias: jax.Array) -> Packed:
    """Of (3, 3, I, O) and (O,)."""
    weight = weight.astype(jnp.bfloat16)
    two = [jnp.pad(weight, ((0, 0), (second, 1 - second), (0, 0), (0, 0))) for second in range(2)]
    rows = jnp.concatenate(two, axis=-1).reshape(3, 4 * weight.shape[2], -1)
    return Packed(rows, jnp.concatenate([bias, bias]))


def unpack(weight: jax.Array) -> jax.Array:
    """The transpose of `pack`, of weights."""
    four = weight.reshape(3, 4, -1, weight.shape[-1])
    first, second = jnp.split(four, 2, axis=-1)
    return first[:, :3] + second[:, 1:]


def convolve(
    x: jax.Array,
    packed: Packed,
    skip: jax.Array | None = None,
    mask: jax.Array | None = None,
    *,
    relu: bool,
    interpret: bool = False,
) -> jax.Array:
    """The convolution of x or relu(x), plus bias; 0 where the mask is not positive; plus skip."""
    pairs, channels = _pairs(x.shape), len(packed.bias) // 2
    others = [array.reshape(-1) for array in (mask, skip) if array is not None]
    kernel = functools.partial(_convolve_kernel, x.shape, relu, mask is not None, skip is not None)
    (flat,) = _call(
        kernel,
        (pallas.cdiv(pairs, CONVOLVE_PAIRS[x.shape[-1]]),),
        (x.reshape(-1), *packed, *others),
        [((pairs * 2 * channels,), jnp.bfloat16)],
        interpret,
    )
    return flat.reshape(*x.shape[:-1], channels)


def _call(
    kernel: Callable[..., None],
    grid: tuple[int, ...],
    args: Sequence[jax.Array],
    shapes: list[tuple[_Shape, Any]],
    interpret: bool,
    stages: int = 1,
) -> list[jax.Array]:
    """Whole arrays in and out; under `shard_map` the results differ between devices as the first one does."""

    def outputs() -> list[jax.Array]:
        return [jnp.broadcast_to(args[0].reshape(-1)[0], shape).astype(dtype) for shape, dtype in shapes]

    return pallas.pallas_call(
        kernel,
        grid=grid,
        out_shape=jax.eval_shape(outputs),
        compiler_params=None if interpret else triton.CompilerParams(num_warps=4, num_stages=stages),
        interpret=interpret,
    )(*args)


def _convolve_kernel(
    shape: _Shape, relu: bool, masked: bool, skipped: bool, x: Any, weight: Any, bias: Any, *refs: Any
) -> None:
    *others, out = refs
    _, size, numbers = weight.shape
    pair = _tile(CONVOLVE_PAIRS[shape[-1]], pallas.program_id(0))
    total = bias[:][None, :] + jnp.zeros((len(pair), numbers), jnp.float32)
    for row in range(3):
        patch = _load_patch(x, shape, pair[:, None], row, jnp.arange(size, dtype=jnp.int32)[None, :])
        total += _dot(jnp.maximum(patch, 0) if relu else patch, weight[row])
    place, inside = _places(shape, pair, numbers)
    if masked:
        seen = triton.load(others.pop(0).at[place], mask=inside, other=0)
        total = jnp.where(seen > 0, total, 0)
    if skipped:
        total += triton.load(others.pop(0).at[place], mask=inside, other=0).astype(jnp.float32)
    triton.store(out.at[place], total.astype(jnp.bfloat16), mask=inside)


def _tile(size: int, index: jax.Array) -> jax.Array:
    return index * size + jnp.arange(size, dtype=jnp.int32)


def _dot(one: jax.Array, two: jax.Array) -> jax.Array:
    return jnp.dot(one, two, preferred_element_type=jnp.float32)


def _pairs(shape: _Shape) -> int:
    return shape[0] * shape[1] * shape[2] // 2


def _places(shape: _Shape, pair: jax.Array, numbers: int) -> tuple[jax.Array, jax.Array]:
    """(P, K) where the numbers of pairs are, and whether."""
    place = (pair * numbers)[:, None] + jnp.arange(numbers, dtype=jnp.int32)[None, :]
    return place, (pair < _pairs(shape))[:, None] & jnp.ones_like(place, bool)


def _load_patch(x: Any, shape: _Shape, pair: jax.Array, row: Any, number: jax.Array) -> jax.Array:
    """Numbers of the four pixels about each pair, of the row above, its own or below; zeros outside."""
    _, height, width, channels = shape
    y = lax.rem(lax.div(pair, width // 2), height) + row - 1
    left = lax.rem(pair, width // 2)
    inside = (y >= 0) & (y < height) & (pair < _pairs(shape))
    inside &= (number >= channels) | (left > 0)
    inside &= (number < 3 * channels) | (left < width // 2 - 1)
    place = (2 * pair + (row - 1) * width - 1) * channels + number
    return triton.load(x.at[place], mask=inside & jnp.ones_like(place, bool), other=0)


def correlate(
    x: jax.Array, dy: jax.Array, *, relu: bool, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """The gradients of the weight (3, 3, I, O) and of the bias (O,)."""
    inputs, numbers = x.shape[-1], 2 * dy.shape[-1]
    tiles = pallas.cdiv(_pairs(x.shape), CORRELATE_PAIRS)
    # A program for each row of pixels; with few channels, one for all, and a fourth that is not there.
    rows, size = (3, 4 * inputs) if inputs > 4 else (1, 16 * inputs)
    programs = min(tiles, max(CORRELATE_PROGRAMS // rows, 1))
    weights, biases = _call(
        functools.partial(_correlate_kernel, x.shape, relu, pallas.cdiv(tiles, programs)),
        (programs, rows),
        (x.reshape(-1), dy.reshape(-1)),
        [((programs, rows, size, numbers), jnp.float32), ((programs, rows, numbers), jnp.float32)],
        interpret,
        stages=3 if inputs > 4 else 1,
    )
    weight = weights.sum(axis=0).reshape(-1, 4 * inputs, numbers)[:3]
    return unpack(weight), biases[:, 0].sum(axis=0).reshape(2, -1).sum(axis=0)


def _correlate_kernel(
    shape: _Shape, relu: bool, rounds: int, x: Any, dy: Any, weights: Any, biases: Any
) -> None:
    _, rows, size, numbers = weights.shape
    program, programs, row = pallas.program_id(0), pallas.num_programs(0), pallas.program_id(1)
    number = jnp.arange(size, dtype=jnp.int32)[:, None]
    if rows == 1:
        row, number = lax.div(number, size // 4), lax.rem(number, size // 4)

    def add(index: jax.Array, sums: tuple) -> tuple:
        weight, bias = sums
        pair = _tile(CORRELATE_PAIRS, index * programs + program)
        place, inside = _places(shape, pair, numbers)
        gradient = triton.load(dy.at[place], mask=inside, other=0)
        patch = _load_patch(x, shape, pair[None, :], row, number)
        weight += _dot(jnp.maximum(patch, 0) if relu else patch, gradient)
        return weight, bias + gradient.astype(jnp.float32).sum(axis=0)

    zeros = jnp.zeros((size, numbers), jnp.float32), jnp.zeros(numbers, jnp.float32)
    weight, bias = lax.fori_loop(0, rounds, add, zeros)
    weights[program, pallas.program_id(1)] = weight
    biases[program, pallas.program_id(1)] = bias


def pool(x: jax.Array, *, interpret: bool = False) -> tuple[jax.Array, jax.Array]:
    """The largest of 3x3 at every second pixel, and which of the nine it was (uint8)."""
    count, height, width, channels = x.shape
    shape, size = (count, height // 2, width // 2, channels), x.size // 4
    largest, which = _call(
        functools.partial(_pool_kernel, x.shape),
        (pallas.cdiv(size, POOL_NUMBERS),),
        (x.reshape(-1),),
        [((size,), jnp.bfloat16), ((size,), jnp.uint8)],
        interpret,
    )
    return largest.reshape(shape), which.reshape(shape)


def _pool_kernel(shape: _Shape, x: Any, largest: Any, which: Any) -> None:
    _, height, width, channels = shape
    number = _tile(POOL_NUMBERS, pallas.program_id(0))
    inside = number < largest.shape[0]
    pixel, channel = lax.div(number, channels), lax.rem(number, channels)
    left, line = 2 * lax.rem(pixel, width // 2), lax.div(pixel, width // 2)
    top = 2 * lax.rem(line, height // 2)
    start = (2 * line * width + left) * channels + channel
    best = jnp.full((POOL_NUMBERS,), -jnp.inf, jnp.float32)
    index = jnp.zeros((POOL_NUMBERS,), jnp.int32)
    for k in range(9):
        down, right = divmod(k, 3)
        mask = inside & (top + down < height) & (left + right < width)
        place = start + (down * width + right) * channels
        value = triton.load(x.at[place], mask=mask, other=-jnp.inf).astype(jnp.float32)
        index = jnp.where(value > best, k, index)
        best = jnp.maximum(value, best)
    triton.store(largest.at[number], best.astype(jnp.bfloat16), mask=inside)
    triton.store(which.at[number], index.astype(jnp.uint8), mask=inside)


def unpool(dy: jax.Array, which: jax.Array, *, interpret: bool = False) -> jax.Array:
    """The gradient of what was pooled."""
    count, height, width, channels = dy.shape
    (flat,) = _call(
        functools.partial(_unpool_kernel, dy.shape),
        (pallas.cdiv(4 * dy.size, POOL_NUMBERS),),
        (dy.reshape(-1), which.reshape(-1)),
        [((4 * dy.size,), jnp.bfloat16)],
        interpret,
    )
    return flat.reshape(count, 2 * height, 2 * width, channels)


def _unpool_kernel(shape: _Shape, dy: Any, which: Any, out: Any) -> None:
    _, height, width, channels = shape
    number = _tile(POOL_NUMBERS, pallas.program_id(0))
    inside = number < out.shape[0]
    pixel, channel = lax.div(number, channels), lax.rem(number, channels)
    x, line = lax.rem(pixel, 2 * width), lax.div(pixel, 2 * width)
    frame, y = lax.div(line, 2 * height), lax.rem(line, 2 * height)
    total = jnp.zeros((POOL_NUMBERS,), jnp.float32)
    # A pixel lies in the window that starts at or just before it, and one at an edge in the one before too.
    for above in range(2):
        for before in range(2):
            window_y, window_x = lax.div(y, 2) - above, lax.div(x, 2) - before
            down, right = y - 2 * window_y, x - 2 * window_x
            mask = inside & (window_y >= 0) & (window_x >= 0) & (down < 3) & (right < 3)
            place = ((frame * height + window_y) * width + window_x) * channels + channel
            chosen = triton.load(which.at[place], mask=mask, other=9).astype(jnp.int32) == 3 * down + right
            total += triton.load(dy.at[place], mask=mask & chosen, other=0).astype(jnp.float32)
    triton.store(out.at[number], total.astype(jnp.bfloat16), mask=inside)
