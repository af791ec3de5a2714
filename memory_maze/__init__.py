"""Memory Maze: a benchmark of long-term memory for agents and sequence models.

>>> import gymnasium
>>> env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0")
"""

from memory_maze import data, tasks
from memory_maze.options import Options
from memory_maze.registration import ENV_IDS, register
from memory_maze.sampler import Sampler
from memory_maze.scenario import Scenario, ScenarioError
from memory_maze.tasks import TASKS, Task, make_task
from memory_maze.version import __version__

__all__ = [
    "ENV_IDS",
    "TASKS",
    "Options",
    "Sampler",
    "Scenario",
    "ScenarioError",
    "Task",
    "__version__",
    "data",
    "make_task",
    "tasks",
]

register()
