"""Many mazes at once, each reset when its time is up."""

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
    """`num` mazes with automatic resets.

    The step after the last of an episode ignores its action and returns the first observation of
    the next one, with reward 0 and `first` set (gymnasium's next-step mode), so that every picture
    is drawn once and the last observation is never lost.
    """

    env: Env
    num: int

    def __post_init__(self) -> None:
        check_count("num", self.num)

    @jitted
    def reset(self, key: jax.Array, spread: bool | jax.Array = False) -> tuple[State, Timestep]:
        """New episodes.

        `key` is one for all, or one for each: then each is as it would be alone. With `spread` most have part
        of their time behind them (`states.step`), so that they never all end at once: these first episodes
        are cut short, which is good for training and wrong for scores.
        """
        keys = jax.vmap(jax.random.split)(self._split(typed_key(key)))
        states, timesteps = jax.vmap(self.env.reset)(keys[:, 0])
        steps = jax.vmap(lambda key: jax.random.randint(key, (), 0, self.env.episode_steps))(keys[:, 1])
        return dataclasses.replace(states, step=jnp.where(spread, steps, 0)), timesteps

    @jitted
    def step(self, states: State, actions: jax.Array, starts: State | None = None) -> tuple[State, Timestep]:
        """One action for each maze.

        `starts` are the next episodes, drawn before by `draw_next`: for programs whose many steps have no
        time for more than one reset of each maze.
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
        """What each maze's next episode begins with, if it begins now."""
        return jax.vmap(lambda key: self.env.draw(jax.random.fold_in(key, 2)))(states.key)

    def _split(self, key: jax.Array) -> jax.Array:
        if key.shape not in ((), (self.num,)):
            raise ValueError(f"give one key or {self.num}, one per environment: got {key.shape}")
        return key if key.shape else jax.random.split(key, self.num)


def check_count(name: str, value: Any) -> None:
    """Refuses what cannot be a number of mazes."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive integer: got {value!r}")


def _select(choice: jax.Array, new: State, old: State) -> State:
    return jax.tree.map(functools.partial(jnp.where, choice), new, old)
