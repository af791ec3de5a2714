"""Which of the six actions leads to a goal soonest: plans of a few steps, by a rough model of motion."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from memory_maze.engine.types import Body
from memory_maze.policies.geodesic import look_up

NOOP, FORWARD, LEFT, RIGHT, FORWARD_LEFT, FORWARD_RIGHT = range(6)
# Metres and radians of one action, fitted to the walker on free ground.
TOP_SPEED, COAST, STRIDE, LAG = 1.998, 0.2195, 0.4995, 0.128
TURN, TURN_RATE, CARRY = 0.2462, 1.2816, 0.0745
COAST_TURN = 0.0505
HORIZON = 8
CONTACT = 0.21  # metres from the ball's centre to a wall, which holds a ball that comes nearer
INWARD = 0.005  # metres nearer


class Pose(NamedTuple):
    x: jax.Array
    y: jax.Array
    heading: jax.Array
    speed: jax.Array
    turn_rate: jax.Array  # counter-clockwise


def _make_plans() -> np.ndarray:
    """(plans, HORIZON): go straight, turn with or without going on, go straight."""
    plans = set()
    for wait in range(5):
        for turns in range(11):
            for turn, going in ((LEFT, FORWARD_LEFT), (RIGHT, FORWARD_RIGHT)):
                for still in range(turns + 1):
                    if still not in (0, turns) and (wait > 0 or still > 6):
                        continue
                    plan = [FORWARD] * wait + [turn] * still + [going] * (turns - still)
                    plans.add(tuple((plan + [FORWARD] * HORIZON)[:HORIZON]))
    return np.array(sorted(plans), np.int32)


PLANS = _make_plans()
GOES = np.isin(PLANS, (FORWARD, FORWARD_LEFT, FORWARD_RIGHT))
TURNS = np.isin(PLANS, (LEFT, FORWARD_LEFT)).astype(int) - np.isin(PLANS, (RIGHT, FORWARD_RIGHT)).astype(int)


def pose_of(body: Body) -> Pose:
    heading = -body.steer
    speed = body.vx * jnp.cos(heading) + body.vy * jnp.sin(heading)
    return Pose(body.x, body.y, heading, speed, -body.steer_rate)


def roll_out(pose: Pose, goes: jax.Array, turns: jax.Array) -> Pose:
    """The poses after one action, by the rough model."""
    speed = jnp.where(goes, TOP_SPEED - (TOP_SPEED - pose.speed) * COAST, pose.speed * COAST)
    stride = jnp.where(goes, STRIDE - LAG * (TOP_SPEED - pose.speed), LAG * pose.speed)
    angle = TURN * turns + CARRY * pose.turn_rate / TURN_RATE
    angle = jnp.where(turns == 0, COAST_TURN * pose.turn_rate / TURN_RATE, angle)
    middle = pose.heading + 0.5 * angle
    return Pose(
        pose.x + stride * jnp.cos(middle),
        pose.y + stride * jnp.sin(middle),
        pose.heading + angle,
        speed,
        turns * TURN_RATE,
    )


class Plan(NamedTuple):
    """Where the plans have got to, (plans,) each."""

    pose: Pose
    clearance: jax.Array
    stuck: jax.Array
    arrived: jax.Array
    cost: jax.Array


# What is left to walk in metres, and who has arrived by now, from poses and who had arrived before.
Measure = Callable[[Pose, jax.Array], tuple[jax.Array, jax.Array]]


def steer(measure: Measure, clearance: jax.Array, body: Body) -> jax.Array:
    """() int32: the first action of the plan that leaves the least to walk, summed over its steps.

    Args:
        measure: Tells what is left to walk.
        clearance: (n, n) float32 of `geodesic.find_clearance`.
        body: Where the ball is and how it moves.
    """
    pose = jax.tree.map(lambda part: jnp.broadcast_to(part, len(PLANS)), pose_of(body))
    free = look_up(clearance, pose.x, pose.y)
    never = free > jnp.inf
    start = Plan(pose, free, never, never, jnp.zeros_like(free))

    def step(plan: Plan, action: tuple[Any, Any]) -> tuple[Plan, None]:
        before = plan.pose
        pose = roll_out(before, *action)
        free, stuck = plan.clearance, plan.stuck
        for share in (0.5, 1.0):
            x, y = before.x + share * (pose.x - before.x), before.y + share * (pose.y - before.y)
            now = look_up(clearance, x, y)
            stuck = stuck | (now < CONTACT) & (now < free - INWARD)
            free = jnp.where(stuck, free, now)
        pose = pose._replace(x=jnp.where(stuck, before.x, pose.x), y=jnp.where(stuck, before.y, pose.y))
        left, arrived = measure(pose, plan.arrived)
        return Plan(pose, free, stuck, arrived, plan.cost + left), None

    plan, _ = lax.scan(step, start, (GOES.T, TURNS.T.astype(np.float32)))
    return jnp.asarray(PLANS[:, 0])[jnp.argmin(plan.cost)]
