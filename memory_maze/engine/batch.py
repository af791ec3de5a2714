"""A batch of environments with automatic resets."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine.env import Env
from memory_maze.engine.types import State, Timestep, jitted, typed_key


@functools.partial(jax.tree_util.register_dataclass, data_fields=["env"], meta_fields=["num"])
@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """`num` environments with automatic resets.

    The step after the last one of an episode ignores its action and returns the first observation of the
    next episode, with reward 0 and `first` set (gymnasium's next-step mode). This renders every image once
    and keeps the last observation.
    """

    env: Env
    num: int

    def __post_init__(self) -> None:
        check_count("num", self.num)

    @jitted
    def reset(self, key: jax.Array, spread: bool | jax.Array = False) -> tuple[State, Timestep]:
        """Starts new episodes.

        Args:
            key: A single key, or one per environment, which then behaves as a single `Env` with that key.
            spread: Start with part of the time elapsed (`states.step`), so that episodes end at different
                times. This shortens the first episodes: use it for training, not for evaluation.
        """
        keys = jax.vmap(jax.random.split)(self._split(typed_key(key)))
        states, timesteps = jax.vmap(self.env.reset)(keys[:, 0])
        steps = jax.vmap(lambda key: jax.random.randint(key, (), 0, self.env.episode_steps))(keys[:, 1])
        return dataclasses.replace(states, step=jnp.where(spread, steps, 0)), timesteps

    @jitted
    def step(self, states: State, actions: jax.Array, starts: State | None = None) -> tuple[State, Timestep]:
        """Takes an action in each environment.

        `starts` are initial states of the next episodes, precomputed by `draw_next`, for programs in which no
        environment resets more than once.
        """
        over = states.step >= self.env.episode_steps
        moved, rewards = jax.vmap(self.env.advance)(states, actions)
        states = jax.vmap(_select)(over, self.draw_next(states) if starts is None else starts, moved)
        return states, Timestep(
            observation=jax.vmap(self.env.observe)(states),
            reward=jnp.where(over, 0.0, rewards),
            terminated=jnp.zeros_like(over),
            truncated=states.step >= self.env.episode_steps,
            first=over,
        )

    @jitted
    def draw_next(self, states: State) -> State:
        """Samples the initial state of each environment's next episode, if it starts now."""
        return jax.vmap(lambda key: self.env.draw(jax.random.fold_in(key, 2)))(states.key)

    def _split(self, key: jax.Array) -> jax.Array:
        if key.shape not in ((), (self.num,)):
            raise ValueError(f"give one key or {self.num}, one per environment: got {key.shape}")
        return key if key.shape else jax.random.split(key, self.num)


def check_count(name: str, value: Any) -> None:
    """Raises a `ValueError` for an invalid number of environments."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive integer: got {value!r}")


def _select(choice: jax.Array, new: State, old: State) -> State:
    return jax.tree.map(functools.partial(jnp.where, choice), new, old)
