"""Observation and action spaces for gymnasium."""

from typing import Any

import numpy as np
from gymnasium import spaces

from memory_maze.observation import observation_arrays
from memory_maze.options import ACTIONS, Options
from memory_maze.tasks import Task


def observation_space(task: Task, options: Options, floats: Any = np.float64) -> spaces.Space[Any]:
    """The observation space of a single environment, with the given float dtype."""
    boxes: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(array.low, array.high, shape=array.shape, dtype=array.dtype)
        for name, array in observation_arrays(task, options, floats).items()
    }
    return boxes["image"] if options.image_only_obs else spaces.Dict(boxes)


def action_space(options: Options) -> spaces.Space[Any]:
    """The action space of a single environment."""
    if options.discrete_actions:
        return spaces.Discrete(len(ACTIONS))
    return spaces.Box(-1.0, 1.0, (2,), np.float64)
