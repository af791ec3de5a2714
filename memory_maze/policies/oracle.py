"""A policy that knows the map: the benchmark's upper bound."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from memory_maze.engine.types import State
from memory_maze.policies.geodesic import find_clearance, find_distances, look_up
from memory_maze.policies.steering import Pose, steer

TOUCH = 0.76  # metres from the middle of an object, a little less than where it is touched


ARRIVED = 0.02  # metres to go
PRIZE = 1.0  # metres that arriving is worth


class Goal(NamedTuple):
    """Where to go, as what is left to walk from the points of a lattice, in metres."""

    distances: jax.Array  # (n, n) float32: to the goal, zero where it is reached
    later: jax.Array  # (n, n) float32: from there on, once it is reached
    beyond: jax.Array  # () float32: `later` at the goal

    def measure(self, pose: Pose, arrived: jax.Array) -> tuple[jax.Array, jax.Array]:
        """What is left to walk from poses, and whether the goal was reached by then."""
        away = look_up(self.distances, pose.x, pose.y)
        arrived = arrived | (away < ARRIVED)
        return jnp.where(arrived, look_up(self.later, pose.x, pose.y), PRIZE + away + self.beyond), arrived


class Map(NamedTuple):
    """What the oracle knows from the start."""

    clearance: jax.Array  # (n, n) float32
    goals: Goal  # with a leading axis of T objects


@dataclasses.dataclass(frozen=True)
class Oracle:
    """Takes the shortest way to the target, in the real physics.

    It does not know which target is next, so it touches each in a way that is good for the others' mean.
    """

    def start(self, state: State) -> Map:
        clearance = find_clearance(state.maze.walls)
        objects = state.maze.objects
        distances = jax.vmap(lambda place: find_distances(clearance, place, TOUCH))(objects)
        later = (distances.sum(0) - distances) / max(len(objects) - 1, 1)
        beyond = jax.vmap(look_up)(later, objects[:, 0], objects[:, 1])
        return Map(clearance, Goal(distances, later, beyond))

    def act(self, memory: Map, state: State, key: jax.Array) -> tuple[jax.Array, Map]:
        goal = jax.tree.map(lambda part: part[state.target], memory.goals)
        return steer(goal.measure, memory.clearance, state.body), memory
