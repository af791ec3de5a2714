"""The `dm_env` interface, with the keywords, defaults and conventions of the published package."""

from typing import Any

import dm_env
import numpy as np
from dm_env import specs

from memory_maze.adapters.simulation import Simulation
from memory_maze.options import ACTIONS
from memory_maze.scenario import Scenario
from memory_maze.tasks import Task


class MemoryMaze(dm_env.Environment):
    """Memory Maze as a `dm_env.Environment`; arguments as for `Simulation`.

    Runs on the JAX engine, or on MuJoCo with `engine="mujoco"`.
    """

    def __init__(self, task: str | Task = "9x9", **keywords: Any) -> None:
        self.simulation = Simulation(task, **keywords)

    @property
    def scenario(self) -> Scenario:
        """The current episode."""
        return self.simulation.scenario

    def reset(self) -> dm_env.TimeStep:
        return dm_env.restart(self.simulation.reset())

    def step(self, action: Any) -> dm_env.TimeStep:
        if self.simulation.episode_over:
            return self.reset()
        observation, reward, last = self.simulation.step(action)
        if last:
            # The time limit truncates, so the discount stays 1.
            return dm_env.truncation(reward, observation, discount=1.0)
        return dm_env.transition(reward, observation, discount=1.0)

    def observation_spec(self) -> Any:
        arrays = {
            name: specs.BoundedArray(array.shape, array.dtype, array.low, array.high, name)
            for name, array in self.simulation.observation_arrays.items()
        }
        return arrays["image"] if self.simulation.options.image_only_obs else arrays

    def action_spec(self) -> specs.BoundedArray:
        if self.simulation.options.discrete_actions:
            return specs.DiscreteArray(len(ACTIONS), name="action")
        return specs.BoundedArray((2,), np.float64, -1.0, 1.0, name="roll_steer")

    def close(self) -> None:
        self.simulation.close()
