"""List the tasks and their maze parameters."""

import dataclasses

from rich.console import Console
from rich.table import Table

from memory_maze.tasks import TASKS

console = Console()


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    def run(self) -> None:
        table = Table("task", "cells", "objects", "steps", "seconds", "max rooms", "room size")
        for name, task in TASKS.items():
            rooms = f"{task.room_min_size}-{task.room_max_size}"
            row = [
                f"{task.size}x{task.size}",
                task.objects,
                task.episode_steps(),
                task.seconds,
                task.max_rooms,
            ]
            table.add_row(name, *map(str, row), rooms)
        console.print(table)
