"""The pixels of the agent's camera between high walls as two kernels for NVIDIA GPUs.

    look    what the samples of a pixel see, and the colour of its first surface    (L, P) packed, twice
    finish  edges mixed with the colours of pixels nearby, the border, bytes        (L, R, R, 3)

They do what the stages of `render` do, with all of a pixel's numbers in registers; a lane that sees no
object spends no time on objects.
"""

import contextlib
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas
from jax.experimental.pallas import triton

from memory_maze.engine.physics import arithmetic
from memory_maze.engine.picture import pixels, rays, shading, spheres
from memory_maze.engine.picture.pixels import SURFACE_BITS, SURFACE_MASK, Survey, View
from memory_maze.engine.picture.rays import Camera
from memory_maze.engine.picture.spheres import Spheres
from memory_maze.engine.picture.textures import Atlas
from memory_maze.world import OBJECT_RADIUS

LOOK_PIXELS, LOOK_WARPS = 512, 4
FINISH_QUADS, FINISH_WARPS = 256, 4  # four neighbouring pixels are three words
SPHERE_FIELDS = 8


def draw(
    view: View,
    atlas: Atlas,
    survey: Survey,
    rooms: jax.Array,
    border: jax.Array,
    interpret: bool = False,
) -> jax.Array:
    """(L, R, R, 3) uint8 from what `render.survey` found."""
    code, packed = look(view, atlas, survey, rooms, interpret)
    return finish(view, code, packed, border, interpret)


def _call(kernel: Any, grid: int, like: jax.Array, shapes: list, warps: int, interpret: bool, args: tuple):
    """Whole arrays in and out; under `shard_map` the results differ between devices as `like` does."""

    def outputs() -> list[jax.Array]:
        return [jnp.broadcast_to(like.reshape(-1)[0], shape).astype(dtype) for shape, dtype in shapes]

    def run(*refs: Any) -> None:
        with contextlib.nullcontext() if interpret else arithmetic.approximate():
            kernel(*refs)

    return pallas.pallas_call(
        run,
        grid=(grid,),
        out_shape=jax.eval_shape(outputs),
        compiler_params=None if interpret else triton.CompilerParams(num_warps=warps, num_stages=1),
        interpret=interpret,
    )(*args)


