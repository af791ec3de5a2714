"""The geometry of the pictures: pixels, cameras, and which wall each direction meets first.

A pixel's ray is split into forward, right and up parts in the frame of the heading. The camera never
rolls, so forward and up depend on the pixel's row and right on its column alone: all are static.
A ray reaches the point `camera + t * ray`; t is the depth along the middle of the view.

Distances in the plan are in cells, from the bottom left corner of the maze inside its outer wall.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from memory_maze.scenario import TEXTURE_BLOCKS
from memory_maze.world import CELL_METRES, TOP_HEIGHT, TOP_PADDING, to_cells

EYE_HEIGHT, EYE_AHEAD = 0.9, 0.15  # metres: the agent's camera above the floor and before its axis
TILT_COS, TILT_SIN = 0.99503719021, 0.09950371902  # it looks 5.7 degrees down
EGOCENTRIC_TAN = math.tan(math.radians(40))  # of half the field of view
AMBIENT, DIFFUSE = 0.3, 0.6  # of the headlight, which shines along the middle of the view
# Where the four coverage samples lie in a pixel, to the right and down.
SAMPLES = ((0.375, 0.875), (0.875, 0.625), (0.125, 0.375), (0.625, 0.125))
CENTRE = (0.5, 0.5)
NEVER = 255  # a ray that meets no wall of one orientation
TINY = 1e-6


# (L, K), or inside a kernel, which draws one lane, what loads from it by index.
Table = jax.Array | Callable[[Any], jax.Array]


class Ray(NamedTuple):
    """The rays through one place in every pixel, each (P,) float32 with P pixels row by row."""

    right: Any
    up: Any  # in the picture, not in the world
    ahead: Any  # along the heading
    rise: Any  # straight up


@dataclasses.dataclass(frozen=True, eq=False)
class Lens:
    """A camera's field of view and tilt, with what is fixed by them."""

    resolution: int
    tan: float
    cos: float
    sin: float
    samples: tuple[Ray, ...]
    centre: Ray

    @property
    def pixel(self) -> float:
        """How many cells a pixel is wide at a depth of one metre."""
        return 2 * self.tan / self.resolution / CELL_METRES


class Camera(NamedTuple):
    """Where the cameras of the lanes stand; every field is (L, 1) float32."""

    x: jax.Array  # metres
    y: jax.Array
    z: jax.Array
    column: jax.Array  # cells
    row: jax.Array
    cos: jax.Array  # of the heading
    sin: jax.Array


class Faces(NamedTuple):
    """The wall face that each direction of the fan sees, each (L, K).

    On a face the inverse ray parameter is linear in the ray: 1 / t = a * ahead + b * right.
    """

    a: jax.Array  # float32
    b: jax.Array  # float32
    look: jax.Array  # int32: texture coordinate at the camera (16 bits) | light << 16 (10) | texture << 26
    key: jax.Array  # int32: 1 / t for ahead = 1, a float whose low bits are replaced by the face's identity


KEY_BITS = 8
LIGHT_STEPS = 1023


@functools.cache
def egocentric_lens(resolution: int) -> Lens:
    return _make_lens(resolution, EGOCENTRIC_TAN, TILT_COS, TILT_SIN)


@functools.cache
def top_lens(resolution: int, size: int) -> Lens:
    """Straight down; the top of the picture is +y."""
    half = (size + 2) * CELL_METRES / 2
    return _make_lens(resolution, TOP_PADDING * half / TOP_HEIGHT, 0.0, 1.0)


def _make_lens(resolution: int, tan: float, cos: float, sin: float) -> Lens:
    row, column = np.mgrid[:resolution, :resolution].reshape(2, -1)

    def rays(offset: tuple[float, float]) -> Ray:
        ray = _aim(row, column, offset, resolution, tan, cos, sin)
        return Ray(*(part.astype(np.float32) for part in ray))

    return Lens(resolution, tan, cos, sin, tuple(rays(offset) for offset in SAMPLES), rays(CENTRE))


def aim(lens: Lens, row: jax.Array, column: jax.Array, offset: tuple[float, float]) -> Ray:
    """The rays through the same place in chosen pixels, as `lens.samples` has for all."""
    return _aim(row, column, offset, lens.resolution, lens.tan, lens.cos, lens.sin)


def _aim(
    row, column, offset: tuple[float, float], resolution: int, tan: float, cos: float, sin: float
) -> Ray:
    right = (column + offset[0]) * (2 * tan / resolution) - tan
    up = tan - (row + offset[1]) * (2 * tan / resolution)
    return Ray(right, up, cos + sin * up, cos * up - sin)


