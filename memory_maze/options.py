"""Options of observations, rendering and control, with the published names and defaults."""

import dataclasses
from typing import Any

import numpy as np

from memory_maze.system.hints import did_you_mean
from memory_maze.tasks import CONTROL_FREQ
from memory_maze.world import FLOATING_HEIGHT, LOW_WALL_HEIGHT, WALL_HEIGHT

PHYSICS_TIMESTEP = 0.005
ACTION_NAMES = ("noop", "forward", "left", "right", "forward_left", "forward_right")
# Controls (roll, steer): -1 rolls forward, -1 steers left.
ACTIONS = np.array([(0, 0), (-1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1)], np.float64)
MIN_RESOLUTION, MAX_RESOLUTION = 8, 2048


@dataclasses.dataclass(frozen=True)
class Options:
    """The options that distinguish the variants of a task."""

    control_freq: float = CONTROL_FREQ
    """Actions per simulated second; an action must last a whole number of 5 ms physics steps."""
    discrete_actions: bool = True
    """Six discrete actions, or two continuous controls: roll (-1 is forward) and steer (-1 is left)."""
    image_only_obs: bool = False
    """Observe only the image instead of a dictionary."""
    target_color_in_image: bool = True
    """Render a border in the colour of the current target."""
    global_observables: bool = False
    """Also observe the agent's pose, the objects and the layout."""
    top_camera: bool = False
    """View from above instead of first person."""
    good_visibility: bool = False
    """Low walls and floating objects that are visible from everywhere."""
    show_path: bool = False
    """Render a minimap with the shortest path to the target into the image."""
    camera_resolution: int = 64
    """Height and width of the image in pixels."""
    randomize_colors: bool = False
    """Sample the object colours from all six."""

    def __post_init__(self) -> None:
        if not isinstance(self.control_freq, int | float | np.number) or not self.control_freq > 0:
            raise ValueError(f"control_freq must be a positive number: got {self.control_freq!r}")
        substeps = 1 / (self.control_freq * PHYSICS_TIMESTEP)
        if substeps < 0.5 or abs(substeps - round(substeps)) > 1e-6:
            raise ValueError(
                f"control_freq must divide {1 / PHYSICS_TIMESTEP:g} (physics steps a second), "
                f"like 4, 8, 20 or 40: got {self.control_freq}"
            )
        check_resolution("camera_resolution", self.camera_resolution)
        if self.image_only_obs and not self.target_color_in_image:
            raise ValueError("image_only_obs needs target_color_in_image: nothing else shows the target")
        if self.show_path and not self.global_observables:
            raise ValueError("show_path needs global_observables=True: the path is computed from them")

    @property
    def substeps(self) -> int:
        """Physics steps per action."""
        return round(1 / (self.control_freq * PHYSICS_TIMESTEP))

    @property
    def wall_height(self) -> float:
        """Height of the walls in metres."""
        return LOW_WALL_HEIGHT if self.good_visibility else WALL_HEIGHT

    @property
    def object_height(self) -> float:
        """Height of an object's centre above the floor in metres."""
        return FLOATING_HEIGHT if self.good_visibility else 0.0

    @classmethod
    def from_keywords(cls, keywords: dict[str, Any]) -> "Options":
        """Creates options from keywords; errors suggest the correct name of a misspelt one."""
        names = [field.name for field in dataclasses.fields(cls)]
        for keyword in keywords:
            if keyword not in names:
                raise TypeError(f"unknown keyword {keyword!r}: {did_you_mean(keyword, names)}")
        return cls(**keywords)


def check_resolution(name: str, value: Any) -> None:
    """Raises a `ValueError` for an invalid image size."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or not (MIN_RESOLUTION <= value <= MAX_RESOLUTION)
    ):
        raise ValueError(
            f"{name} must be an integer from {MIN_RESOLUTION} to {MAX_RESOLUTION}: got {value!r}"
        )


DEFAULT = Options()
