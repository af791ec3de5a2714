"""The gymnasium interface."""

import os
from typing import Any

import gymnasium
import numpy as np

from memory_maze.adapters.simulation import Observation, Simulation
from memory_maze.adapters.spaces import action_space, observation_space
from memory_maze.scenario import Scenario
from memory_maze.tasks import Task

RENDER_RESOLUTION = 256


class MemoryMazeEnv(gymnasium.Env[Any, Any]):
    """Memory Maze for gymnasium; arguments as for `Simulation`.

    Runs on the JAX engine, or on MuJoCo with `engine="mujoco"`.
    `reset(seed=s)` starts the sequence of episodes of seed s; `reset()` continues it. Pass
    `options={"scenario": scenario}` to play a given maze. Episodes are truncated by the time limit and never
    terminated.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        task: str | Task = "9x9",
        *,
        render_mode: str | None = None,
        render_resolution: int = RENDER_RESOLUTION,
        **keywords: Any,
    ) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ValueError(f"unknown render_mode {render_mode!r}: choose from {', '.join(modes)}")
        self.render_mode = render_mode
        self._render_resolution = render_resolution
        resolution = None if render_mode is None else render_resolution
        self.simulation = Simulation(task, render_resolution=resolution, **keywords)
        options = self.simulation.options
        self.metadata = self.metadata | {"render_fps": options.control_freq}
        self.observation_space = observation_space(self.simulation.task, options)
        self.action_space = action_space(options)
        self._window = None

    @property
    def scenario(self) -> Scenario:
        """The current episode."""
        return self.simulation.scenario

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        if unknown := options.keys() - {"scenario"}:
            raise ValueError(f"unknown reset options {sorted(unknown)}: the only option is 'scenario'")
        scenario: Scenario | str | os.PathLike[str] | None = options.get("scenario")
        observation = self.simulation.reset(seed, scenario)
        self._show()
        return observation, {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation, reward, time_is_up = self.simulation.step(action)
        self._show()
        return observation, reward, False, time_is_up, {}

    def render(self) -> np.ndarray | None:
        """Renders the current view at `render_resolution`; in human mode the window is always up to date."""
        if self.render_mode == "rgb_array":
            return self.simulation.render(self._render_resolution)
        if self.render_mode is None:
            gymnasium.logger.warn(
                'render() without a render_mode: pass gymnasium.make(..., render_mode="rgb_array")'
            )
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None
        self.simulation.close()

    def _show(self) -> None:
        if self.render_mode != "human":
            return
        if self._window is None:
            from memory_maze.adapters.viewer import Window

            self._window = Window(self.simulation.options.control_freq)
        self._window.show(self.simulation.render(self._render_resolution))