class Fan(NamedTuple):
    """K directions in the plan that cover the view."""

    slopes: np.ndarray  # (K,) float32: right per ahead
    indices: tuple[np.ndarray, ...]  # (P,) int32: the direction nearest to each sample


def fan_size(resolution: int) -> int:
    """Four directions per column of the picture."""
    return max(256, 4 * resolution)


@functools.cache
def make_fan(lens: Lens, count: int) -> Fan:
    slopes = [ray.right / ray.ahead for ray in (*lens.samples, lens.centre)]
    limit = max(np.abs(slope).max() for slope in slopes) * 1.0001
    fan = -limit + (np.arange(count) + 0.5) * 2 * limit / count
    scale = count / (2 * limit)
    indices = [np.floor((slope + limit) * scale).astype(np.int32) for slope in slopes[:-1]]
    return Fan(fan.astype(np.float32), tuple(np.clip(index, 0, count - 1) for index in indices))


def take(table: Table, index: jax.Array | np.ndarray) -> jax.Array:
    """table[lane, index] of (L, K) by (P,) or (L, P), as one flat gather."""
    if not isinstance(table, jax.Array):
        return table(index)
    lanes, width = table.shape
    start = jnp.arange(lanes, dtype=jnp.int32)[:, None] * width
    return table.reshape(-1).at[start + index].get(mode="promise_in_bounds")


def egocentric_camera(x: jax.Array, y: jax.Array, z: jax.Array, heading: jax.Array, size: int) -> Camera:
    """The agent's cameras from (L,) poses."""
    x, y, z, heading = (part[:, None] for part in (x, y, z, heading))
    cos, sin = jnp.cos(heading), jnp.sin(heading)
    x, y = x + EYE_AHEAD * cos, y + EYE_AHEAD * sin
    return Camera(x, y, z + EYE_HEIGHT, to_cells(x, size), to_cells(y, size), cos, sin)


def top_camera(lanes: int, size: int) -> Camera:
    zero = jnp.zeros((lanes, 1), jnp.float32)
    middle = zero + size / 2
    return Camera(zero, zero, zero + TOP_HEIGHT, middle, middle, zero, zero + 1)


def plan_direction(camera: Camera, ahead, right) -> tuple[jax.Array, jax.Array]:
    """The x and y parts of rays given in the frame of the heading."""
    return camera.cos * ahead + camera.sin * right, camera.sin * ahead - camera.cos * right


def transpose_bits(rows: jax.Array) -> jax.Array:
    """Bit columns from bit rows, (L, N) both."""
    index = jnp.arange(rows.shape[1], dtype=jnp.uint32)
    bits = rows[:, :, None] >> index & 1  # (L, row, column)
    return (bits << index[:, None]).sum(1, dtype=jnp.uint32)


def close_outside(lines: jax.Array) -> jax.Array:
    """(L, N + 1): the bit lines with wall above their N bits, and one line of nothing but wall."""
    size = lines.shape[1]
    outside = np.uint32(0xFFFFFFFF << size & 0xFFFFFFFF)
    return jnp.pad(lines | outside, ((0, 0), (0, 1)), constant_values=np.uint32(0xFFFFFFFF))


class Crossings(NamedTuple):
    """How a direction of the fan meets the grid lines of one orientation, which it crosses one by one."""

    forward: jax.Array  # (L, K) bool: towards larger coordinates
    first: jax.Array  # (L, K): cells to the first line
    speed: jax.Array  # (L, K): cells per ray parameter, at least TINY
    sideways: jax.Array  # (L, K): the other coordinate at the first line
    step: jax.Array  # (L, K): its change from line to line
    behind: jax.Array  # (L, 2, N): the bit lines behind the lines ahead, walking backward and forward


def cross(
    lines: jax.Array, here: jax.Array, side: jax.Array, speed: jax.Array, drift: jax.Array
) -> Crossings:
    """`lines` are bit lines by the coordinate `here`; speed and drift are the direction's two parts."""
    size = lines.shape[1]
    closed = close_outside(lines)
    cell = jnp.floor(here)
    k = jnp.arange(size, dtype=jnp.int32)
    start = cell.astype(jnp.int32)
    after = jnp.clip(start + 1 + k, 0, size)
    before = jnp.where(start - 1 - k < 0, size, jnp.clip(start - 1 - k, 0, size))
    forward = speed > 0
    speed = jnp.maximum(jnp.abs(speed), TINY)
    first = jnp.where(forward, cell + 1 - here, here - cell)
    step = drift / speed
    behind = jnp.stack([take(closed, before), take(closed, after)], 1)
    return Crossings(forward, first, speed, side + first * step, step, behind)


