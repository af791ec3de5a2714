"""Pictures by cameras above the walls: the agent's own over low walls, and the one above the maze.

A ray that sinks passes the height of the walls at one point and reaches the floor at another. If the
first point is over a wall, the ray meets its top; otherwise it meets the side of the first wall before
the second point, or the floor there. Walls may stand behind each other and a pixel may hold several
surfaces, so each of a pixel's four samples has its own surface and colour:

    samples  four times: what the sample sees, and where its texture is to be sampled  (L, P) packed, twice
    colour   the mean of the samples' colours                                          (L, P) packed
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from memory_maze.engine.picture import rays, shading, spheres
from memory_maze.engine.picture.pixels import Scene, View
from memory_maze.engine.picture.rays import Camera, Fan, Lens, Ray, take
from memory_maze.engine.picture.spheres import Spheres
from memory_maze.engine.picture.staging import Stage
from memory_maze.engine.picture.textures import SLOTS, Atlas
from memory_maze.engine.types import Maze
from memory_maze.world import CELL_METRES, OBJECT_RADIUS

# The agent as the top camera sees it: right along its axis, metres above the floor, radius, colour.
# Its ears cover the head and the face.
AGENT = (
    (0.22, 0.6, 0.26, (178.5, 0.0, 0.0)),
    (-0.22, 0.6, 0.26, (0.0, 0.0, 178.5)),
    (0.0, 0.2, 0.2, (204.0, 204.0, 204.0)),
)
# Entries of samples that see no texture: the sky, and from FIRST_SPHERE downwards the spheres.
SKY, FIRST_SPHERE = -1, -2
NEVER = 1e9  # ray parameter of what is not met


class LineMasks(NamedTuple):
    """For each direction of the fan, bit k: whether there is wall behind its k-th line. (L, K) uint32."""

    x: jax.Array
    y: jax.Array


class Hit(NamedTuple):
    """Where samples meet walls or the floor, each (L, P)."""

    t: jax.Array  # float32: NEVER in the sky
    is_level: jax.Array  # bool: the floor, or the top of a wall
    is_top: jax.Array  # bool
    is_x: jax.Array  # bool: of a side, whether it is one of constant x


def draw(view: View, stage: Stage, atlas: Atlas, scene: Scene) -> jax.Array:
    """(L, P) packed colours."""
    maze, size = scene.maze, scene.maze.walls.shape[1]
    lens, camera = _make_camera(view, stage, scene, size)
    bodies = stage(functools.partial(find_bodies, view, lens), camera, scene)
    masks, fan = None, None
    if not view.top:
        fan = rays.make_fan(lens, rays.fan_size(view.resolution))
        masks = stage(functools.partial(mask_lines, fan.slopes), maze.walls, camera)
    samples = []
    for index in range(len(rays.SAMPLES)):
        see = functools.partial(see_sample, view, lens, fan, index)
        samples.append(stage(see, atlas, camera, maze, masks, bodies))
    return stage(functools.partial(average, lens), atlas, samples, bodies)


def _make_camera(view: View, stage: Stage, scene: Scene, size: int) -> tuple[Lens, Camera]:
    if view.top:
        return rays.top_lens(view.resolution, size), rays.top_camera(scene.x.shape[0], size)
    pose = (scene.x, scene.y, scene.z, scene.heading)
    camera = stage(functools.partial(rays.egocentric_camera, size=size), *pose)
    return rays.egocentric_lens(view.resolution), camera


def find_bodies(view: View, lens: Lens, camera: Camera, scene: Scene) -> Spheres:
    """The objects, and from above the agent."""
    maze = scene.maze
    x, y = maze.objects[..., 0], maze.objects[..., 1]
    rgb = jnp.asarray(spheres.TEXELS)[maze.colors]
    objects = spheres.see_spheres(lens, camera, x, y, view.object_height, OBJECT_RADIUS, rgb)
    bodies = [spheres.keep(objects, scene.visible)]
    if view.top:
        agent_x, agent_y, agent_z = scene.x[:, None], scene.y[:, None], scene.z[:, None]
        cos, sin = jnp.cos(scene.heading)[:, None], jnp.sin(scene.heading)[:, None]
        for right, height, radius, color in AGENT:
            rgb = jnp.broadcast_to(np.array(color, np.float32), (*agent_x.shape, 3))
            place = (agent_x + right * sin, agent_y - right * cos, agent_z + height)
            bodies.append(spheres.see_spheres(lens, camera, *place, radius, rgb))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, 1), *bodies)


def mask_lines(slopes: np.ndarray, walls: jax.Array, camera: Camera) -> LineMasks:
    """The walls along the fan."""
    dx, dy = rays.plan_direction(camera, 1.0, slopes)
    crossings_x = rays.cross(rays.transpose_bits(walls), camera.column, camera.row, dx, dy)
    crossings_y = rays.cross(walls, camera.row, camera.column, dy, dx)
    lines = range(walls.shape[1])
    x = functools.reduce(jnp.bitwise_or, (rays.wall_bit(crossings_x, k) << k for k in lines))
    y = functools.reduce(jnp.bitwise_or, (rays.wall_bit(crossings_y, k) << k for k in lines))
    return LineMasks(x, y)


def see_sample(
    view: View,
    lens: Lens,
    fan: Fan | None,
    index: int,
    atlas: Atlas,
    camera: Camera,
    maze: Maze,
    masks: LineMasks | None,
    bodies: Spheres,
) -> tuple[jax.Array, jax.Array]:
    """What sample number `index` of every pixel sees: arguments of `shading.sample`, or a negative entry."""
    ray = lens.samples[index]
    if fan is not None and masks is not None:
        masks = LineMasks(take(masks.x, fan.indices[index]), take(masks.y, fan.indices[index]))
    hit = meet_walls(view, ray, camera, maze.walls, masks)
    entry, uv = place_sample(view, lens, ray, atlas, camera, maze, hit)
    entry, nearest = jnp.where(hit.t < NEVER, entry, SKY), hit.t
    for m, body in enumerate(spheres.one_by_one(bodies, bodies.gap.shape[1])):
        t = spheres.reach(ray, body)
        met = spheres.is_met(ray, body) & (t > 0) & (t < nearest)
        entry, nearest = jnp.where(met, FIRST_SPHERE - m, entry), jnp.where(met, t, nearest)
    return entry, uv


def point(camera: Camera, ray: Ray, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Column and row of rays at a parameter."""
    dx, dy = cell_direction(camera, ray)
    return camera.column + t * dx, camera.row + t * dy


