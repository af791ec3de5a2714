"""The minimap of the Oracle variants: the shortest path to the target, on a map around the agent.

Cell for cell and pixel for pixel that of `memory_maze.reference.observation`. Sets of cells are bit rows,
as the walls of a `Maze`: (N,) uint32, row 0 is the bottom row, bit 0 the left cell.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from memory_maze.world import bit_rows

# Loops look whether they are done once in so many steps: on GPUs the look costs more than a step.
STRIDE = 4
ONE = 1 << 16  # of Pillow's fixed point numbers
WHITE, GREEN, RED = 0x7F7F7F, 0x007F00, 0x00007F  # blue << 16 | green << 8 | red, at half brightness


def free_cells(walls: jax.Array) -> jax.Array:
    """Those that are not wall."""
    return ~walls & jnp.uint32((1 << len(walls)) - 1)


def one_cell(size: int, place: jax.Array) -> jax.Array:
    """The cell at (x, y), which may have a fraction."""
    x, y = place.astype(jnp.int32)
    return jnp.where(jnp.arange(size) == y, jnp.uint32(1) << x.astype(jnp.uint32), jnp.uint32(0))


def find_path(walls: jax.Array, position: jax.Array, goal: jax.Array) -> jax.Array:
    """The cells of a shortest path between two places, (2,) in cells."""
    return shortest_path(free_cells(walls), *(one_cell(len(walls), place) for place in (position, goal)))


def shortest_path(free: jax.Array, start: jax.Array, finish: jax.Array) -> jax.Array:
    """The cells from start to finish, both included; none if there is no way.

    The published search begins at the start and tries left, right, down, up. Of all shortest paths it
    finds the first in the alphabetical order of these directions. So here a search from the finish
    notes for each cell the first direction that leads nearer, and the path follows the notes.
    """

    def go_on(search: tuple) -> jax.Array:
        unseen, edge, _ = search
        return ((start & unseen) != 0).any() & (edge != 0).any()

    def grow(search: tuple) -> tuple:
        unseen, edge, notes = search
        for _ in range(STRIDE):
            before = unseen
            found = []
            for back in (_right, _left, _up, _down):
                found.append(back(edge) & unseen)
                unseen = unseen & ~found[-1]
            notes = tuple(map(operator.or_, notes, found))
            edge = before & ~unseen
        return unseen, edge, notes

    def follow(walk: tuple) -> tuple:
        path, here = walk
        for _ in range(STRIDE):
            steps = (move(here & note) for move, note in zip((_left, _right, _down, _up), notes, strict=True))
            here = functools.reduce(operator.or_, steps)
            path = path | here
        return path, here

    edge = finish & (free | start)
    notes = (jnp.zeros_like(free),) * 4
    unseen, _, notes = lax.while_loop(go_on, grow, ((free | start) & ~edge, edge, notes))
    begin = start & ~unseen
    path, _ = lax.while_loop(lambda walk: (walk[1] != 0).any(), follow, (begin, begin))
    return path


def draw_minimap(
    image: jax.Array, free: jax.Array, path: jax.Array, position: jax.Array, forward: jax.Array
) -> jax.Array:
    """The image with the map blended into its top right corner.

    Args:
        image: (R, R, 3) uint8.
        free: Cells that are not wall.
        path: Cells of the path.
        position: (2,) float32 of the agent, in cells from the bottom left.
        forward: (2,) float32, a unit vector: up on the map.
    """
    cells = len(free)
    side = 2 * cells
    rows, columns = _turn(cells, forward)
    inside = _is_within(rows, side) & _is_within(columns, side)
    columns = columns - cells + jnp.floor(2 * position[0] + 0.5).astype(jnp.int32)
    rows = rows + cells - jnp.ceil(2 * position[1] - 0.5).astype(jnp.int32)
    inside &= _is_within(rows, side) & _is_within(columns, side)
    x, y = columns.clip(0, side - 1) // 2, cells - 1 - rows.clip(0, side - 1) // 2
    color = jnp.where(_contain(free, x, y), WHITE, 0)
    color = jnp.where(_contain(path, x, y), GREEN, color)
    color = jnp.where((x == position[0].astype(jnp.int32)) & (y == position[1].astype(jnp.int32)), RED, color)
    return _blend(image, jnp.where(inside, color, 0))


def draw_alone(layout: np.ndarray, position: np.ndarray, forward: np.ndarray) -> np.ndarray:
    """What `draw_minimap` adds to a picture, (2 N, 2 N, 3) uint8 at half brightness.

    Args:
        layout: (N, N), 0 wall, 2 path; row 0 is the bottom row.
        position: (2,) of the agent, in cells from the bottom left.
        forward: (2,), a unit vector.
    """
    cells = bit_rows(layout > 0), bit_rows(layout == 2)
    return np.asarray(_draw_on_black(*cells, position.astype(np.float32), forward.astype(np.float32)))


@jax.jit
def _draw_on_black(free: jax.Array, path: jax.Array, position: jax.Array, forward: jax.Array) -> jax.Array:
    black = jnp.zeros((2 * len(free), 2 * len(free), 3), jnp.uint8)
    return draw_minimap(black, free, path, position, forward)


def _blend(image: jax.Array, colors: jax.Array) -> jax.Array:
    """The image with packed colours added to one half of its top right corner."""
    side, first = len(colors), image.shape[1] - len(colors)

    def blend(channel: jax.Array, image: jax.Array) -> jax.Array:
        corner = lax.dynamic_slice(image, (0, first, channel), (side, side, 1))
        added = (colors >> 8 * channel).astype(jnp.uint8)[..., None]
        return lax.dynamic_update_slice(image, corner // 2 + added, (0, first, channel))

    # In a loop, or XLA would work out the map anew for each byte.
    return lax.fori_loop(0, 3, blend, image)


def _contain(cells: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return cells[y] >> x.astype(jnp.uint32) & 1 == 1


def _turn(cells: int, forward: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Which row and column of the map each pixel shows, (2 N, 2 N) int32, in Pillow's fixed point."""
    (x, y), (x_rest, y_rest) = _split(forward)
    across, ahead = _round(x, x_rest), _round(y, y_rest)
    index = jnp.arange(2 * cells)
    columns = _corner(cells, y - x, y_rest - x_rest) + _round(-x, -x_rest) * index[:, None] + ahead * index
    rows = _corner(cells, x + y, x_rest + y_rest) + ahead * index[:, None] + across * index
    return rows >> 16, columns >> 16


