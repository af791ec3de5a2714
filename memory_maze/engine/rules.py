"""What an action does: the ball moves, the target pays if it was touched, and the next one is drawn."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from memory_maze.engine.physics import motion
from memory_maze.engine.types import State

REWARDS = (0.0, 1.0)  # the least and the most that an action pays: data with others is refused


class Result(NamedTuple):
    """After an action."""

    state: State
    reward: jax.Array  # () float32
    touched: jax.Array  # (T,) bool: objects touched at the end of any substep


def advance(
    state: State, control: jax.Array, *, substeps: int = motion.SUBSTEPS, floating_objects: bool = False
) -> Result:
    """Holds a control (2,), roll and steer, for one action."""
    body, touched = motion.move(
        state.body, control, state.maze, substeps=substeps, floating_objects=floating_objects
    )
    state, reward = collect(state, touched | state.touched)
    return Result(dataclasses.replace(state, body=body, step=state.step + 1), reward, touched)


def collect(state: State, touched: jax.Array) -> tuple[State, jax.Array]:
    """Pays for the target if it was touched, and draws the next; touching any other has no effect.

    `touched` (T,) bool: what was touched during this action, including at reset.
    """
    hit = touched[state.target]
    rewarded = hit & ~state.paid
    key, draw_key = jax.random.split(state.key)
    target, draws_used = next_target(state, touched, draw_key)
    alone = len(touched) == 1
    state = dataclasses.replace(
        state,
        key=key,
        target=jnp.where(rewarded, target, state.target),
        draws_used=jnp.where(rewarded, draws_used, state.draws_used),
        touched=jnp.zeros_like(touched),
        paid=hit if alone else jnp.zeros_like(hit),
    )
    return state, rewarded.astype(jnp.float32)


def next_target(state: State, touched: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """An object that is not being touched, and how many draws that took in all."""
    count = len(touched)
    if count == 1:
        return state.target, state.draws_used
    itself = jnp.arange(count) == state.target
    # As published: objects are handled in their order, and those before the target are done with.
    touched = touched & (jnp.arange(count) >= state.target)
    # Where everything is touched at once, at least not the same again. This is also asked if all objects
    # but the target are touched, and the search below must end.
    taken = touched | itself
    taken = jnp.where(taken.all(), itself, taken)
    if len(state.draws) == 0:
        scores = jnp.where(taken, -1.0, jax.random.uniform(key, (count,)))
        return jnp.argmax(scores).astype(jnp.int32), state.draws_used

    def draw(index: jax.Array) -> jax.Array:
        recorded = state.draws[jnp.minimum(index, len(state.draws) - 1)]
        return jnp.where(index < len(state.draws), recorded, index % count)

    index = lax.while_loop(lambda index: taken[draw(index)], lambda index: index + 1, state.draws_used)
    return draw(index), index + 1