def cell_direction(camera: Camera, ray: Ray) -> tuple[jax.Array, jax.Array]:
    """Columns and rows that rays cross per ray parameter."""
    dx, dy = rays.plan_direction(camera, ray.ahead, ray.right)
    return dx / CELL_METRES, dy / CELL_METRES


def is_wall(walls: jax.Array, column: jax.Array, row: jax.Array) -> jax.Array:
    """Whether cells, given as whole floats, are wall; outside of the maze all are."""
    last = walls.shape[1] - 1
    line = take(walls, jnp.clip(row, 0, last).astype(jnp.int32))
    bit = line >> jnp.clip(column, 0, last).astype(jnp.uint32) & 1
    return (bit > 0) | (column < 0) | (column > last) | (row < 0) | (row > last)


def meet_walls(view: View, ray: Ray, camera: Camera, walls: jax.Array, masks: LineMasks | None) -> Hit:
    """The first wall or floor on the rays."""
    size = walls.shape[1]
    sink = np.maximum(-ray.rise, shading.NEAREST_RISE)
    t_top, t_floor = (camera.z - view.wall_height) / sink, camera.z / sink
    column, row = (jnp.floor(place) for place in point(camera, ray, t_top))
    # Past the outer wall there is nothing, not even a floor.
    beyond = (column < -1) | (column > size) | (row < -1) | (row > size)
    is_sky = beyond | (ray.rise > -shading.NEAREST_RISE)
    is_top = is_wall(walls, column, row)
    if masks is None:
        t_x, t_y = next_sides(camera, ray, walls, t_floor, column, row)
    else:
        dx, dy = cell_direction(camera, ray)
        t_x = next_side(masks.x, camera.column, dx, t_top)
        t_y = next_side(masks.y, camera.row, dy, t_top)
    t_side = jnp.minimum(t_x, t_y)
    is_level = is_top | (t_side >= t_floor)
    t = jnp.where(is_top, t_top, jnp.minimum(t_side, t_floor))
    return Hit(jnp.where(is_sky, NEVER, t), is_level, is_top, t_x <= t_y)


def next_side(mask: jax.Array, here: jax.Array, speed: jax.Array, t: jax.Array) -> jax.Array:
    """The parameter of the first line with wall behind it after t, by the masks of the fan."""
    cell = jnp.floor(here)
    first = jnp.where(speed > 0, cell + 1 - here, here - cell)
    speed = jnp.maximum(jnp.abs(speed), rays.TINY)
    line = jnp.clip(jnp.ceil(t * speed - first), 0, 32)
    bits = jnp.where(line < 32, mask >> jnp.minimum(line, 31).astype(jnp.uint32), 0)
    zeros = lax.population_count(~bits & (bits - 1))  # below the lowest bit that is set
    return jnp.where(bits > 0, (first + line + zeros.astype(jnp.float32)) / speed, NEVER)