def look(
    view: View,
    atlas: Atlas,
    survey: Survey,
    rooms: jax.Array,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """(L, P) twice: what `pixels.encode` makes of the samples, and the first surface's colour."""
    camera, faces, objects, count = survey
    lanes, side = len(count), view.resolution
    lens, fan = pixels.make_optics(view)
    first, second, third, fourth = fan.indices
    static = (
        first | second << 16,
        third | fourth << 16,
        shading.sky_colors(lens),
        *shading.level_ground(lens),
    )
    place = jnp.concatenate([camera.z, camera.column, camera.row, camera.cos, camera.sin], axis=1)
    bodies = jnp.concatenate([jnp.stack(objects[:5], axis=2), objects.rgb], axis=2)
    blocks = -(-(side**2) // LOOK_PIXELS)
    kernel = functools.partial(_look_kernel, view, blocks, bodies.shape[1], rooms.shape[1], atlas.steps)
    shapes = [((lanes, side**2), jnp.int32), ((lanes, side**2), jnp.uint32)]
    args = (*map(jnp.asarray, static), place, bodies, count, *faces, rooms, atlas.table, atlas.texels)
    return _call(kernel, lanes * blocks, count, shapes, LOOK_WARPS, interpret, args)


def _look_kernel(view: View, blocks: int, most: int, size: int, steps: int, *refs: Any) -> None:
    program = pallas.program_id(0)
    lane, block = lax.div(program, blocks), lax.rem(program, blocks)
    look_at = functools.partial(_look_block, view, most, size, steps, refs, lane, block)
    level = pixels_above_horizon(view) // LOOK_PIXELS
    if level == 0:
        look_at(sinks=True)
    else:
        lax.cond(block < level, lambda: look_at(sinks=False), lambda: look_at(sinks=True))


def pixels_above_horizon(view: View) -> int:
    """The first pixels, whose rays do not sink: they see no floor, and no object lower than the eye."""
    if view.object_height + OBJECT_RADIUS >= rays.EYE_HEIGHT:
        return 0
    lens, _ = pixels.make_optics(view)
    lowest = np.min([ray.rise for ray in lens.samples], axis=0)
    return int(np.argmax(np.append(lowest, -1) < 0))


def _look_block(
    view: View,
    most: int,
    size: int,
    steps: int,
    refs: tuple,
    lane: jax.Array,
    block: jax.Array,
    *,
    sinks: bool,
) -> None:
    """Looks through the pixels of some rows, where rays may sink or none does."""
    (pair, other_pair, sky, ground_t, ground_size, place, bodies, count) = refs[:8]
    (a, b, look, key, rooms, table, texels, code_out, packed_out) = refs[8:]
    lens, _ = pixels.make_optics(view)
    row, column, number, inside = _number_pixels(view.resolution, block)
    aims = [rays.aim(lens, row, column, offset) for offset in rays.SAMPLES]
    centre = rays.aim(lens, row, column, rays.CENTRE)
    z, camera_column, camera_row, cos, sin = (place[lane, field] for field in range(5))
    camera = Camera(z, z, z, camera_column, camera_row, cos, sin)  # x and y are not used
    two, other_two = pair[number], other_pair[number]
    indices = (two & 0xFFFF, two >> 16, other_two & 0xFFFF, other_two >> 16)
    samples = [
        pixels.see_wall(view, ray, key[lane, index], z, sinks)
        for ray, index in zip(aims, indices, strict=True)
    ]
    seen, objects = count[lane], range(most if sinks else 0)

    def hide(m: int, samples: Any) -> Any:
        return pixels.see_sphere(samples, aims, centre, _sphere(bodies, lane, m), m, z)

    for m in reversed(objects):
        samples = _if(m < seen, functools.partial(hide, m), samples)
    code = pixels.encode(samples)

    kind = pixels.kind_of(code)
    is_wall, is_floor, is_sky = kind >= pixels.WALL, kind == pixels.FLOOR, kind == pixels.SKY
    textured = is_wall | is_floor if sinks else is_wall
    face = [_load(part, (lane, indices[0]), is_wall) for part in (a, b, look)]
    floor = None
    if sinks:
        find_room = lambda index: _load(rooms, (lane, index), is_floor)  # noqa: E731
        floor = pixels.Floor(is_floor, ground_t[number], ground_size[number], find_room, size)
    entry, uv = pixels.place_texel(view, lens, centre, face, camera, steps, floor)
    fetch = [functools.partial(_load_from, array, textured) for array in (table, texels)]
    packed = shading.sample_texels(*fetch, entry, uv)
    packed = jnp.where(is_sky, _load(sky, (number,), is_sky), packed)

    def paint(m: int, packed: jax.Array) -> jax.Array:
        color = spheres.color(centre, _sphere(bodies, lane, m))
        return jnp.where(kind == pixels.FIRST_SPHERE + m, color, packed)

    for m in objects:
        packed = _if(m < seen, functools.partial(paint, m), packed)
    triton.store(code_out.at[lane, number], code, mask=inside)
    triton.store(packed_out.at[lane, number], packed, mask=inside)


def _number_pixels(side: int, block: jax.Array) -> tuple[jax.Array, ...]:
    """Rows, columns, numbers, and which of them exist."""
    number = block * LOOK_PIXELS + jnp.arange(LOOK_PIXELS, dtype=jnp.int32)
    inside = number < side**2
    number = jnp.minimum(number, side**2 - 1)
    row, column = lax.div(number, side), lax.rem(number, side)
    return row.astype(jnp.float32), column.astype(jnp.float32), number, inside


def _load_from(array: Any, mask: jax.Array, index: jax.Array) -> jax.Array:
    return _load(array, (index,), mask)


def _if(condition: Any, change: Any, value: Any) -> Any:
    return lax.cond(condition, change, lambda value: value, value)


def _load(ref: Any, index: tuple, mask: jax.Array) -> jax.Array:
    return triton.load(ref.at[index], mask=mask, other=0)


def _sphere(bodies: Any, lane: jax.Array, m: int) -> Spheres:
    depth, right, up, gap, gloss, *rgb = (bodies[lane, m, field] for field in range(SPHERE_FIELDS))
    return Spheres(depth, right, up, gap, gloss, tuple(rgb))


def finish(
    view: View, code: jax.Array, packed: jax.Array, border: jax.Array, interpret: bool = False
) -> jax.Array:
    """(L, R, R, 3) uint8."""
    side, lanes = view.resolution, len(code)
    quads = -(-(side**2) // 4)
    blocks = -(-quads // FINISH_QUADS)
    red, green, blue = (border[:, channel].astype(jnp.uint32) for channel in range(3))
    kernel = functools.partial(_finish_kernel, view, blocks, quads)
    shapes = [((lanes, 3 * quads), jnp.uint32)]
    args = (code, packed, red | green << 8 | blue << 16)
    (words,) = _call(kernel, lanes * blocks, code, shapes, FINISH_WARPS, interpret, args)
    octets = lax.bitcast_convert_type(words, jnp.uint8).reshape(lanes, -1)
    return octets[:, : 3 * side**2].reshape(lanes, side, side, 3)


def _finish_kernel(
    view: View, blocks: int, quads: int, code: Any, packed: Any, border: Any, out: Any
) -> None:
    program = pallas.program_id(0)
    lane, block = lax.div(program, blocks), lax.rem(program, blocks)
    quad = block * FINISH_QUADS + jnp.arange(FINISH_QUADS, dtype=jnp.int32)
    inside = quad < quads
    frame = border[lane]
    one, two, three, four = (_finish_pixel(view, lane, 4 * quad + j, frame, code, packed) for j in range(4))
    words = (one | two << 24, two >> 8 | three << 16, three >> 16 | four << 8)
    for index, word in enumerate(words):
        triton.store(out.at[lane, 3 * quad + index], word, mask=inside)


def _finish_pixel(
    view: View, lane: jax.Array, number: jax.Array, frame: jax.Array, code: Any, packed: Any
) -> jax.Array:
    side, width = view.resolution, view.border_width if view.border else 0
    number = jnp.minimum(number, side**2 - 1)
    row, column = lax.div(number, side), lax.rem(number, side)
    here = code[lane, number]
    share = (here >> 2 * SURFACE_BITS).astype(jnp.uint32)
    wanted = here >> SURFACE_BITS & SURFACE_MASK
    mixed = share > 0
    source = number
    for down, right in pixels.NEARBY:
        near = _clip(row + down, side) * side + _clip(column + right, side)
        near_code = _load(code, (lane, near), mixed)
        source = jnp.where(near_code & SURFACE_MASK == wanted, near, source)
    color = shading.mix(packed[lane, number], _load(packed, (lane, source), mixed), share)
    if not width:
        return color
    last = side - width
    outside = (row < width) | (row >= last) | (column < width) | (column >= last)
    return jnp.where(outside, frame, color)


def _clip(place: jax.Array, side: int) -> jax.Array:
    return jnp.minimum(jnp.maximum(place, 0), side - 1)
