"""Banks as they were made before: from labmaze's layouts, through their text. For `generator.py`."""

import io

import labmaze
import numpy as np

from memory_maze.engine import bank
from memory_maze.sampler import settings_of
from memory_maze.splits import holds_out
from memory_maze.tasks import Task
from memory_maze.world import bit_rows


def make_generator(task: Task, seed: int) -> labmaze.RandomMaze:
    """labmaze's generator of a task's layouts."""
    return labmaze.RandomMaze(random_seed=seed, **vars(settings_of(task)))


def make_message(job: dict, index: int) -> bytes:
    """A chunk of the training layouts of seed 0."""
    task = Task(**job)
    state = np.random.SeedSequence([0, 0, index]).generate_state(1)[0]
    maze = make_generator(task, int(state) % (2**31 - 1) + 1)
    slots = task.max_rooms * task.objects_per_room
    rows = []
    for _ in range(bank._CHUNK):
        maze.regenerate()
        entities, floors = (
            np.asarray(layer)[-2:0:-1, 1:-1] for layer in (maze.entity_layer, maze.variations_layer)
        )
        row = encode(entities, floors, slots)
        if (row[2] >= 0).sum() >= task.objects and (row[3] >= 0).any() and not holds_out(row[0]):
            rows.append(row)
    message = io.BytesIO()
    np.savez(message, *(np.array(column) for column in zip(*rows, strict=True)))
    return message.getvalue()


def encode(entities: np.ndarray, floors: np.ndarray, slots: int) -> tuple[np.ndarray, ...]:
    walls, rooms = bit_rows(entities == "*"), bit_rows(np.char.isupper(floors.astype(str)))
    return walls, rooms, *(pad(np.flatnonzero(entities.ravel() == char), slots) for char in "GP")


def pad(cells: np.ndarray, slots: int) -> np.ndarray:
    padded = np.full(slots, -1, np.int16)
    padded[: min(len(cells), slots)] = cells[:slots]
    return padded
