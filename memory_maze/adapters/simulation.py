"""A single environment, independent of the interface: a sampler, an engine and observations.

The gymnasium and dm_env adapters are thin wrappers around it.
"""

import operator
import os
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from memory_maze.observation import check_minimap, observation_arrays
from memory_maze.options import ACTION_NAMES, ACTIONS, Options, check_resolution
from memory_maze.sampler import Sampler, make_sampler
from memory_maze.scenario import Scenario
from memory_maze.tasks import Task, get_task

ENGINES = ("mujoco", "jax")

Observation = np.ndarray | dict[str, np.ndarray]


class Engine(Protocol):
    """Plays one complete scenario at a time."""

    def reset(self, scenario: Scenario) -> None: ...

    def step(self, control: np.ndarray) -> float: ...

    def observe(self, names: Iterable[str]) -> dict[str, np.ndarray]: ...

    def render(self, top: bool, resolution: int) -> np.ndarray: ...

    @property
    def target(self) -> int: ...

    @property
    def draws_used(self) -> int: ...

    @property
    def pose(self) -> np.ndarray: ...

    @property
    def touched(self) -> tuple[int, ...]: ...

    @property
    def backend(self) -> str | None: ...

    def close(self) -> None: ...


class Simulation:
    """Episodes of a task.

    Args:
        task: A name like "9x9", or a `Task`.
        seed: Seed of the sequence of episodes; random by default.
        seconds: Episode length in simulated seconds; by default that of the task.
        scenario: Scenario for every reset instead of random mazes; unspecified parts are sampled.
        engine: "jax", or "mujoco" for the reference engine, which reproduces published episodes exactly.
        render_resolution: Largest resolution that will be passed to `render`.
        keywords: The fields of `Options`.
    """

    def __init__(
        self,
        task: str | Task = "9x9",
        *,
        seed: int | None = None,
        seconds: float | None = None,
        scenario: Scenario | str | os.PathLike[str] | None = None,
        engine: str = "jax",
        render_resolution: int | None = None,
        **keywords: Any,
    ) -> None:
        self.task = get_task(task, seconds)
        self.options = Options.from_keywords(keywords)
        if engine not in ENGINES:
            raise ValueError(f"unknown engine {engine!r}: choose from {', '.join(ENGINES)}")
        check_minimap(self.task, self.options)
        if render_resolution is not None:
            check_resolution("render_resolution", render_resolution)
        self.observation_arrays = observation_arrays(self.task, self.options)
        self._fixed = None if scenario is None else self._load(scenario)
        self._sampler = self._make_sampler(seed)
        make = _make_jax if engine == "jax" else _make_mujoco
        self._engine: Engine = make(self.task, self.options, render_resolution)
        self._closed = False
        self._steps_left: int | None = None
        self._sampled = False

    @property
    def episode_steps(self) -> int:
        """Number of actions in an episode."""
        return self.task.episode_steps(self.options.control_freq)

    @property
    def scenario(self) -> Scenario:
        """The current episode."""
        self._check_started()
        return self._scenario

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def episode_over(self) -> bool:
        """Whether a reset is required."""
        return not self._steps_left

    def reset(
        self, seed: int | None = None, scenario: Scenario | str | os.PathLike[str] | None = None
    ) -> Observation:
        """Starts the next episode, the first one of a seed, or a given scenario."""
        if self._closed:
            raise RuntimeError("the environment is closed: create a new one")
        chosen = self._fixed if scenario is None else self._load(scenario)
        if seed is not None:
            self._sampler, self._sampled = self._make_sampler(seed), False
        draws_used = self._engine.draws_used if self._sampled else 1
        touched = self._engine.touched if self._sampled else ()
        # After an interrupted reset, another one is required.
        self._steps_left, self._sampled = None, False
        if chosen is None:
            drawn = self._sampler.sample(draws_used, touched)
        else:
            drawn = self._sampler.fill(chosen, draws_used)
        self._engine.reset(drawn)
        self._scenario = drawn
        self._steps_left, self._sampled = self.episode_steps, chosen is None
        return self._observe()

    def step(self, action: Any) -> tuple[Observation, float, bool]:
        """Returns the observation, the reward, and whether the episode is truncated."""
        self._check_started()
        if self._closed:
            raise RuntimeError("the environment is closed: create a new one")
        if not self._steps_left:
            raise RuntimeError("the episode is over: call reset() before the next step()")
        control = self._control(action)
        reward = self._engine.step(control)
        self._steps_left -= 1
        return self._observe(), reward, self._steps_left == 0

    def render(self, resolution: int, top: bool | None = None) -> np.ndarray:
        """Renders the current state with the border."""
        self._check_started()
        top = self.options.top_camera if top is None else top
        return self._engine.render(top, resolution)

    def close(self) -> None:
        """Releases the graphics context; may be called twice."""
        self._closed = True
        self._engine.close()

    def _make_sampler(self, seed: int | None) -> Sampler:
        return make_sampler(self.task, seed, self.options)

    def _load(self, scenario: Scenario | str | os.PathLike[str]) -> Scenario:
        if isinstance(scenario, str | os.PathLike):
            scenario = Scenario.load(scenario)
        if not isinstance(scenario, Scenario):
            raise TypeError(f"scenario must be a Scenario or a path: got {scenario!r}")
        size, count = scenario.size, len(scenario.objects)
        if (size, count) != (self.task.size, self.task.objects):
            raise ValueError(
                f"the scenario is {size}x{size} with {count} objects and the environment "
                f"{self.task.name} with {self.task.objects}: "
                f"make the environment with task=memory_maze.make_task({size}, objects={count})"
            )
        return scenario

    def _check_started(self) -> None:
        if self._steps_left is None:
            raise RuntimeError("call reset() first")

    def _control(self, action: Any) -> np.ndarray:
        if self.options.discrete_actions:
            index = _as_index(action)
            if index is None or not 0 <= index < len(ACTIONS):
                names = ", ".join(f"{i} {name}" for i, name in enumerate(ACTION_NAMES))
                raise ValueError(f"invalid action {action!r}: actions are {names}")
            return ACTIONS[index]
        control = np.asarray(action)
        if control.shape != (2,) or control.dtype.kind not in "fiu" or not np.isfinite(control).all():
            raise ValueError(
                f"invalid action {action!r}: give two finite numbers from -1 to 1, "
                "roll (-1 is forward) and steer (-1 is left)"
            )
        return np.clip(control.astype(np.float64), -1, 1)

    def _observe(self) -> Observation:
        """The observation as copies with the published dtypes."""
        arrays = self.observation_arrays
        seen = self._engine.observe(arrays)
        observation = {name: np.array(seen[name], array.dtype) for name, array in arrays.items()}
        return observation["image"] if self.options.image_only_obs else observation


def _as_index(action: Any) -> int | None:
    """Converts an action, also an array of one element, to an integer; None if it is not an integer."""
    if isinstance(action, bool | np.bool_):
        return None
    try:
        return operator.index(action)
    except TypeError:
        return None


# Imported here, so that each engine loads only what it needs.


def _make_jax(task: Task, options: Options, render_resolution: int | None) -> Engine:
    from memory_maze.engine.single import JaxEngine

    return JaxEngine(options)


def _make_mujoco(task: Task, options: Options, render_resolution: int | None) -> Engine:
    from memory_maze.reference.engine import MujocoEngine

    return MujocoEngine(task.grid, options, render_resolution)
