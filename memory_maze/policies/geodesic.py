"""How far it is to a goal along the shortest way that the ball can take, from everywhere in a maze.

Distances are on a lattice of points, several to a cell, joined to sixteen neighbours; the ways keep clear
of walls by the ball's radius and a margin.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from memory_maze.world import CELL_METRES

POINTS = 8  # to a cell and axis
SPACING = CELL_METRES / POINTS
CLEARANCE = 0.26  # metres from the ball's centre to walls
FAR = 1e4
PRICE = 8.0  # metres that a metre too near to a wall costs on top
# Steps to neighbours, half of them: the others are their opposites.
STEPS = ((1, 0), (0, 1), (1, 1), (1, -1), (2, 1), (2, -1), (1, 2), (1, -2))


def find_clearance(walls: jax.Array) -> jax.Array:
    """(n, n) float32 by row and column: metres from the points to the nearest wall, up to one cell."""
    size = len(walls)
    bits = walls[:, None] >> jnp.arange(size, dtype=jnp.uint32) & 1 == 1
    closed = jnp.pad(bits, 1, constant_values=True)
    within = (np.arange(POINTS) + 0.5) * SPACING  # from the lower edge of the cell
    clearance = jnp.full((size, POINTS, size, POINTS), CELL_METRES)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            solid = closed[1 + down : 1 + down + size, 1 + right : 1 + right + size]
            away = np.hypot(
                _beyond(within, down)[:, None], _beyond(within, right)
            )  # (row, column) in the cell
            near = jnp.where(solid[:, None, :, None], away[None, :, None, :], CELL_METRES)
            clearance = jnp.minimum(clearance, near)
    return clearance.reshape(size * POINTS, size * POINTS)


def _beyond(within: np.ndarray, side: int) -> np.ndarray:
    """How far points of a cell are from the cell on a side of it, along one axis."""
    return {-1: within, 0: np.zeros_like(within), 1: CELL_METRES - within}[side]


def to_lattice(place: jax.Array, size: int) -> jax.Array:
    """Coordinates in metres in steps of the lattice."""
    return (place + size * CELL_METRES / 2) / SPACING - 0.5


def find_distances(clearance: jax.Array, goal: jax.Array, radius: float) -> jax.Array:
    """(n, n) float32: metres from the points to within `radius` of the goal (2,), also from unclear ones."""
    clear = clearance > CLEARANCE
    count = len(clear)
    size = count // POINTS
    x, y = to_lattice(goal, size)
    index = jnp.arange(count)
    away = jnp.hypot(index[:, None] - y, index - x) * SPACING
    start = jnp.where(clear & (away < CELL_METRES / 2), jnp.maximum(away - radius, 0), FAR)

    def relax(_: int, distances: jax.Array) -> jax.Array:
        best = distances
        for down, right in STEPS:
            length = np.hypot(down, right) * SPACING
            for sign in (1, -1):
                best = jnp.minimum(best, _shift(distances, sign * down, sign * right) + length)
        return jnp.where(clear, best, FAR)

    def step(carry: tuple) -> tuple:
        distances, _ = carry
        better = lax.fori_loop(0, 8, relax, distances)
        return better, (better < distances - 1e-4).any()

    distances, _ = lax.while_loop(lambda carry: carry[1], step, (start, jnp.array(True)))
    return _fill(distances, clear)


def _fill(distances: jax.Array, clear: jax.Array) -> jax.Array:
    """Unclear points lead to the clear ones nearby, at a price."""

    def grow(_: int, distances: jax.Array) -> jax.Array:
        best = distances
        for down, right in STEPS[:4]:
            cost = (1 + PRICE) * np.hypot(down, right) * SPACING
            for sign in (1, -1):
                best = jnp.minimum(best, _shift(distances, sign * down, sign * right) + cost)
        return jnp.where(clear, distances, best)

    return lax.fori_loop(0, POINTS, grow, distances)


def _shift(array: jax.Array, down: int, right: int) -> jax.Array:
    height, width = array.shape
    padded = jnp.pad(array, 2, constant_values=FAR)
    return padded[2 - down : 2 - down + height, 2 - right : 2 - right + width]


def look_up(distances: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """The values at positions in metres, between the points."""
    count = len(distances)
    x, y = to_lattice(x, count // POINTS), to_lattice(y, count // POINTS)
    x, y = jnp.clip(x, 0, count - 1.001), jnp.clip(y, 0, count - 1.001)
    column, row = x.astype(jnp.int32), y.astype(jnp.int32)
    part_x, part_y = x - column, y - row
    flat = distances.reshape(-1)
    start = row * count + column
    lower = flat[start] * (1 - part_x) + flat[start + 1] * part_x
    upper = flat[start + count] * (1 - part_x) + flat[start + count + 1] * part_x
    return lower * (1 - part_y) + upper * part_y
