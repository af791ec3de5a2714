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

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine.picture import above, kernels, rays, shading, spheres
from memory_maze.engine.picture.pixels import (
    FIRST_SPHERE,
    FLOOR,
    NEARBY,
    SKY,
    SURFACE_BITS,
    SURFACE_MASK,
    Floor,
    Scene,
    Survey,
    View,
    encode,
    kind_of,
    make_optics,
    place_texel,
    see_sphere,
    see_wall,
)
from memory_maze.engine.picture.rays import Camera, Faces, Fan, Lens, take
from memory_maze.engine.picture.spheres import Spheres
from memory_maze.engine.picture.staging import Stage, run_staged
from memory_maze.engine.picture.textures import Atlas
from memory_maze.engine.types import Maze
from memory_maze.world import OBJECT_RADIUS

CPU_PIXELS = 8 * 64**2  # drawn at a time on CPUs, so that a stage's arrays stay in the cache


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
        in_kernels = None if view.over_walls else functools.partial(draw_in_kernels, view)
        return run_staged(functools.partial(draw_lanes, view), in_kernels, atlas, scene, cpu_lanes)

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


def draw_in_kernels(view: View, atlas: Atlas, scene: Scene, interpret: bool = False) -> jax.Array:
    """(L, R, R, 3) uint8 of what the agent's camera sees between high walls, on NVIDIA GPUs."""
    found = survey(view, Stage(), scene)
    return kernels.draw(view, atlas, found, scene.maze.rooms, scene.border, interpret)


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
    lens, fan = make_optics(view)
    camera, faces, objects, count = survey(view, stage, scene)
    cover = functools.partial(cover_pixels, view, lens, fan)
    code = stage.switch(count.max(), cover, faces.key, camera.z, objects)
    place = functools.partial(place_texels, view, lens, fan)
    entry, uv = stage(place, atlas, code, faces, scene.maze.rooms, camera)
    color = functools.partial(color_surfaces, lens)
    packed = stage.switch(count.max(), color, atlas, entry, uv, code, objects)
    return stage(functools.partial(blend_edges, view.resolution), packed, code)


def survey(view: View, stage: Stage, scene: Scene) -> Survey:
    """Casts the rays and finds the objects."""
    maze, size = scene.maze, scene.maze.walls.shape[1]
    lens, fan = make_optics(view)
    pose = (scene.x, scene.y, scene.z, scene.heading)
    camera = stage(functools.partial(rays.egocentric_camera, size=size), *pose)
    columns = stage(rays.transpose_bits, maze.walls)
    hits = stage(functools.partial(rays.cast, fan.slopes), maze.walls, columns, camera)
    find_faces = functools.partial(rays.find_faces, fan.slopes, size=size, tilt_cos=lens.cos)
    faces = stage(find_faces, hits, maze.textures, camera)
    objects = stage(functools.partial(find_objects, view, lens, fan), faces.key, camera, maze, scene.visible)
    objects, count = stage(sort_objects, objects)
    return Survey(camera, faces, objects, count)


def find_objects(
    view: View, lens: Lens, fan: Fan, key: jax.Array, camera: Camera, maze: Maze, visible: jax.Array
) -> Spheres:
    """The objects; those out of sight are moved away."""
    x, y = maze.objects[..., 0], maze.objects[..., 1]
    rgb = jnp.asarray(spheres.TEXELS)[maze.colors]
    objects = spheres.see_spheres(lens, camera, x, y, view.object_height, OBJECT_RADIUS, rgb)
    return spheres.keep(objects, visible & spheres.in_sight(fan.slopes, key, camera, x, y))


def sort_objects(objects: Spheres) -> tuple[Spheres, jax.Array]:
    """Nearest first, and how many each lane sees."""
    return spheres.nearest_first(objects), (objects.gap < spheres.NOWHERE).sum(1).astype(jnp.int32)


def cover_pixels(
    view: View, lens: Lens, fan: Fan, count: int, key: jax.Array, eye: jax.Array, objects: Spheres
) -> jax.Array:
    """(L, P) int32: what the pixels' samples see, as `encode` has it."""
    keys = [take(key, index) for index in fan.indices]
    samples = [see_wall(view, ray, key, eye) for ray, key in zip(lens.samples, keys, strict=True)]
    for m, sphere in reversed(list(enumerate(spheres.one_by_one(objects, count)))):
        samples = see_sphere(samples, lens.samples, lens.centre, sphere, m, eye)
    return encode(samples)


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
    face = tuple(take(part, fan.indices[0]) for part in faces[:3])
    floor = Floor(kind_of(code) == FLOOR, *shading.level_ground(lens), rooms, rooms.shape[1])
    return place_texel(view, lens, lens.centre, face, camera, atlas.steps, floor)


def color_surfaces(
    lens: Lens, count: int, atlas: Atlas, entry: jax.Array, uv: jax.Array, code: jax.Array, objects: Spheres
) -> jax.Array:
    """(L, P) uint32: the first surface's colour."""
    kind = kind_of(code)
    packed = jnp.where(kind == SKY, shading.sky_colors(lens), shading.sample(atlas, entry, uv))
    for m, sphere in enumerate(spheres.one_by_one(objects, count)):
        packed = jnp.where(kind == FIRST_SPHERE + m, spheres.color(lens.centre, sphere), packed)
    return packed


def blend_edges(resolution: int, packed: jax.Array, code: jax.Array) -> jax.Array:
    """Mixes in the second surface with the colour it has in a pixel nearby."""
    wanted = code >> SURFACE_BITS & SURFACE_MASK
    row, column = np.mgrid[:resolution, :resolution]
    source = jnp.broadcast_to(np.arange(resolution**2, dtype=np.int32), code.shape)
    for down, right in NEARBY:
        near_row = np.clip(row + down, 0, resolution - 1)
        near_column = np.clip(column + right, 0, resolution - 1)
        near = (near_row * resolution + near_column).reshape(-1).astype(np.int32)
        source = jnp.where(take(code, near) & SURFACE_MASK == wanted, near, source)
    return shading.mix(packed, take(packed, source), (code >> 2 * SURFACE_BITS).astype(jnp.uint32))
