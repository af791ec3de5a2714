"""Colours: the sky, texels by bilinear sampling, and pixels packed into one integer each."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from memory_maze.engine.physics.arithmetic import invert, invert_root
from memory_maze.engine.picture.rays import (
    AMBIENT,
    DIFFUSE,
    LIGHT_STEPS,
    Camera,
    Lens,
    Ray,
    Table,
    plan_direction,
    take,
    to_fixed,
)
from memory_maze.engine.picture.textures import FIRST_FLOOR, Atlas
from memory_maze.world import CELL_METRES

FULL_LEVEL = 10  # log2 of the largest texture's side
# The reference's rasteriser: how it rounds lit texels and the sky.
LIT_GAIN, SKY_OFFSET = 256 / 255, 0.17
SKY_RGB = (0.4, 0.6, 0.8)
SKY_STRETCH = 1.0075  # its cube map is sampled 1 % outwards; the mean over the directions
NEAREST_RISE = 1e-3  # rays that sink less than this reach the floor behind every wall


def pack(red: jax.Array, green: jax.Array, blue: jax.Array) -> jax.Array:
    """Floats from 0 to 255 as one uint32."""
    red, green, blue = ((part + 0.5).astype(jnp.uint32) for part in (red, green, blue))
    return red | green << 8 | blue << 16


def unpack(packed: jax.Array) -> jax.Array:
    """uint8 with a last axis of three."""
    return (packed[..., None] >> np.array([0, 8, 16], np.uint32)).astype(jnp.uint8)


def mix(one: jax.Array, two: jax.Array, quarters: jax.Array) -> jax.Array:
    """Packed colours blended: so many quarters of the second. Red and blue share a multiplication."""
    pair = (one & 0xFF00FF) * (4 - quarters) + (two & 0xFF00FF) * quarters + 0x20002
    green = (one >> 8 & 255) * (4 - quarters) + (two >> 8 & 255) * quarters + 2
    return pair >> 2 & 0xFF00FF | green >> 2 << 8


@functools.cache
def sky_colors(lens: Lens) -> np.ndarray:
    """(P,) uint32: a gradient by elevation, from black below to light blue above."""
    ray = lens.centre
    sine = SKY_STRETCH * ray.rise / np.sqrt(1 + ray.right**2 + ray.up**2)
    elevation = np.arcsin(np.clip(sine, -1, 1)) / (np.pi / 2)
    share = np.clip(0.5 * (1 + elevation / np.sqrt(1 + elevation**2) * np.sqrt(2)), 0, 1)
    red, green, blue = (np.floor(255 * share * part + SKY_OFFSET).astype(np.uint32) for part in SKY_RGB)
    return red | green << 8 | blue << 16


@functools.cache
def level_ground(lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """Of a level plane one metre below the camera: the ray parameter, and the squared size of a pixel.

    The size is the longer side of the pixel's image on the plane, in texture repeats.
    """
    ray = lens.centre
    sink = np.maximum(-ray.rise, NEAREST_RISE)
    t = np.where(ray.rise < -NEAREST_RISE, 1 / sink, 1 / NEAREST_RISE)
    slope = t**2 * lens.cos  # dt / d up
    down = (slope * ray.ahead + t * lens.sin) ** 2 + (slope * ray.right) ** 2
    size = np.maximum(t**2, down) * lens.pixel**2
    return t.astype(np.float32), np.clip(size, 1e-12, 1e6).astype(np.float32)


def ground_light(lens: Lens) -> int:
    return int(LIGHT_STEPS * (AMBIENT + DIFFUSE * lens.sin) + 0.5)


def ground_point(
    t: jax.Array | np.ndarray, ray: Ray, camera: Camera, height: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Column and row of the level plane `height` metres below the camera, from that at one metre."""
    dx, dy = plan_direction(camera, t * ray.ahead, t * ray.right)
    return camera.column + height / CELL_METRES * dx, camera.row + height / CELL_METRES * dy


def floor_texture(rooms: Table, column: jax.Array, row: jax.Array, size: int) -> jax.Array:
    """The texture number of the floor of cells: rooms and corridors differ."""
    line = take(rooms, jnp.clip(row, 0, size - 1))
    bit = line >> jnp.clip(column, 0, size - 1).astype(jnp.uint32) & 1
    return FIRST_FLOOR + bit.astype(jnp.int32)


