"""The gymnasium vector interface: a single program on the device steps and renders all environments."""

import dataclasses
import functools
import secrets
from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from memory_maze.adapters.spaces import action_space, observation_space
from memory_maze.engine.batch import Batch, check_count
from memory_maze.engine.env import Env
from memory_maze.engine.observe import render_state
from memory_maze.engine.picture.render import View
from memory_maze.engine.picture.textures import Atlas
from memory_maze.engine.types import State, Timestep
from memory_maze.options import ACTION_NAMES, ACTIONS
from memory_maze.sampler import check_seed
from memory_maze.tasks import Task

ARRAYS = ("numpy", "jax")
RENDER_RESOLUTION = 256
MAX_RENDERED = 16
_DLPACK_HOST = 1


class MemoryMazeVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment for gymnasium, as a single program.

    The step after the last one of an episode ignores its action and returns the first observation of the
    next episode with reward 0 (`AutoresetMode.NEXT_STEP`). Episodes are truncated by the time limit and never
    terminated.

    `reset(seed=s)` starts the sequences of episodes of seed s, `reset()` continues them. A list gives each
    environment its own seed, with the same episodes as a single environment, up to rounding; None in the list
    continues the sequence of that environment.

    Args:
        num_envs: Number of environments.
        task: A name like "9x9", or a `Task`.
        arrays: "numpy", or "jax" to keep all data on the device: actions may then be JAX arrays or any that
            support DLPack, and results can be passed to other libraries through DLPack without a copy.
        render_mode: "rgb_array" or None; `render` renders the first 16 environments.
        render_resolution: Height and width of the rendered images.
        seed: Seed of the first `reset()`; random by default.
        layouts: Number of layouts to sample from.
        held_out: Sample from held-out layouts, which are never trained on.
        spread: Start the first episodes after each reset with part of their time elapsed, so that episodes
            end at different times. `infos["cut"]` marks environments in such a shorter episode.
        engine: Only "jax".
        keywords: `seconds`, `bank`, and the fields of `memory_maze.Options`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int,
        task: str | Task = "9x9",
        *,
        arrays: str = "numpy",
        render_mode: str | None = None,
        render_resolution: int = RENDER_RESOLUTION,
        seed: int | None = None,
        layouts: int | None = None,
        held_out: bool = False,
        spread: bool = False,
        engine: str = "jax",
        **keywords: Any,
    ) -> None:
        _check_arguments(num_envs, arrays, render_mode, engine)
        env = Env(task, layouts=layouts, held_out=held_out, **keywords)
        self.env, self.num_envs, self.render_mode = env, num_envs, render_mode
        self.metadata = self.metadata | {"render_fps": env.options.control_freq}
        self.single_observation_space = observation_space(env.task, env.options, np.float32)
        self.single_action_space = action_space(env.options)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch, self._spread = Batch(env, num_envs), spread
        self._host = arrays == "numpy"
        (self._device,) = env.bank.walls.devices()
        self._view = dataclasses.replace(env.view, resolution=render_resolution, border=True)
        self._keys = self._make_keys(secrets.randbits(32))
        if seed is not None:
            self._keys = self._make_keys(seed)
        self._state: State | None = None
        self._cut: jax.Array  # (num_envs,) bool: since the first reset

    @property
    def state(self) -> State:
        """The current state of all environments, on the device. The next `step` donates its memory."""
        if self.closed:
            raise RuntimeError("the environment is closed: create a new one")
        if self._state is None:
            raise RuntimeError("call reset() first")
        return self._state

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if self.closed:
            raise RuntimeError("the environment is closed: create a new one")
        if options:
            raise ValueError(f"unknown reset options {sorted(options)}: none are supported")
        if seed is not None:
            self._keys = self._make_keys(seed)
        self._keys, self._state, self._cut, observation = _reset(self._batch, self._spread, self._keys)
        return self._give(observation), self._tell()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        state, actions = self.state, self._take(actions)
        self._state, self._cut, timestep = _step(self._batch, state, self._cut, actions)
        return (
            *self._give((timestep.observation, timestep.reward, timestep.terminated, timestep.truncated)),
            self._tell(),
        )

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Renders the current views of the first 16 environments."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                'render() without a render_mode: pass gymnasium.make_vec(..., render_mode="rgb_array")'
            )
            return None
        first = jax.tree.map(lambda leaf: leaf[:MAX_RENDERED], self.state)
        return tuple(np.array(_render(self._view, self.env.atlas, first)))

    def close_extras(self, **kwargs: Any) -> None:
        self._state = None

    def _make_keys(self, seed: int | Sequence[int | None]) -> jax.Array:
        """(num_envs,) keys. What stays on one device from the start is never compiled again for it."""
        if isinstance(seed, Sequence | np.ndarray):
            if len(seed) != self.num_envs:
                raise ValueError(f"give one seed or {self.num_envs}, one per environment: got {len(seed)}")
            keys = jnp.stack(
                [self._keys[i] if each is None else _make_key(each) for i, each in enumerate(seed)]
            )
        else:
            keys = jax.random.split(_make_key(seed), self.num_envs)
        return jax.device_put(keys, self._device)

    def _tell(self) -> dict[str, Any]:
        """Infos as in gymnasium's vector environments: each with a mask of the environments that have it."""
        if not self._spread:
            return {}
        return {"cut": self._give(self._cut), "_cut": np.ones(self.num_envs, bool)}

    def _give(self, results: Any) -> Any:
        """Results as the requested arrays. On the host they are writable copies."""
        return jax.tree.map(np.array, jax.device_get(results)) if self._host else results

    def _take(self, actions: Any) -> jax.Array:
        """Actions on the device, checked as far as that does not wait for the device."""
        discrete = self.env.options.discrete_actions
        shape, kinds = ((self.num_envs,), "iu") if discrete else ((self.num_envs, 2), "fiu")
        given = _as_array(actions)
        right = given.shape == shape and np.dtype(given.dtype).kind in kinds
        if right and isinstance(given, np.ndarray):
            inside = (given >= 0) & (given < len(ACTIONS)) if discrete else np.isfinite(given)
            right = bool(inside.all())
        if not right:
            raise ValueError(f"invalid actions {actions!r}: {_describe_actions(self.num_envs, discrete)}")
        return jax.device_put(given.astype(jnp.int32 if discrete else jnp.float32), self._device)


