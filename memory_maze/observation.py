"""What can be observed: the one list of names, shapes, types and bounds, for all interfaces.

What each is of a state says `memory_maze.engine.observe`, and for MuJoCo `memory_maze.reference.observation`.
"""

import dataclasses
from typing import Any

import numpy as np

from memory_maze.options import Options
from memory_maze.tasks import Task


@dataclasses.dataclass(frozen=True)
class Array:
    """Shape, type and bounds of one observation."""

    shape: tuple[int, ...]
    dtype: Any
    low: float
    high: float


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


def check_minimap(task: Task, options: Options) -> None:
    """Refuses pictures that are too small for the minimap that they are to show."""
    if options.show_path and options.camera_resolution < 2 * task.size:
        raise ValueError(f"the minimap needs {2 * task.size} pixels: increase camera_resolution")