def step_of(size: jax.Array, steps: int) -> jax.Array:
    """The step of an atlas for pixels of a squared size in texture repeats.

    Half octaves of the size are octaves of its square, so the float's exponent is the answer.
    """
    scaled = size * np.float32(np.sqrt(2) * 4**FULL_LEVEL)
    exponent = (lax.bitcast_convert_type(scaled, jnp.int32) >> 23) - 127
    return jnp.clip(exponent, 0, steps - 1)


def wall_point(
    lens: Lens, ray: Ray, top: jax.Array, shift: float, a: jax.Array, b: jax.Array, u: jax.Array | float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Texture coordinates and squared pixel size where rays meet wall faces.

    1 / t = a * ahead + b * right on the face; `u` is the coordinate straight before the camera, `top`
    the height of the wall above the camera, `shift` the coordinate v of its upper edge.
    """
    inverse = jnp.maximum(a * ray.ahead + b * ray.right, 1e-4)
    t, norm = invert(inverse), a**2 + b**2
    u = u + (ray.right * a - ray.ahead * b) * invert_root(norm) * t / CELL_METRES
    v = shift + (top - t * ray.rise) / CELL_METRES
    across = ray.ahead**2 * norm + ray.rise**2 * b**2
    down = (lens.sin * ray.right) ** 2 * norm + (lens.cos * inverse - (lens.sin * ray.rise) * a) ** 2
    return u, v, jnp.maximum(across, down) * (t**2) ** 2 * np.float32(lens.pixel**2)


def v_shift(wall_height: float) -> float:
    """The texture coordinate at a wall's upper edge: textures are anchored in the middle of a plane."""
    return 0.5 - wall_height / (2 * CELL_METRES)


def coordinates(u: jax.Array, v: jax.Array) -> jax.Array:
    """Both texture coordinates as 16-bit fractions."""
    return to_fixed(u) & 0xFFFF | to_fixed(v) << 16


def sample(atlas: Atlas, entry: jax.Array, uv: jax.Array) -> jax.Array:
    """Bilinear, lit and packed. `entry` is an index into the atlas' table | light << 16.

    Weights have eight bits, so that two channels share a multiplication.
    """
    return sample_texels(
        functools.partial(_fetch, atlas.table), functools.partial(_fetch, atlas.texels), entry, uv
    )


def _fetch(table: jax.Array, index: jax.Array) -> jax.Array:
    return table.at[index].get(mode="promise_in_bounds")


def sample_texels(
    table: Callable[[jax.Array], jax.Array],
    texels: Callable[[jax.Array], jax.Array],
    entry: jax.Array,
    uv: jax.Array,
) -> jax.Array:
    """`sample` with functions that fetch from the atlas."""
    place = table(entry & 0xFFFF)
    log_side = place & 15
    mask, start = (1 << log_side) - 1, place >> 4
    x, y = ((uv & 0xFFFF) << log_side) - 0x8000, ((uv >> 16 & 0xFFFF) << log_side) - 0x8000
    x0, y0 = x >> 16 & mask, y >> 16 & mask
    x1, y1 = x0 + 1 & mask, y0 + 1 & mask
    part_x, part_y = (x >> 8 & 255).astype(jnp.uint32), (y >> 8 & 255).astype(jnp.uint32)
    both = part_x * part_y >> 8
    weights = (256 - part_x - part_y + both, part_x - both, part_y - both, both)
    places = (start + (row << log_side) + column for row in (y0, y1) for column in (x0, x1))
    pair, green = jnp.uint32(0), jnp.uint32(0)
    for index, weight in zip(places, weights, strict=True):
        texel = texels(index)
        pair, green = pair + (texel & 0xFF00FF) * weight, green + (texel >> 8 & 255) * weight
    light = (entry >> 16).astype(jnp.float32) * np.float32(LIT_GAIN / LIGHT_STEPS / 256)
    return pack(*(part.astype(jnp.float32) * light for part in (pair & 0xFFFF, green, pair >> 16)))
