"""Layouts for resets on the device, made by the generator of the reference and cached on disk.

Everything else of an episode (textures, which objects stand where, the start, the targets) is drawn
from the JAX key, so that one layout serves for many different episodes.
"""

import contextlib
import dataclasses
import hashlib
import io
import itertools
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from memory_maze.maze import Layout
from memory_maze.sampler import make_generator
from memory_maze.splits import holds_out
from memory_maze.system.cpu import num_cores
from memory_maze.system.files import cache_folder, read_cached, write_cached
from memory_maze.system.subprocesses import calling
from memory_maze.tasks import Task

# At least as many as a run of 100 million steps plays episodes.
DEFAULT_LAYOUTS = {9: 1 << 17, 11: 1 << 16, 13: 1 << 16, 15: 1 << 15}
HELD_OUT_LAYOUTS = 4096
_CHUNK = 1024
_FORMAT = 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Bank:
    """B layouts of N x N cells. Cells are numbered row by row from the bottom left: N * row + column."""

    walls: Any  # (B, N) uint32: bit c of row r is wall; row 0 is the bottom row
    rooms: Any  # (B, N) uint32: likewise, room floors
    places: Any  # (B, R) int16: cells for objects, -1 beyond the last
    spawns: Any  # (B, R) int16: cells for starts, -1 beyond the last

    def __len__(self) -> int:
        return len(self.walls)


def load_bank(
    task: Task,
    layouts: int | None = None,
    *,
    seed: int = 0,
    held_out: bool = False,
    folder: Path | None = None,
    progress: bool = True,
) -> Bank:
    """The bank of a task, from the cache or made now (a few seconds for 10,000 layouts).

    Args:
        task: Whose mazes.
        layouts: How many; by default one for each episode of 100 million steps.
        seed: Of the training layouts.
        held_out: Layouts for evaluation instead: no training bank of any seed has one of them.
        folder: Where banks are kept; by default in the user's cache.
        progress: Whether to show a bar while layouts are made.
    """
    size = layouts or (HELD_OUT_LAYOUTS if held_out else DEFAULT_LAYOUTS.get(task.size, 1 << 15))
    path = (folder or cache_folder("banks")) / f"{_name(task, size, seed, held_out)}.npz"
    if (bank := _read(path, task, size)) is not None:
        return bank
    bank = _make(task, size, seed, held_out, progress)
    write_cached(path, {"digest": np.array(_digest(bank)), **vars(bank)}, compress=True)
    return bank


def _name(task: Task, size: int, seed: int, held_out: bool) -> str:
    """Says what is inside; a change of the task or of the generator gives another name."""
    about = f"{_FORMAT} {dataclasses.replace(task, seconds=1)}"
    kind = "heldout" if held_out else "train"
    return f"{task.name}-{kind}-{size}-{seed}-{hashlib.sha256(about.encode()).hexdigest()[:8]}"


def _read(path: Path, task: Task, size: int) -> Bank | None:
    """The bank in a file, or None if there is none or it is damaged: then it is made again."""
    arrays = read_cached(path) or {}
    if arrays.keys() != {"digest", *Bank.__dataclass_fields__}:
        return None
    digest = str(arrays.pop("digest"))
    bank = Bank(**arrays)
    fits = bank.walls.shape == (size, task.size) and digest == _digest(bank)
    return bank if fits else None


def _digest(bank: Bank) -> str:
    digest = hashlib.sha256()
    for array in vars(bank).values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _make(task: Task, size: int, seed: int, held_out: bool, progress: bool) -> Bank:
    from rich.progress import Progress

    chunks: list[Bank] = []
    found = 0
    few = size <= 4 * _CHUNK
    with Progress(disable=few or not progress, transient=True) as bar:
        line = bar.add_task(f"generating {size:,} layouts of {task.name}", total=size)
        with _chunks(task, seed, held_out, workers=1 if few else num_cores()) as made:
            for chunk in made:
                chunks.append(chunk)
                found += len(chunk)
                bar.update(line, completed=min(found, size))
                if found >= size:
                    break
    return Bank(*(np.concatenate(parts)[:size] for parts in zip(*map(_arrays, chunks), strict=True)))


@contextlib.contextmanager
def _chunks(task: Task, seed: int, held_out: bool, workers: int) -> Generator[Iterator[Bank]]:
    """Endless chunks, the same for any number of workers."""
    if workers == 1:
        yield (_make_chunk(task, seed, held_out, index) for index in itertools.count())
        return
    job = {"task": dataclasses.asdict(task), "seed": seed, "held_out": held_out}
    with calling("memory_maze.engine.bank:make_message", job, workers) as messages:
        yield map(_unpack, messages)


def make_message(job: dict[str, Any], index: int) -> bytes:
    """What a worker makes: a chunk, as a file."""
    chunk = _make_chunk(Task(**job["task"]), job["seed"], job["held_out"], index)
    message = io.BytesIO()
    np.savez(message, **vars(chunk))
    return message.getvalue()


def _unpack(message: bytes) -> Bank:
    with np.load(io.BytesIO(message)) as arrays:
        return Bank(**arrays)


def _arrays(bank: Bank) -> list[np.ndarray]:
    return [getattr(bank, field.name) for field in dataclasses.fields(bank)]


def _make_chunk(task: Task, seed: int, held_out: bool, index: int) -> Bank:
    """Layouts of one generator; those without room for all objects are left out, as in the reference."""
    state = np.random.SeedSequence([seed, int(held_out), index]).generate_state(1)[0]
    generator = make_generator(task, int(state) % (2**31 - 1) + 1)
    rows = []
    slots = task.max_rooms * task.objects_per_room
    for _ in range(_CHUNK):
        layout = generator.draw()
        fits = layout.objects.bit_count() >= task.objects and layout.spawns
        if fits and holds_out(walls := _walls(layout)) == held_out:
            places = [_cells(layout, marks, slots) for marks in (layout.objects, layout.spawns)]
            rows.append((walls, layout.bit_rows(layout.room_cells), *places))
    widths = (task.size, task.size, slots, slots)
    types = (np.uint32, np.uint32, np.int16, np.int16)
    columns = zip(*rows, strict=True) if rows else ([],) * 4
    return Bank(
        *(np.array(c, t).reshape(len(rows), w) for c, t, w in zip(columns, types, widths, strict=True))
    )


def _walls(layout: Layout) -> np.ndarray:
    return np.array(layout.bit_rows(~layout.floor), np.uint32)


def _cells(layout: Layout, places: int, slots: int) -> list[int]:
    """Numbers of cells as the bank has them, in their order."""
    size = layout.grid.height - 2
    cells = sorted(size * (size - row) + column - 1 for row, column in layout.places(places))[:slots]
    return cells + [-1] * (slots - len(cells))
