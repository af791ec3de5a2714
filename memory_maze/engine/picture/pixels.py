"""What single pixels see: the arithmetic that the stages of `render` and the kernels of `kernels` share.

Arrays are (L, P), or (P,) inside a kernel, which draws one lane; what a lane has once is (L, 1) or a scalar.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine.picture import rays, shading, spheres
from memory_maze.engine.picture.rays import Camera, Faces, Fan, Lens, Ray
from memory_maze.engine.picture.spheres import Spheres
from memory_maze.engine.picture.textures import SLOTS
from memory_maze.engine.types import Maze
from memory_maze.world import OBJECT_RADIUS, WALL_HEIGHT, border_width

# What a sample sees: one of these, or 2 + m for sphere m; a wall has its face's identity above.
SKY, FLOOR, FIRST_SPHERE, WALL = 0, 1, 2, 8
KIND_BITS = 4
SURFACE_BITS = KIND_BITS + rays.KEY_BITS
SURFACE_MASK = (1 << SURFACE_BITS) - 1
# Where a pixel's second surface is looked for, down and right; the last match wins.
NEARBY = ((1, 0), (0, -1), (0, 1), (-1, 0))


@dataclasses.dataclass(frozen=True)
class View:
    """What a picture shows, besides the state of the maze."""

    resolution: int = 64
    """Height and width in pixels."""
    wall_height: float = WALL_HEIGHT
    object_height: float = 0.0
    """Of an object's centre above the floor, metres."""
    top: bool = False
    """Look from above the maze instead of from the agent."""
    border: bool = True
    """Frame the picture in the colour of the target."""
    minimap: bool = False
    """Show the way to the target on a map, which `observe` draws over the picture."""

    def __post_init__(self) -> None:
        if self.resolution < 1:
            raise ValueError(f"resolution must be positive: got {self.resolution}")
        between = rays.EYE_HEIGHT - 0.1 < self.wall_height < OBJECT_RADIUS + self.object_height
        if not self.top and between:
            raise NotImplementedError(
                f"walls of {self.wall_height} m with objects at {self.object_height} m: the agent's camera "
                "sees either over the walls, or no object above them"
            )

    @property
    def over_walls(self) -> bool:
        """Whether the camera is higher than the walls."""
        return self.top or self.wall_height < rays.EYE_HEIGHT - 0.1

    @property
    def border_width(self) -> int:
        """Pixels."""
        return border_width(self.resolution)


def make_optics(view: View) -> tuple[Lens, Fan]:
    lens = rays.egocentric_lens(view.resolution)
    return lens, rays.make_fan(lens, rays.fan_size(view.resolution))


class Scene(NamedTuple):
    """What is drawn, for L lanes: the arguments of `render` with a leading axis."""

    maze: Maze
    x: jax.Array  # (L,) float32
    y: jax.Array
    z: jax.Array
    heading: jax.Array
    visible: jax.Array  # (L, T) bool
    border: jax.Array  # (L, 3) uint8


class Survey(NamedTuple):
    """What is known before pixels are looked at."""

    camera: Camera
    faces: Faces
    objects: Spheres  # nearest first
    count: jax.Array  # (L,) int32: objects that each lane sees


class Sample(NamedTuple):
    """What one sample of the pixels sees."""

    surface: jax.Array  # int32: SKY, FLOOR, FIRST_SPHERE + m, or WALL | a face's identity
    inverse: jax.Array  # float32: 1 / t of the wall


def see_wall(view: View, ray: Ray, key: jax.Array, eye: jax.Array, sinks: bool = True) -> Sample:
    """A wall, or what is above and below it; rays that do not sink see no floor."""
    inverse = ray.ahead * rays.inverse_depth(key)
    surface = WALL | (key & (1 << rays.KEY_BITS) - 1) << KIND_BITS
    if sinks:
        surface = jnp.where(ray.rise < -eye * inverse, FLOOR, surface)
    return Sample(jnp.where(ray.rise > (view.wall_height - eye) * inverse, SKY, surface), inverse)


def see_sphere(
    samples: Sequence[Sample], aims: Sequence[Ray], centre: Ray, sphere: Spheres, m: int, eye: jax.Array
) -> list[Sample]:
    """Puts a sphere before what the samples see, where it is nearer.

    Spheres are met at the pixel's centre, only their outline is found for each sample.
    """
    t = spheres.reach(centre, sphere)
    seen = []
    for sample, ray in zip(samples, aims, strict=True):
        before = (t > 0) & (t * ray.rise > -eye) & (t * sample.inverse < 1)
        surface = jnp.where(spheres.is_met(ray, sphere) & before, FIRST_SPHERE + m, sample.surface)
        seen.append(sample._replace(surface=surface))
    return seen


def encode(samples: Sequence[Sample]) -> jax.Array:
    """int32: surface of the first sample | another surface << 12 | samples that see others << 24."""
    first = second = samples[0].surface
    others = jnp.zeros_like(first)
    for sample in samples[1:]:
        differs = sample.surface != first
        second = jnp.where(differs, sample.surface, second)
        others = others + differs.astype(jnp.int32)
    return first | second << SURFACE_BITS | others << 2 * SURFACE_BITS


class Floor(NamedTuple):
    """What rays that sink may see."""

    seen: jax.Array  # bool: whether they do
    t: Any  # from `shading.level_ground`
    extent: Any
    rooms: rays.Table
    size: int


def place_texel(
    view: View,
    lens: Lens,
    ray: Ray,
    face: Sequence[jax.Array],
    camera: Camera,
    steps: int,
    floor: Floor | None,
) -> tuple[jax.Array, jax.Array]:
    """Where rays meet the wall faces that they see, or the floor: arguments of `shading.sample`."""
    a, b, look = face
    top, shift = view.wall_height - camera.z, shading.v_shift(view.wall_height)
    u, v, extent = shading.wall_point(lens, ray, top, shift, a, b, 0.0)
    texture = look >> 26 | look & rays.LIGHT_STEPS << 16
    if floor is None:
        u, v = rays.to_fixed(u) + look, rays.to_fixed(v)
    else:
        column, row = shading.ground_point(floor.t, ray, camera, camera.z)
        u = rays.to_fixed(jnp.where(floor.seen, column, u))
        v = rays.to_fixed(jnp.where(floor.seen, -row, v))
        ground = shading.floor_texture(floor.rooms, u >> 16, -v >> 16, floor.size)
        texture = jnp.where(floor.seen, ground | shading.ground_light(lens) << 16, texture)
        extent = jnp.where(floor.seen, floor.extent * np.float32(rays.EYE_HEIGHT**2), extent)
        u = u + jnp.where(floor.seen, 0, look)  # only the low 16 bits are used: where the face begins
    return shading.step_of(extent, steps) * SLOTS + texture, u & 0xFFFF | v << 16


def kind_of(code: jax.Array) -> jax.Array:
    """Of the first surface."""
    return code & (1 << KIND_BITS) - 1
