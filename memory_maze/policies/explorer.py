"""The policy of the paper's data sets: it wanders through the whole maze (section Offline Dataset)."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from memory_maze.engine.types import State
from memory_maze.options import ACTIONS
from memory_maze.policies.geodesic import find_clearance
from memory_maze.policies.steering import Pose, steer
from memory_maze.world import CELL_METRES, to_cells

UNREACHED = 255
FAR = 1e4  # metres to the goal through a wall
AROUND = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))


class Journey(NamedTuple):
    """What the explorer knows, and where it is going. N is the size of the maze."""

    clearance: jax.Array  # (n, n) float32 of `find_clearance`
    steps: jax.Array  # (N * N, N, N) uint8: cells to walk to each goal, or UNREACHED
    goal: jax.Array  # () int32: a cell, N * row + column, or -1


@dataclasses.dataclass(frozen=True)
class Explorer:
    """Goes to one random cell after another, now and then by a random action.

    It searches the maze breadth first and follows the way by planning a few actions ahead.
    """

    noise: float = 0.25
    """How often an action is random."""

    def start(self, state: State) -> Journey:
        walls = state.maze.walls
        return Journey(find_clearance(walls), count_steps(walls), jnp.int32(-1))

    def act(self, memory: Journey, state: State, key: jax.Array) -> tuple[jax.Array, Journey]:
        goal_key, noise_key, action_key = jax.random.split(key, 3)
        size, body = len(state.maze.walls), state.body
        here = find_cell(body.x, size) + size * find_cell(body.y, size)
        arrived = (memory.goal < 0) | (memory.goal == here)
        goal = jnp.where(arrived, choose_goal(goal_key, memory.steps, here), memory.goal)
        way = jnp.pad(memory.steps[goal], 1, constant_values=UNREACHED).astype(jnp.float32)
        way = jnp.where(way == UNREACHED, FAR, way * CELL_METRES)

        def count(pose: Pose, arrived: jax.Array) -> tuple[jax.Array, jax.Array]:
            return left_to_walk(way, pose.x, pose.y), arrived

        planned = steer(count, memory.clearance, body)
        random = jax.random.randint(action_key, (), 0, len(ACTIONS))
        action = jnp.where(jax.random.uniform(noise_key) < self.noise, random, planned)
        return action, memory._replace(goal=goal)


def count_steps(walls: jax.Array) -> jax.Array:
    """(N * N, N, N) uint8: how many cells it is from each cell to each other one."""
    size = len(walls)
    free = walls[:, None] >> jnp.arange(size, dtype=jnp.uint32) & 1 == 0
    goals = jnp.eye(size * size, dtype=bool).reshape(size * size, size, size) & free
    start = jnp.where(goals, jnp.uint8(0), jnp.uint8(UNREACHED))

    def grow(search: tuple) -> tuple:
        steps, _ = search
        padded = jnp.pad(steps, ((0, 0), (1, 1), (1, 1)), constant_values=UNREACHED)
        near = steps
        for down, right in AROUND[1:]:
            near = jnp.minimum(near, padded[:, 1 + down : 1 + down + size, 1 + right : 1 + right + size])
        reached = free & (steps == UNREACHED) & (near != UNREACHED)
        return jnp.where(reached, near + 1, steps).astype(jnp.uint8), reached.any()

    steps, _ = lax.while_loop(lambda search: search[1], grow, (start, jnp.array(True)))
    return steps


def find_cell(place: jax.Array, size: int) -> jax.Array:
    """The row or column of a coordinate in metres."""
    return jnp.clip(jnp.floor(to_cells(place, size)), 0, size - 1).astype(jnp.int32)


def choose_goal(key: jax.Array, steps: jax.Array, here: jax.Array) -> jax.Array:
    """Any other cell that can be walked to, each as likely."""
    away = steps.reshape(len(steps), -1)[here]
    return jnp.argmax(jnp.where((away > 0) & (away < UNREACHED), jax.random.uniform(key, away.shape), -1.0))


def left_to_walk(way: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Metres to the goal: straight to the middle of this cell or one beside it, and on from there.

    `way` (N + 2, N + 2): metres from the middles of cells, outer walls included.
    """
    size = len(way) - 2
    x, y = to_cells(x, size) + 1, to_cells(y, size) + 1
    column, row = (jnp.clip(v, 1, size + 0.5).astype(jnp.int32) for v in (x, y))
    flat, best = way.reshape(-1), jnp.full_like(x, jnp.inf)
    for down, right in AROUND:
        straight = jnp.hypot(column + right + 0.5 - x, row + down + 0.5 - y) * CELL_METRES
        best = jnp.minimum(best, flat[(row + down) * (size + 2) + column + right] + straight)
    return best
