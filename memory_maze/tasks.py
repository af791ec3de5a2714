"""The four tasks of the benchmark, and their published `dm_env` constructors."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from memory_maze.system.hints import did_you_mean

if TYPE_CHECKING:
    import dm_env

MIN_SIZE, MAX_SIZE = 7, 31
MAX_OBJECTS = 6
MAX_SECONDS = 1_000_000
# Slow control, so that non-hierarchical agents can learn the task (paper, section 3.1).
CONTROL_FREQ = 4.0
PACE = 6.0  # actions per second for human players, for whom the benchmark's 4 are slow


@dataclasses.dataclass(frozen=True)
class Task:
    """Parameters of the maze generator and of an episode."""

    size: int
    """Cells per side without the outer wall: odd, 7 to 31."""
    objects: int
    """Number of objects, 1 to 6."""
    seconds: float
    """Episode length in simulated seconds (four steps per second by default)."""
    max_rooms: int = 6
    room_min_size: int = 3
    room_max_size: int = 5
    objects_per_room: int = 1
    """Number of object positions that the generator marks per room."""

    def __post_init__(self) -> None:
        if not (MIN_SIZE <= self.size <= MAX_SIZE and self.size % 2 == 1):
            raise ValueError(f"size must be odd, from {MIN_SIZE} to {MAX_SIZE}: got {self.size}")
        if not 1 <= self.objects <= MAX_OBJECTS:
            raise ValueError(f"objects must be from 1 to {MAX_OBJECTS}: got {self.objects}")
        if not 0.01 <= self.seconds <= MAX_SECONDS:
            raise ValueError(f"seconds must be positive, at most {MAX_SECONDS:,}: got {self.seconds}")
        if not 1 <= self.room_min_size <= self.room_max_size <= self.size:
            raise ValueError(
                "room sizes must satisfy 1 <= room_min_size <= room_max_size <= size: "
                f"got {self.room_min_size} and {self.room_max_size}"
            )

    @property
    def name(self) -> str:
        return f"{self.size}x{self.size}"

    @property
    def grid(self) -> int:
        """Cells per side, including the outer wall."""
        return self.size + 2

    def episode_steps(self, control_freq: float = CONTROL_FREQ) -> int:
        """Number of actions in an episode."""
        # A millisecond less, as published: rounding must not add a step.
        return math.ceil((self.seconds - 1e-3) * control_freq)


# Paper, table "Memory Maze environment details".
TASKS = {
    "9x9": Task(size=9, objects=3, seconds=250),
    "11x11": Task(size=11, objects=4, seconds=500),
    "13x13": Task(size=13, objects=5, seconds=750),
    "15x15": Task(size=15, objects=6, seconds=1000, max_rooms=9, room_max_size=3),
}


def make_task(size: int, objects: int, seconds: float | None = None, **rooms: int) -> Task:
    """Creates a task of any odd size: `make_task(21, objects=5, seconds=900)`.

    Published sizes keep the published room parameters; other sizes have rooms of 3 to 5 cells (3 in small
    mazes), and enough object positions per room. `rooms` overrides `max_rooms`, `room_min_size`,
    `room_max_size` or `objects_per_room`.
    """
    crowded = 3 if size < 9 else 2
    if (published := TASKS.get(f"{size}x{size}")) is not None:
        places = crowded if objects > published.objects else 1
        task = dataclasses.replace(published, objects=objects, objects_per_room=places)
    else:
        task = Task(
            size,
            objects,
            # The published lengths grow by 250 s for every two cells.
            seconds=max(125, 125 * (size - 7)),
            max_rooms=max(6, size * size // 25),
            room_max_size=3 if size < 9 else 5,
            objects_per_room=crowded if size < 13 else 1,
        )
    if seconds is not None:
        task = dataclasses.replace(task, seconds=seconds)
    return dataclasses.replace(task, **rooms)


def get_task(task: "str | Task", seconds: float | None = None) -> Task:
    """Returns the task of that name ("9x9"), or the given task; `seconds` overrides the episode length."""
    if isinstance(task, str):
        if task not in TASKS:
            raise ValueError(
                f"unknown task {task!r}: {did_you_mean(task, TASKS)}; "
                "for another size pass memory_maze.make_task(size, objects)"
            )
        task = TASKS[task]
    if not isinstance(task, Task):
        raise TypeError(f'task must be a name like "9x9" or a Task: got {task!r}')
    return task if seconds is None else dataclasses.replace(task, seconds=seconds)


def parse_task(name: str, objects: int | None = None, seconds: float | None = None) -> Task:
    """Parses the name of a task as all commands do: a published one, or any odd size like "7x7".

    `objects` and `seconds` override the defaults; unpublished sizes have 3 objects.
    """
    size, _, again = name.partition("x")
    if not size.isdecimal() or size != again:
        raise ValueError(f"unknown task {name!r}: {did_you_mean(name, TASKS, ', or any odd size like 7x7')}")
    if objects is None:
        objects = TASKS[name].objects if name in TASKS else 3
    return make_task(int(size), objects, seconds)


def memory_maze(task: str | Task, **kwargs: Any) -> "dm_env.Environment":
    """Creates a task as a `dm_env.Environment`.

    Keywords: `seed`, `seconds`, `engine` ("jax", or "mujoco" for exactly the published episodes), and
    every field of `memory_maze.Options` (the published names: `control_freq`, `image_only_obs`, ...).
    """
    from memory_maze.adapters.dm_env import MemoryMaze

    return MemoryMaze(task, **kwargs)


def memory_maze_9x9(**kwargs: Any) -> "dm_env.Environment":
    """Memory 9x9 as a `dm_env.Environment`; keywords as for `memory_maze`."""
    return memory_maze("9x9", **kwargs)


def memory_maze_11x11(**kwargs: Any) -> "dm_env.Environment":
    """Memory 11x11 as a `dm_env.Environment`; keywords as for `memory_maze`."""
    return memory_maze("11x11", **kwargs)


def memory_maze_13x13(**kwargs: Any) -> "dm_env.Environment":
    """Memory 13x13 as a `dm_env.Environment`; keywords as for `memory_maze`."""
    return memory_maze("13x13", **kwargs)


def memory_maze_15x15(**kwargs: Any) -> "dm_env.Environment":
    """Memory 15x15 as a `dm_env.Environment`; keywords as for `memory_maze`."""
    return memory_maze("15x15", **kwargs)