def _split(forward: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The unit vector in fixed point, and what is left: together more digits than float32 has."""
    scaled = forward * ONE
    whole = jnp.round(scaled)
    rest, whole = scaled - whole, whole.astype(jnp.int32)
    # How much longer than one it is by rounding. The integers overflow at 2**32, which is one.
    excess = (whole * whole).sum().astype(jnp.float32) + (2 * whole * rest + rest * rest).sum()
    return whole, rest - whole * excess / (2.0 * ONE**2)


def _corner(cells: int, whole: jax.Array, rest: jax.Array) -> jax.Array:
    """Where the middle of the first pixel falls: the map turns about its own middle."""
    twice = (2 * cells - 1) * whole
    return cells * ONE + _round(-(twice >> 1), -(twice & 1) / 2 - (cells - 0.5) * rest)


def _round(whole: jax.Array, rest: jax.Array) -> jax.Array:
    return whole + jnp.floor(rest + 0.5).astype(jnp.int32)


def _is_within(index: jax.Array, size: int) -> jax.Array:
    return (index >= 0) & (index < size)


def _left(cells: jax.Array) -> jax.Array:
    return cells >> 1


def _right(cells: jax.Array) -> jax.Array:
    return cells << 1


def _down(cells: jax.Array) -> jax.Array:
    return jnp.pad(cells[1:], (0, 1))


def _up(cells: jax.Array) -> jax.Array:
    return jnp.pad(cells[:-1], (1, 0))
