"""The folder of a run or of a trained agent: which files are in it, and where the package's own ones are.

Needs no extra.
"""

import json
import os
from pathlib import Path
from typing import Any

from memory_maze.assets import AGENTS
from memory_maze.options import Options
from memory_maze.policies import POLICIES
from memory_maze.system.files import read_small
from memory_maze.tasks import Task
from memory_maze.variants import read_variant

# Of a run; agents alone have the first two.
CONFIG = "config.json"
WEIGHTS = "agent.safetensors"
METRICS = "metrics.jsonl"
RESULT = "result.json"


def agent_names() -> list[str]:
    """The trained agents that come with the package."""
    return sorted(path.parent.name for path in AGENTS.glob(f"*/{CONFIG}"))


def find_folder(name: str) -> Path | None:
    """The folder of a trained agent; your own comes before one of the package. None for other policies."""
    if name in POLICIES:
        return None
    if os.path.isdir(name):
        return Path(name)
    return AGENTS / name if name in agent_names() else None


def find_environment(name: str) -> tuple[Task, Options] | None:
    """What a trained agent was trained in, by its name or folder. None for other policies."""
    folder = find_folder(name)
    return None if folder is None else read_environment(folder)


def read_environment(folder: Path) -> tuple[Task, Options]:
    """The task that an agent was trained in, and its variant."""
    try:
        return read_variant(read_config(folder))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder}: not a run or agent: {error}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """What was written beside the weights."""
    try:
        return json.loads(read_small(folder / CONFIG))
    except FileNotFoundError as error:
        raise ValueError(
            f"{folder}: not a run or agent: it has no {CONFIG}, which memory-maze train writes"
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: not a run or agent: {error}") from error
