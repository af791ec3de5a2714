"""The gymnasium ids: every task in every published variant."""

from typing import Any

import gymnasium

from memory_maze.tasks import TASKS

_IMAGE: dict[str, Any] = {"image_only_obs": True}
_EXTRA: dict[str, Any] = {"global_observables": True}
_TOP: dict[str, Any] = {"camera_resolution": 256, "top_camera": True}
_HD: dict[str, Any] = {"camera_resolution": 256}
_VIS: dict[str, Any] = {"good_visibility": True}
_PATH: dict[str, Any] = {"global_observables": True, "show_path": True}
_FAST: dict[str, Any] = {"control_freq": 40.0}
_SIX: dict[str, Any] = {"randomize_colors": True}

VARIANTS: dict[str, dict[str, Any]] = {
    "": _IMAGE,
    "Vis": _IMAGE | _VIS,
    "HD": _IMAGE | _HD,
    "Top": _IMAGE | _TOP,
    "ExtraObs": _EXTRA,
    "ExtraObs-Vis": _EXTRA | _VIS,
    "ExtraObs-Top": _EXTRA | _TOP,
    "Oracle": _IMAGE | _PATH,
    "Oracle-Top": _IMAGE | _PATH | _TOP,
    "Oracle-ExtraObs": _PATH,
    "HiFreq": _IMAGE | _FAST,
    "HiFreq-Vis": _IMAGE | _FAST | _VIS,
    "HiFreq-HD": _IMAGE | _FAST | _HD,
    "6CL": _IMAGE | _SIX,
    "6CL-Top": _IMAGE | _SIX | _TOP,
    "6CL-ExtraObs": _EXTRA | _SIX,
}


def env_id(task: str, variant: str = "") -> str:
    """The gymnasium id, such as MemoryMaze-9x9-ExtraObs-v0."""
    return "-".join(part for part in ("MemoryMaze", task, variant, "v0") if part)


ENV_IDS = tuple(env_id(task, variant) for task in TASKS for variant in VARIANTS)


def register() -> None:
    """Registers all ids, once."""
    for task in TASKS:
        for variant, keywords in VARIANTS.items():
            name = env_id(task, variant)
            if name not in gymnasium.registry:
                gymnasium.register(
                    id=name,
                    entry_point="memory_maze.adapters.gymnasium:MemoryMazeEnv",
                    vector_entry_point="memory_maze.adapters.gymnasium_vector:MemoryMazeVectorEnv",
                    kwargs={"task": task, **keywords},
                )
