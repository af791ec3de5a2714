"""What is observed and how it is controlled, as gymnasium spaces."""

from typing import Any

import numpy as np
from gymnasium import spaces

from memory_maze.options import ACTIONS, Options
from memory_maze.simulation import Array
from memory_maze.tasks import Task


def observation_arrays(task: Task, options: Options, floats: Any = np.float64) -> dict[str, Array]:
    """What each observation looks like; `image` stands alone with `image_only_obs`."""
    size, count, resolution = task.size, task.objects, options.camera_resolution
    image = Array((resolution, resolution, 3), np.uint8, 0, 255)
    if options.image_only_obs:
        return {"image": image}
    arrays = {"image": image, "target_color": Array((3,), floats, 0, 1)}
    if options.global_observables:
        far = 1.5 * size  # more than the diagonal
        arrays |= {
            "agent_pos": Array((2,), floats, 0, size),
            "agent_dir": Array((2,), floats, -1, 1),
            "targets_vec": Array((count, 2), floats, -far, far),
            "targets_pos": Array((count, 2), floats, 0, size),
            "target_vec": Array((2,), floats, -far, far),
            "target_pos": Array((2,), floats, 0, size),
            "maze_layout": Array((size, size), np.uint8, 0, 2 if options.show_path else 1),
        }
    return arrays


def observation_space(task: Task, options: Options, floats: Any = np.float64) -> spaces.Space[Any]:
    """The space of one environment's observations, with its floats of a type."""
    boxes: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(array.low, array.high, shape=array.shape, dtype=array.dtype)
        for name, array in observation_arrays(task, options, floats).items()
    }
    return boxes["image"] if options.image_only_obs else spaces.Dict(boxes)


def action_space(options: Options) -> spaces.Space[Any]:
    """The space of one environment's actions."""
    if options.discrete_actions:
        return spaces.Discrete(len(ACTIONS))
    return spaces.Box(-1.0, 1.0, (2,), np.float64)
