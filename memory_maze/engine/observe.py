"""What is seen of a state: one definition for all interfaces of this engine, and for data.

Names, shapes and bounds are listed in `memory_maze.observation`. The reference has a copy in NumPy,
`memory_maze.reference.observation`; a test holds the two equal.
"""

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp

from memory_maze.engine.picture import minimap
from memory_maze.engine.picture.render import View, render
from memory_maze.engine.picture.textures import Atlas
from memory_maze.engine.types import Body, Maze, State
from memory_maze.options import Options
from memory_maze.world import BORDER_COLORS, COLORS, bits_of, to_cells


def make_view(options: Options) -> View:
    """What pictures of a variant show."""
    return View(
        resolution=options.camera_resolution,
        wall_height=options.wall_height,
        object_height=options.object_height,
        top=options.top_camera,
        border=options.target_color_in_image,
        minimap=options.show_path,
    )


def observe(
    view: View, atlas: Atlas, state: State, names: Iterable[str] | None = None
) -> dict[str, jax.Array]:
    """The observations of these names, by default all. Programs compute what they return alone."""
    body, maze, target = state.body, state.maze, state.target
    size = len(maze.walls)
    position = to_cells(jnp.stack([body.x, body.y]), size)
    forward = jnp.stack([jnp.cos(-body.steer), jnp.sin(-body.steer)])
    right = jnp.stack([forward[1], -forward[0]])
    places = to_cells(maze.objects, size)
    vectors = jnp.stack([((places - position) * axis).sum(-1) for axis in (right, forward)], axis=-1)
    path = minimap.find_path(maze.walls, position, places[target]) if view.minimap else None

    def image() -> jax.Array:
        picture = render_state(view, atlas, state)
        if path is None:
            return picture
        return minimap.draw_minimap(picture, minimap.free_cells(maze.walls), path, position, forward)

    def layout() -> jax.Array:
        free = ~bits_of(maze.walls)
        return (free if path is None else jnp.where(bits_of(path), 2, free)).astype(jnp.uint8)

    makers: dict[str, Callable[[], jax.Array]] = {
        "image": image,
        "target_color": lambda: jnp.asarray(COLORS, jnp.float32)[maze.colors[target]],
        "agent_pos": lambda: position,
        "agent_dir": lambda: forward,
        "targets_vec": lambda: vectors,
        "targets_pos": lambda: places,
        "target_vec": lambda: vectors[target],
        "target_pos": lambda: places[target],
        "maze_layout": layout,
    }
    return {name: makers[name]() for name in (makers if names is None else names)}


def visible_state(
    maze: Maze, pose: jax.Array, target: jax.Array, touched: jax.Array, step: jax.Array
) -> State:
    """States of which only what can be seen is known: observe them, but take no steps.

    All have the same leading axes, before the (4,) of poses: x, y, z and steer.
    """
    x, y, z, steer = jnp.moveaxis(pose.astype(jnp.float32), -1, 0)
    zero = jnp.zeros_like(x)
    return State(
        key=jnp.broadcast_to(jax.random.key(0), x.shape),
        maze=maze,
        body=Body(x, y, z, steer, zero, zero, zero, zero, zero),
        target=target,
        touched=touched,
        paid=jnp.zeros_like(x, bool),
        draws=jnp.zeros((*x.shape, 0), jnp.int32),
        draws_used=jnp.zeros_like(step),
        step=step,
    )


def draw_image(view: View, atlas: Atlas, state: State) -> jax.Array:
    """The image alone, (R, R, 3) uint8."""
    return observe(view, atlas, state, ("image",))["image"]


def render_state(view: View, atlas: Atlas, state: State) -> jax.Array:
    """The picture of a state, (R, R, 3) uint8, without the minimap."""
    body = state.body
    border = jnp.asarray(BORDER_COLORS)[state.maze.colors[state.target]]
    return render(view, atlas, state.maze, body.x, body.y, body.z, -body.steer, ~state.touched, border)