@jax.jit
def _reset(batch: Batch, spread: bool, keys: jax.Array) -> tuple[jax.Array, State, jax.Array, Any]:
    """The keys of the next reset, the states, which episodes are cut, and the first observations."""
    keys = jax.vmap(jax.random.split)(keys)
    states, timesteps = batch.reset(keys[:, 1], spread)
    return keys[:, 0], states, states.step > 0, timesteps.observation


@functools.partial(jax.jit, donate_argnums=1)
def _step(
    batch: Batch, states: State, cut: jax.Array, actions: jax.Array
) -> tuple[State, jax.Array, Timestep]:
    states, timesteps = batch.step(states, actions)
    return states, cut & ~timesteps.first, timesteps


@functools.partial(jax.jit, static_argnums=0)
def _render(view: View, atlas: Atlas, states: State) -> jax.Array:
    return jax.vmap(functools.partial(render_state, view, atlas))(states)


def _as_array(actions: Any) -> Any:
    """A NumPy array of what is on the host, a JAX array of what is on a device, without a copy."""
    if isinstance(actions, jax.Array | np.ndarray):
        return actions
    if hasattr(actions, "__dlpack__"):
        kind, _ = actions.__dlpack_device__()
        return np.from_dlpack(actions) if kind == _DLPACK_HOST else jnp.from_dlpack(actions)
    try:
        return np.asarray(actions)
    except ValueError:  # lists of different lengths
        return np.array(None)


def _describe_actions(num_envs: int, discrete: bool) -> str:
    if discrete:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(ACTION_NAMES))
        return f"give {num_envs} integers; actions are {names}"
    return (
        f"give {num_envs} times two finite numbers from -1 to 1, roll (-1 is forward) and steer (-1 is left)"
    )


def _make_key(seed: int) -> jax.Array:
    check_seed(seed)
    return jax.random.key(int(seed))


def _check_arguments(num_envs: int, arrays: str, render_mode: str | None, engine: str) -> None:
    check_count("num_envs", num_envs)
    if arrays not in ARRAYS:
        raise ValueError(f"unknown arrays {arrays!r}: choose from {', '.join(ARRAYS)}")
    if render_mode not in (None, "rgb_array"):
        raise ValueError(f"unknown render_mode {render_mode!r} for a vector environment: use rgb_array")
    if engine != "jax":
        raise ValueError(
            f'engine {engine!r} cannot be vectorized: use "jax", or '
            'gymnasium.make_vec(..., vectorization_mode="sync") or "async"'
        )
