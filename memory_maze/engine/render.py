"""Pictures of the maze, equivalent to those of the reference's renderer.

The picture of the agent's camera between high walls is made in stages. Which wall is seen depends on
the direction in the plan alone, so walls are found for a fan of directions, not for pixels:

    camera   where the lanes' cameras stand
    faces    the wall face that each direction of the fan sees                        (L, K)
    spheres  the objects in sight, nearest first                                      (L, T)
    cover    what four samples per pixel see: two surfaces and their shares           (L, P) packed
    place    where the first surface's texture is to be sampled                       (L, P) packed, twice
    colour   the colour of the first surface                                          (L, P) packed
    blend    the second surface is the first one of a pixel nearby: mixed by share    (L, P) packed
    finish   the border; one integer per pixel becomes three bytes                    (L, R, R, 3)

L is the lanes (mazes in a batch), P the pixels. Cameras above the walls are in `above.py`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine import above, rays, shading, spheres
from memory_maze.engine.rays import Camera, Faces, Fan, Lens, take
from memory_maze.engine.spheres import OBJECT_RADIUS, Spheres
from memory_maze.engine.staging import Stage, run_staged
from memory_maze.engine.textures import SLOTS, Atlas
from memory_maze.engine.types import Maze

CPU_PIXELS = 8 * 64**2  # drawn at a time on CPUs, so that a stage's arrays stay in the cache

# What a sample sees: one of these, or 2 + m for sphere m; a wall has its face's identity above.
SKY, FLOOR, FIRST_SPHERE, WALL = 0, 1, 2, 8
KIND_BITS = 4
SURFACE_BITS = KIND_BITS + rays.KEY_BITS
SURFACE_MASK = (1 << SURFACE_BITS) - 1


@dataclasses.dataclass(frozen=True)
class View:
    """What a picture shows, besides the state of the maze."""

    resolution: int = 64
    """Height and width in pixels."""
    wall_height: float = 1.5
    object_height: float = 0.0
    """Of an object's centre above the floor, metres."""
    top: bool = False
    """Look from above the maze instead of from the agent."""
    border: bool = True
    """Frame the picture in the colour of the target."""

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
        return max(1, int(2 * math.sqrt(self.resolution // 64)))


class Scene(NamedTuple):
    """What is drawn, for L lanes: the arguments of `render` with a leading axis."""

    maze: Maze
    x: jax.Array  # (L,) float32
    y: jax.Array
    z: jax.Array
    heading: jax.Array
    visible: jax.Array  # (L, T) bool
    border: jax.Array  # (L, 3) uint8


def render(
    view: View,
    atlas: Atlas,
    maze: Maze,
    x: jax.Array,
    y: jax.Array,
    z: jax.Array,
    heading: jax.Array,
    visible: jax.Array,
    border: jax.Array,
) -> jax.Array:
    """The picture of one maze, (R, R, 3) uint8; under `vmap` all lanes are drawn at once.

    Args:
        view: Static.
        atlas: From `textures.load_atlas`; the same for all lanes.
        maze: The maze.
        x, y, z, heading: The agent's pose, as in `Body`; radians from +x to +y.
        visible: (T,) bool, which objects are drawn.
        border: (3,) uint8, the colour of the frame.
    """
    pose = (jnp.asarray(part, jnp.float32) for part in (x, y, z, heading))
    scene = Scene(maze, *pose, jnp.asarray(visible, bool), jnp.asarray(border, jnp.uint8))
    return _drawer(view)(atlas, jax.tree.map(lambda array: jnp.asarray(array)[None], scene))[0]


@functools.cache
def _drawer(view: View) -> Callable[[Atlas, Scene], jax.Array]:
    """The function that draws lanes. Mapping it makes more lanes, however deep `vmap` is nested."""

    @jax.custom_batching.custom_vmap
    @jax.jit
    def draw(atlas: Atlas, scene: Scene) -> jax.Array:
        cpu_lanes = max(1, CPU_PIXELS // view.resolution**2)
        return run_staged(functools.partial(draw_lanes, view), atlas, scene, cpu_lanes)

    def merge_lanes(axis_size: int, batched: Any, atlas: Atlas, scene: Scene) -> tuple[jax.Array, bool]:
        if any(jax.tree.leaves(batched[0])):
            raise ValueError("the atlas is the same for all lanes: map it with in_axes=None")

        def merge(array: jax.Array, is_batched: bool) -> jax.Array:
            if not is_batched:
                array = jnp.broadcast_to(array, (axis_size, *array.shape))
            return array.reshape(-1, *array.shape[2:])

        images = draw(atlas, jax.tree.map(merge, scene, batched[1]))
        return images.reshape(axis_size, -1, *images.shape[1:]), True

    draw.def_vmap(merge_lanes)
    return draw


def draw_lanes(view: View, stage: Stage, atlas: Atlas, scene: Scene) -> jax.Array:
    """(L, R, R, 3) uint8."""
    if view.over_walls:
        packed = above.draw(view, stage, atlas, scene)
    else:
        packed = draw_between_walls(view, stage, atlas, scene)
    return stage(functools.partial(finish, view), packed, scene.border)


def finish(view: View, packed: jax.Array, border: jax.Array) -> jax.Array:
    """The frame around the picture, and its bytes."""
    side, width = view.resolution, view.border_width
    packed = packed.reshape(-1, side, side)
    if view.border:
        inside = np.zeros((side, side), bool)
        inside[width : side - width, width : side - width] = True
        red, green, blue = (border[:, channel, None, None].astype(jnp.uint32) for channel in range(3))
        packed = jnp.where(inside, packed, red | green << 8 | blue << 16)
    return shading.unpack(packed)


def draw_between_walls(view: View, stage: Stage, atlas: Atlas, scene: Scene) -> jax.Array:
    """(L, P) packed colours of what the agent's camera sees."""
    maze, size = scene.maze, scene.maze.walls.shape[1]
    lens = rays.egocentric_lens(view.resolution)
    fan = rays.make_fan(lens, rays.fan_size(view.resolution))
    pose = (scene.x, scene.y, scene.z, scene.heading)
    camera = stage(functools.partial(rays.egocentric_camera, size=size), *pose)
    columns = stage(rays.transpose_bits, maze.walls)
    hits = stage(functools.partial(rays.cast, fan.slopes), maze.walls, columns, camera)
    find_faces = functools.partial(rays.find_faces, fan.slopes, size=size, tilt_cos=lens.cos)
    faces = stage(find_faces, hits, maze.textures, camera)
    objects = stage(functools.partial(find_objects, view, lens, fan), faces.key, camera, maze, scene.visible)
    objects, count = stage(sort_objects, objects)
    cover = functools.partial(cover_pixels, view, lens, fan)
    code = stage.switch(count, cover, faces.key, camera.z, objects)
    place = functools.partial(place_texels, view, lens, fan)
    entry, uv = stage(place, atlas, code, faces, maze.rooms, camera)
    packed = stage.switch(count, functools.partial(color_surfaces, lens), atlas, entry, uv, code, objects)
    return stage(functools.partial(blend_edges, view.resolution), packed, code)


def find_objects(
    view: View, lens: Lens, fan: Fan, key: jax.Array, camera: Camera, maze: Maze, visible: jax.Array
) -> Spheres:
    """The objects; those out of sight are moved away."""
    x, y = maze.objects[..., 0], maze.objects[..., 1]
    rgb = jnp.asarray(spheres.TEXELS)[maze.colors]
    objects = spheres.see_spheres(lens, camera, x, y, view.object_height, OBJECT_RADIUS, rgb)
    return spheres.keep(objects, visible & spheres.in_sight(fan.slopes, key, camera, x, y))


def sort_objects(objects: Spheres) -> tuple[Spheres, jax.Array]:
    """Nearest first, and how many the lanes see at most."""
    return spheres.nearest_first(objects), (objects.gap < spheres.NOWHERE).sum(1).max().astype(jnp.int32)


def cover_pixels(
    view: View, lens: Lens, fan: Fan, count: int, key: jax.Array, eye: jax.Array, objects: Spheres
) -> jax.Array:
    """(L, P) int32: surface of the first sample | another surface << 12 | samples that see others << 24.

    Spheres are met at the pixel's centre, only their outline is found for each sample.
    """
    reaches = [spheres.reach(lens.centre, objects, m) for m in range(count)]
    surfaces = []
    for ray, index in zip(lens.samples, fan.indices, strict=False):
        face = take(key, index)
        inverse = ray.ahead * rays.inverse_depth(face)
        wall = WALL | (face & (1 << rays.KEY_BITS) - 1) << KIND_BITS
        above_wall, below_wall = ray.rise > (view.wall_height - eye) * inverse, ray.rise < -eye * inverse
        surface = jnp.where(above_wall, SKY, jnp.where(below_wall, FLOOR, wall))
        for m in reversed(range(count)):
            t = reaches[m]
            before = (t > 0) & (t * ray.rise > -eye) & (t * inverse < 1)
            surface = jnp.where(spheres.is_met(ray, objects, m) & before, FIRST_SPHERE + m, surface)
        surfaces.append(surface)
    first = second = surfaces[0]
    others = jnp.zeros_like(first)
    for surface in surfaces[1:]:
        differs = surface != first
        second = jnp.where(differs, surface, second)
        others = others + differs
    return first | second << SURFACE_BITS | others << 2 * SURFACE_BITS


def place_texels(
    view: View,
    lens: Lens,
    fan: Fan,
    atlas: Atlas,
    code: jax.Array,
    faces: Faces,
    rooms: jax.Array,
    camera: Camera,
) -> tuple[jax.Array, jax.Array]:
    """Where to sample the first surface, at the pixel's centre: arguments of `shading.sample`."""
    a, b, look = (take(part, fan.indices[0]) for part in faces[:3])
    start = (look & 0xFFFF).astype(jnp.float32) * np.float32(1 / 65536)
    top, shift = view.wall_height - camera.z, shading.v_shift(view.wall_height)
    u, v, size = shading.wall_point(lens, top, shift, a, b, start)
    column, row = shading.ground_point(lens, camera, camera.z)
    floor = shading.floor_texture(rooms, column, row) | shading.ground_light(lens) << 16
    is_floor = code & (1 << KIND_BITS) - 1 == FLOOR
    size = jnp.where(is_floor, shading.level_ground(lens)[1] * np.float32(rays.EYE_HEIGHT**2), size)
    uv = shading.coordinates(jnp.where(is_floor, column, u), jnp.where(is_floor, -row, v))
    texture = jnp.where(is_floor, floor, look >> 26 | look & rays.LIGHT_STEPS << 16)
    return shading.step_of(size, atlas) * SLOTS + texture, uv


def color_surfaces(
    lens: Lens, count: int, atlas: Atlas, entry: jax.Array, uv: jax.Array, code: jax.Array, objects: Spheres
) -> jax.Array:
    """(L, P) uint32: the first surface's colour."""
    kind = code & (1 << KIND_BITS) - 1
    packed = jnp.where(kind == SKY, shading.sky_colors(lens), shading.sample(atlas, entry, uv))
    for m in range(count):
        light = spheres.light(lens.centre, objects, m)
        rgb = (light * objects.rgb[:, m, channel, None] for channel in range(3))
        packed = jnp.where(kind == FIRST_SPHERE + m, shading.pack(*rgb), packed)
    return packed


def blend_edges(resolution: int, packed: jax.Array, code: jax.Array) -> jax.Array:
    """Mixes in the second surface with the colour it has in a pixel nearby."""
    wanted = code >> SURFACE_BITS & SURFACE_MASK
    row, column = np.mgrid[:resolution, :resolution]
    source = jnp.broadcast_to(np.arange(resolution**2, dtype=np.int32), code.shape)
    for down, right in ((1, 0), (0, -1), (0, 1), (-1, 0)):  # the last match wins
        near_row = np.clip(row + down, 0, resolution - 1)
        near_column = np.clip(column + right, 0, resolution - 1)
        near = (near_row * resolution + near_column).reshape(-1).astype(np.int32)
        source = jnp.where(take(code, near) & SURFACE_MASK == wanted, near, source)
    return shading.mix(packed, take(packed, source), (code >> 2 * SURFACE_BITS).astype(jnp.uint32))