def next_sides(
    camera: Camera, ray: Ray, walls: jax.Array, t: jax.Array, column: jax.Array, row: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The parameters at which steep rays leave a cell through a wall's side, before t.

    Seen from above, a ray crosses at most one line of each orientation between the walls' height and t.
    """
    dx, dy = cell_direction(camera, ray)
    last_column, last_row = (jnp.floor(place) for place in point(camera, ray, t))
    t_x = (jnp.maximum(column, last_column) - camera.column) / _not_zero(dx)
    t_y = (jnp.maximum(row, last_row) - camera.row) / _not_zero(dy)
    wall_x = is_wall(walls, last_column, jnp.floor(camera.row + t_x * dy))
    wall_y = is_wall(walls, jnp.floor(camera.column + t_y * dx), last_row)
    t_x = jnp.where((column != last_column) & wall_x, t_x, NEVER)
    t_y = jnp.where((row != last_row) & wall_y, t_y, NEVER)
    return t_x, t_y


def _not_zero(value: jax.Array) -> jax.Array:
    return jnp.where(jnp.abs(value) < rays.TINY, rays.TINY, value)


def place_sample(
    view: View, lens: Lens, ray: Ray, atlas: Atlas, camera: Camera, maze: Maze, hit: Hit
) -> tuple[jax.Array, jax.Array]:
    """Where to sample what the sample sees, at the pixel's centre."""
    size = maze.walls.shape[1]
    dx, dy = cell_direction(camera, ray)
    place_x, place_y = point(camera, ray, jnp.where(hit.t < NEVER, hit.t, 0))
    sign = jnp.where(jnp.where(hit.is_x, dx, dy) > 0, 1.0, -1.0)
    line = jnp.round(jnp.where(hit.is_x, place_x, place_y))
    away = _not_zero(line - jnp.where(hit.is_x, camera.column, camera.row))
    inverse = 1 / (CELL_METRES * away)
    along = jnp.where(hit.is_x, camera.cos, camera.sin)
    a, b = along * inverse, jnp.where(hit.is_x, camera.sin, -camera.cos) * inverse
    start = sign * jnp.where(hit.is_x, -camera.row, camera.column)
    top = view.wall_height - camera.z
    shift = shading.v_shift(view.wall_height)
    u, v, side_size = shading.wall_point(lens, lens.centre, top, shift, a, b, start)

    below = jnp.where(hit.is_top, -top, camera.z)
    level_t, level_size = shading.level_ground(lens)
    level_x, level_y = shading.ground_point(level_t, lens.centre, camera, below)
    level_size = level_size * below**2

    behind = line + jnp.where(sign > 0, 0, -1)
    is_side = ~hit.is_level
    cell_x = jnp.where(is_side & hit.is_x, behind, jnp.floor(place_x))
    cell_y = jnp.where(is_side & ~hit.is_x, behind, jnp.floor(place_y))
    cells = (jnp.clip(cell, -1, size).astype(jnp.int32) for cell in (cell_x, cell_y))
    wall = rays.block_texture(maze.textures, *cells, size)
    is_floor = hit.is_level & ~hit.is_top
    column, row = place_x.astype(jnp.int32), place_y.astype(jnp.int32)
    texture = jnp.where(is_floor, shading.floor_texture(maze.rooms, column, row, size), wall)
    side_light = rays.AMBIENT + rays.DIFFUSE * lens.cos * jnp.maximum(0, along * sign)
    side_light = (rays.LIGHT_STEPS * side_light + 0.5).astype(jnp.int32)
    light = jnp.where(hit.is_level, shading.ground_light(lens), side_light)
    step = shading.step_of(jnp.where(hit.is_level, level_size, side_size), atlas.steps)
    uv = shading.coordinates(jnp.where(hit.is_level, level_x, u), jnp.where(hit.is_level, -level_y, v))
    return step * SLOTS + texture | light << 16, uv


def average(
    lens: Lens, atlas: Atlas, samples: list[tuple[jax.Array, jax.Array]], bodies: Spheres
) -> jax.Array:
    """(L, P) uint32: the mean of the samples' colours."""
    colors = {SKY: shading.sky_colors(lens)}
    for m, body in enumerate(spheres.one_by_one(bodies, bodies.gap.shape[1])):
        colors[FIRST_SPHERE - m] = spheres.color(lens.centre, body)
    pair, green = jnp.uint32(0x20002), jnp.uint32(2)  # half a unit, for rounding
    for entry, uv in samples:
        color = shading.sample(atlas, jnp.maximum(entry, 0), uv)
        for number, other in colors.items():
            color = jnp.where(entry == number, other, color)
        pair, green = pair + (color & 0xFF00FF), green + (color >> 8 & 255)
    return pair >> 2 & 0xFF00FF | green >> 2 << 8
