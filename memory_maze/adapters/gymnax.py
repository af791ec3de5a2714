"""The gymnax interface, for training loops in JAX; gymnax itself is not required.

>>> env = GymnaxEnv("9x9", image_only_obs=True)
>>> observation, state = env.reset(key, env.default_params)
>>> observation, state, reward, done, info = env.step(key, state, action, env.default_params)
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine.env import Env
from memory_maze.engine.types import State, jitted, typed_key
from memory_maze.observation import observation_arrays
from memory_maze.options import ACTIONS
from memory_maze.tasks import Task


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Parameters that can change without recompilation."""

    max_steps_in_episode: int | jax.Array

    def replace(self, **changes: Any) -> "Params":
        """Returns a copy with changes."""
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Discrete:
    """Integers below n."""

    n: int
    shape: tuple[int, ...] = ()
    dtype: Any = jnp.int32

    def sample(self, key: jax.Array) -> jax.Array:
        """A random integer."""
        return jax.random.randint(key, self.shape, 0, self.n, self.dtype)

    def contains(self, x: Any) -> jax.Array:
        """Whether x is in the space."""
        return jnp.logical_and(x >= 0, x < self.n)


@dataclasses.dataclass(frozen=True)
class Box:
    """Arrays with elements from low to high, inclusive."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any

    def sample(self, key: jax.Array) -> jax.Array:
        """A random array."""
        if jnp.issubdtype(self.dtype, jnp.integer):
            return jax.random.randint(key, self.shape, int(self.low), int(self.high) + 1).astype(self.dtype)
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)

    def contains(self, x: Any) -> jax.Array:
        """Whether all elements of x are within the bounds."""
        return jnp.logical_and(jnp.all(x >= self.low), jnp.all(x <= self.high))


@dataclasses.dataclass(frozen=True)
class Dict:
    """A dictionary of spaces."""

    spaces: dict[str, Box]

    @property
    def shape(self) -> dict[str, tuple[int, ...]]:
        """Shape of each space."""
        return {name: space.shape for name, space in self.spaces.items()}

    @property
    def dtype(self) -> dict[str, Any]:
        """Dtype of each space."""
        return {name: space.dtype for name, space in self.spaces.items()}

    def sample(self, key: jax.Array) -> dict[str, jax.Array]:
        """A random dictionary."""
        keys = jax.random.split(key, len(self.spaces))
        return {
            name: space.sample(each) for each, (name, space) in zip(keys, self.spaces.items(), strict=True)
        }

    def contains(self, x: Any) -> jax.Array:
        """Whether every part of x is in its space."""
        return jnp.all(jnp.stack([space.contains(x[name]) for name, space in self.spaces.items()]))


@jax.tree_util.register_pytree_node_class
class GymnaxEnv:
    """A single environment with the gymnax interface; vectorize it with `vmap`.

    `step` resets automatically: where `done`, the observation and the state are those of a new maze. Only the
    time limit ends an episode, so `info["discount"]` is always 1 and `info["truncated"]` is `done`.
    Environments that are reset together end together.

    Randomness comes only from the keys passed to `reset` and `step`.

    Args:
        task: A name like "9x9", or a `Task`.
        final_observation: Put the last observation of an episode into `info["final_observation"]`, which
            is valid where `done`. This renders a second image at every step.
        keywords: As for `memory_maze.engine.env.Env`.
    """

    def __init__(self, task: str | Task = "9x9", *, final_observation: bool = False, **keywords: Any) -> None:
        self.env = Env(task, **keywords)
        self._final_observation = final_observation

    def tree_flatten(self) -> tuple[tuple[Env], bool]:
        """The arrays, and the static data that programs are compiled for."""
        return (self.env,), self._final_observation

    @classmethod
    def tree_unflatten(cls, final_observation: bool, arrays: tuple[Env]) -> "GymnaxEnv":
        """Rebuilds the environment with other arrays."""
        env = object.__new__(cls)
        (env.env,), env._final_observation = arrays, final_observation
        return env

    @property
    def name(self) -> str:
        """Name of the task, like MemoryMaze-9x9."""
        return f"MemoryMaze-{self.env.task.name}"

    @property
    def num_actions(self) -> int:
        """Number of discrete actions, or of continuous controls."""
        return len(ACTIONS) if self.env.options.discrete_actions else 2

    @property
    def default_params(self) -> Params:
        """Parameters with the episode length of the task."""
        return Params(max_steps_in_episode=self.env.episode_steps)

    @jitted
    def reset(self, key: jax.Array, params: Params | None = None) -> tuple[Any, State]:
        """Starts a new episode: returns its first observation and state."""
        state = self._draw(key)
        return self.env.observe(state), state

    @jitted
    def step(
        self, key: jax.Array, state: State, action: jax.Array, params: Params | None = None
    ) -> tuple[Any, State, jax.Array, jax.Array, dict[str, Any]]:
        """Returns observation, state, reward, done and info.

        Where done, observation and state are those of the next episode.
        """
        params = params or self.default_params
        step_key, reset_key = jax.random.split(typed_key(key))
        moved, reward = self.env.advance(dataclasses.replace(state, key=step_key), action)
        done = moved.step >= params.max_steps_in_episode
        next_state = jax.tree.map(lambda new, old: jnp.where(done, new, old), self._draw(reset_key), moved)
        info = {"discount": jnp.float32(1), "truncated": done}
        if self._final_observation:
            info["final_observation"] = self.env.observe(moved)
        return self.env.observe(next_state), next_state, reward, done, info

    def action_space(self, params: Params | None = None) -> Discrete | Box:
        """Six actions, or roll and steer."""
        if self.env.options.discrete_actions:
            return Discrete(len(ACTIONS))
        return Box(-1.0, 1.0, (2,), jnp.float32)

    def observation_space(self, params: Params | None = None) -> Box | Dict:
        """The image, or a dictionary of arrays."""
        options = self.env.options
        arrays = observation_arrays(self.env.task, options, np.float32)
        boxes = {name: Box(array.low, array.high, array.shape, array.dtype) for name, array in arrays.items()}
        return boxes["image"] if options.image_only_obs else Dict(boxes)

    def _draw(self, key: jax.Array) -> State:
        return jax.tree.map(jnp.asarray, self.env.draw(key))
