"""Many mazes at once, each reset when its time is up."""

import dataclasses

import jax
import jax.numpy as jnp

from memory_maze.engine.env import Env
from memory_maze.engine.types import State, Timestep


class Batch:
    """`num` mazes with automatic resets.

    The step after the last of an episode ignores its action and returns the first observation of
    the next one, with reward 0 and `first` set (gymnasium's next-step mode), so that every picture
    is drawn once and the last observation is never lost.
    """

    def __init__(self, env: Env, num: int) -> None:
        self.env, self.num = env, num

    def reset(self, key: jax.Array, spread: bool = True) -> tuple[State, Timestep]:
        """New episodes; `spread` over their whole length in time, so that they never all end at once."""
        key, phase_key = jax.random.split(key)
        states, timesteps = jax.vmap(self.env.reset)(jax.random.split(key, self.num))
        if spread:
            steps = jax.random.randint(phase_key, (self.num,), 0, self.env.episode_steps)
            states = dataclasses.replace(states, step=steps)
        return states, timesteps

    def step(self, states: State, actions: jax.Array) -> tuple[State, Timestep]:
        """One action for each maze."""
        over = states.step >= self.env.episode_steps
        moved, rewards = jax.vmap(self.env.advance)(states, actions)
        key = jax.vmap(lambda key: jax.random.fold_in(key, 2))(states.key)
        started = jax.vmap(self.env.draw)(key)
        states = jax.tree.map(lambda new, old: _select(over, new, old), started, moved)
        return states, Timestep(
            observation=jax.vmap(self.env.observe)(states),
            reward=jnp.where(over, 0.0, rewards),
            terminated=jnp.zeros(self.num, bool),
            truncated=states.step >= self.env.episode_steps,
            first=over,
        )


def _select(choice: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    if jnp.issubdtype(new.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(
            _select(choice, jax.random.key_data(new), jax.random.key_data(old)), impl=jax.random.key_impl(new)
        )
    return jnp.where(choice.reshape(-1, *([1] * (new.ndim - 1))), new, old)
