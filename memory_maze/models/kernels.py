"""3x3 convolutions of few channels, and pooling, as kernels for NVIDIA GPUs.

cuDNN's kernels are made for hundreds of channels: of 16 and 32 they leave most of their tiles empty, and
every bias, ReLU and sum is one more pass over the memory. Here a program makes all channels of some
pixels, with what comes before and after in registers. Arrays are (N, H, W, C) and flat inside of kernels.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas
from jax.experimental.pallas import triton

CONVOLVE_PIXELS = 128
CORRELATE_PIXELS = {4: 128, 16: 128, 32: 64, 64: 64}  # by the channels of the input
CORRELATE_PROGRAMS = 528  # four for each processor of an H200
POOL_NUMBERS = 1024
FEW_PIXELS = 1 << 18
MANY = 16  # channels are enough for a matrix of their own

_Shape = tuple[int, ...]


def pack(weight: jax.Array) -> jax.Array:
    """(3, 3, I, O) to (3, K, O) bfloat16: a matrix for each row of pixels."""
    rows = weight.astype(jnp.bfloat16).reshape(3, -1, weight.shape[-1])
    if weight.shape[2] >= MANY:
        return rows
    return jnp.pad(rows, ((0, 0), (0, _room(weight.shape[2]) - rows.shape[1]), (0, 0)))


def _room(channels: int) -> int:
    """Numbers of three pixels, filled up to a power of two."""
    return 1 << (3 * channels - 1).bit_length()


def convolve(
    x: jax.Array,
    packed: jax.Array,
    bias: jax.Array,
    skip: jax.Array | None = None,
    mask: jax.Array | None = None,
    *,
    relu: bool,
    interpret: bool = False,
) -> jax.Array:
    """The convolution of x or relu(x), plus bias; 0 where the mask is not positive; plus skip."""
    pixels, channels = _pixels(x.shape), packed.shape[-1]
    others = [array.reshape(-1) for array in (mask, skip) if array is not None]
    kernel = functools.partial(_convolve_kernel, x.shape, relu, mask is not None, skip is not None)
    (flat,) = _call(
        kernel,
        pallas.cdiv(pixels, CONVOLVE_PIXELS),
        (x.reshape(-1), packed, bias, *others),
        [((pixels * channels,), jnp.bfloat16)],
        interpret,
    )
    return flat.reshape(*x.shape[:-1], channels)


def _call(
    kernel: Callable[..., None],
    programs: int,
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
        grid=(programs,),
        out_shape=jax.eval_shape(outputs),
        compiler_params=None if interpret else triton.CompilerParams(num_warps=4, num_stages=stages),
        interpret=interpret,
    )(*args)


def _convolve_kernel(
    shape: _Shape, relu: bool, masked: bool, skipped: bool, x: Any, packed: Any, bias: Any, *refs: Any
) -> None:
    *others, out = refs
    channels = packed.shape[-1]
    pixel = _tile(CONVOLVE_PIXELS, pallas.program_id(0))
    total = bias[:][None, :] + jnp.zeros((CONVOLVE_PIXELS, channels), jnp.float32)
    size, step = (shape[-1], 1) if shape[-1] >= MANY else (packed.shape[1], 3)
    places = [(row, column) for row in range(3) for column in range(0, 3, step)]
    # Where programs are few, some loads ahead hide how long each takes.
    ahead = 3 if _pixels(shape) <= FEW_PIXELS else 1
    patches = [_load_patch(x, shape, pixel, *place, size) for place in places[:ahead]]
    for index, (row, column) in enumerate(places):
        patches += [_load_patch(x, shape, pixel, *place, size) for place in places[index + ahead :][:1]]
        weight = packed[row, pallas.ds(column * shape[-1], size)]
        patch = patches.pop(0)
        total += _dot(jnp.maximum(patch, 0) if relu else patch, weight)
    place, inside = _places(shape, pixel, channels)
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


def _pixels(shape: _Shape) -> int:
    return shape[0] * shape[1] * shape[2]


def _places(shape: _Shape, pixel: jax.Array, channels: int) -> tuple[jax.Array, jax.Array]:
    """(P, C) where the channels of pixels are, and whether."""
    place = (pixel * channels)[:, None] + jnp.arange(channels, dtype=jnp.int32)[None, :]
    return place, (pixel < _pixels(shape))[:, None] & jnp.ones_like(place, bool)


def _load_patch(x: Any, shape: _Shape, pixel: jax.Array, row: int, column: int, size: int) -> jax.Array:
    """(P, K) numbers from a pixel beside each pixel on; zeros outside of the picture.

    Pixels beside each other follow each other in memory, so K may be of several.
    """
    _, _, width, channels = shape
    pixel, number = pixel[:, None], jnp.arange(size, dtype=jnp.int32)[None, :]
    left = column - 1 if size == channels else column - 1 + lax.div(number, channels)
    inside = _inside(shape, pixel, row - 1, left)
    if size > channels:
        inside &= number < 3 * channels
    place = (pixel + (row - 1) * width + column - 1) * channels + number
    return triton.load(x.at[place], mask=inside & jnp.ones_like(place, bool), other=0)


def _inside(shape: _Shape, pixel: jax.Array, down: Any, right: Any) -> jax.Array:
    """Whether there is a pixel so far from each."""
    _, height, width, _ = shape
    y, x = lax.rem(lax.div(pixel, width), height) + down, lax.rem(pixel, width) + right
    return (y >= 0) & (y < height) & (x >= 0) & (x < width) & (pixel < _pixels(shape))


def correlate(
    x: jax.Array, dy: jax.Array, *, relu: bool, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """The gradients of the weight (3, 3, I, O) and of the bias (O,)."""
    inputs, channels = x.shape[-1], dy.shape[-1]
    tiles = pallas.cdiv(_pixels(x.shape), CORRELATE_PIXELS[inputs])
    programs = min(tiles, CORRELATE_PROGRAMS)
    # Matrices of four pixels for each row, or of four rows if channels are few; the fourth is empty.
    matrices, size = (3, 4 * inputs) if inputs >= MANY else (1, 16 * inputs)
    weights, biases = _call(
        functools.partial(_correlate_kernel, x.shape, relu, pallas.cdiv(tiles, programs)),
        programs,
        (x.reshape(-1), dy.reshape(-1)),
        [((programs, matrices, size, channels), jnp.float32), ((programs, channels), jnp.float32)],
        interpret,
        stages=3 if inputs >= MANY else 1,
    )
    weight = weights.sum(axis=0).reshape(-1, 4, inputs, channels)
    return weight[:3, :3], biases.sum(axis=0)


def _correlate_kernel(
    shape: _Shape, relu: bool, rounds: int, x: Any, dy: Any, weights: Any, biases: Any
) -> None:
    _, matrices, size, channels = weights.shape
    program, programs = pallas.program_id(0), pallas.num_programs(0)

    def add(index: jax.Array, sums: tuple) -> tuple:
        pixel = _tile(CORRELATE_PIXELS[shape[-1]], index * programs + program)
        place, inside = _places(shape, pixel, channels)
        slope = triton.load(dy.at[place], mask=inside, other=0)
        *rows, bias = sums
        for row in range(matrices):
            patch = _load_pixels(x, shape, pixel, row if matrices > 1 else None, size)
            rows[row] += _dot(jnp.maximum(patch, 0) if relu else patch, slope)
        return (*rows, bias + slope.astype(jnp.float32).sum(axis=0))

    zeros = (jnp.zeros((size, channels), jnp.float32),) * matrices
    *rows, bias = lax.fori_loop(0, rounds, add, (*zeros, jnp.zeros(channels, jnp.float32)))
    for row in range(matrices):
        weights[program, row] = rows[row]
    biases[program] = bias


def _load_pixels(x: Any, shape: _Shape, pixel: jax.Array, row: int | None, size: int) -> jax.Array:
    """(K, P) numbers of four pixels of a row about each pixel, or of all rows; zeros where there is none."""
    _, _, width, channels = shape
    tap = jnp.arange(size // channels, dtype=jnp.int32)[:, None, None]
    column = lax.rem(tap, 4)
    down: Any = (lax.div(tap, 4) if row is None else row) - 1
    pixel = pixel[None, None, :]
    inside = _inside(shape, pixel, down, column - 1) & (column < 3)
    if row is None:
        inside &= down < 2
    start = (pixel + down * width + column - 1) * channels
    place = start + jnp.arange(channels, dtype=jnp.int32)[None, :, None]
    patch = triton.load(x.at[place], mask=inside & jnp.ones_like(place, bool), other=0)
    return patch.reshape(size, -1)


def pool(x: jax.Array, *, interpret: bool = False) -> tuple[jax.Array, jax.Array]:
    """The largest of 3x3 at every second pixel, and which of the nine it was (uint8)."""
    count, height, width, channels = x.shape
    shape, size = (count, height // 2, width // 2, channels), x.size // 4
    largest, which = _call(
        functools.partial(_pool_kernel, x.shape),
        pallas.cdiv(size, POOL_NUMBERS),
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
        pallas.cdiv(4 * dy.size, POOL_NUMBERS),
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