def wall_bit(crossings: Crossings, k: int) -> jax.Array:
    """(L, K) uint32: whether there is wall behind line number k.

    Beyond the outer wall the answer is meaningless, but lines of the other orientation stop the ray first.
    """
    behind = jnp.where(crossings.forward, crossings.behind[:, 1, k, None], crossings.behind[:, 0, k, None])
    place = jnp.clip(crossings.sideways + k * crossings.step, 0, 31).astype(jnp.uint32)
    return behind >> place & 1


def first_wall(crossings: Crossings) -> jax.Array:
    """(L, K) int32: how many lines are crossed before the one with the first wall behind it."""
    hit = jnp.full(crossings.forward.shape, NEVER, jnp.int32)
    for k in reversed(range(crossings.behind.shape[2])):
        hit = jnp.where(wall_bit(crossings, k) > 0, k, hit)
    return hit


def cast(slopes: np.ndarray, walls: jax.Array, columns: jax.Array, camera: Camera) -> jax.Array:
    """(L, K) int32: crossings before the first wall, of lines of constant x | of constant y << 8."""
    dx, dy = plan_direction(camera, 1.0, slopes)
    hit_x = first_wall(cross(columns, camera.column, camera.row, dx, dy))
    hit_y = first_wall(cross(walls, camera.row, camera.column, dy, dx))
    return hit_x | hit_y << 8


def block_texture(textures: jax.Array, column: jax.Array, row: jax.Array, size: int) -> jax.Array:
    """The texture of wall cells: that of their 3x3 block of the grid with its outer wall."""
    grid = size + 2
    column, row = column + 1, size - row  # in the grid, from the top left
    first, second = grid // TEXTURE_BLOCKS, 2 * grid // TEXTURE_BLOCKS
    block_column = (column >= first).astype(jnp.int32) + (column >= second)
    block_row = (row >= first).astype(jnp.int32) + (row >= second)
    return take(textures, TEXTURE_BLOCKS * block_row + block_column)


def find_faces(
    slopes: np.ndarray, hits: jax.Array, textures: jax.Array, camera: Camera, size: int, tilt_cos: float
) -> Faces:
    """The nearer of the two walls that each direction meets."""
    dx, dy = plan_direction(camera, 1.0, slopes)
    lines_x, lines_y = hits & 255, hits >> 8
    floor_x, floor_y = jnp.floor(camera.column), jnp.floor(camera.row)
    away_x = lines_x + jnp.where(dx > 0, floor_x + 1 - camera.column, camera.column - floor_x)
    away_y = lines_y + jnp.where(dy > 0, floor_y + 1 - camera.row, camera.row - floor_y)
    t_x = away_x / jnp.maximum(jnp.abs(dx), TINY)
    t_y = away_y / jnp.maximum(jnp.abs(dy), TINY)
    is_x, t = t_x <= t_y, jnp.minimum(t_x, t_y)  # in cells
    positive = jnp.where(is_x, dx, dy) > 0
    sign = jnp.where(positive, 1, -1)
    lines = jnp.where(is_x, lines_x, lines_y)
    ahead = jnp.where(is_x, floor_x, floor_y).astype(jnp.int32) + sign * (lines + 1)
    place = jnp.where(is_x, camera.row + t * dy, camera.column + t * dx)
    side = jnp.clip(jnp.floor(place).astype(jnp.int32), -1, size)
    texture = block_texture(textures, jnp.where(is_x, ahead, side), jnp.where(is_x, side, ahead), size)
    inverse = sign / (CELL_METRES * jnp.where(is_x, away_x, away_y))
    along = jnp.where(is_x, camera.cos, camera.sin)  # the face's normal along the heading
    u = sign * jnp.where(is_x, -camera.row, camera.column)
    light = AMBIENT + DIFFUSE * tilt_cos * jnp.maximum(0, along * sign)
    look = to_fixed(u) & 0xFFFF | (LIGHT_STEPS * light + 0.5).astype(jnp.int32) << 16 | texture << 26
    identity = texture | is_x << 3 | positive << 4 | (lines & 7) << 5
    depth = lax.bitcast_convert_type(1 / (CELL_METRES * t), jnp.int32)
    key = depth & -(1 << KEY_BITS) | identity
    return Faces(along * inverse, jnp.where(is_x, camera.sin, -camera.cos) * inverse, look, key)


def to_fixed(value: jax.Array) -> jax.Array:
    """With 16 bits after the point; values are less than 32,768."""
    return (value * 65536).astype(jnp.int32)


def inverse_depth(key: jax.Array) -> jax.Array:
    """1 / t on the face for ahead = 1; multiply by the ray's own ahead."""
    return lax.bitcast_convert_type(key & -(1 << KEY_BITS), jnp.float32)
