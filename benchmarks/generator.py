"""Our maze generator beside labmaze's: `python benchmarks/generator.py` writes results/generator.json.

Both draw in turns, and every layout and bank is compared. Needs labmaze: Python 3.11 or 3.12 on Linux.
"""

import dataclasses
import importlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from machine import ROOT, describe_run
from rich.console import Console

from memory_maze import TASKS, make_task
from memory_maze.engine.bank import DEFAULT_LAYOUTS, load_bank
from memory_maze.maze import LayoutGenerator
from memory_maze.report.benchmarks import generator_table
from memory_maze.sampler import settings_of
from memory_maze.system.cpu import num_cores
from memory_maze.system.files import replacing
from memory_maze.system.subprocesses import calling
from memory_maze.tasks import Task

PEER = ROOT / "benchmarks" / "peer"
sys.path.append(str(PEER))
console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Compare our generator of mazes with labmaze's."""

    sizes: tuple[int, ...] = (7, 9, 11, 13, 15, 21, 31)
    """Which sizes of mazes."""
    rounds: int = 30
    """How often both take a turn; the fastest turn of each counts."""
    turn: int = 200
    """Mazes in a turn."""
    banks: tuple[str, ...] = tuple(TASKS)
    """Tasks whose default bank is made by both."""
    seed: int = 1
    """Seed of the mazes."""
    out: Path = ROOT / "results" / "generator.json"
    """File for the figures."""


def main(config: Config) -> None:
    run = describe_run(graphics=False) | {"versions": {"labmaze": metadata.version("labmaze")}}
    mazes = {f"{size}x{size}": compare_mazes(find_task(size), config) for size in config.sizes}
    banks = {name: compare_banks(TASKS[name]) for name in config.banks}
    settings = dataclasses.asdict(config) | {"out": None}
    report = run | {"settings": settings, "mazes": mazes, "banks": banks}
    with replacing(config.out) as path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    console.print(generator_table(report), markup=False)
    console.print(f"written: {os.path.relpath(config.out)}", soft_wrap=True)


def find_task(size: int) -> Task:
    return TASKS.get(f"{size}x{size}") or make_task(size, objects=3)


def compare_mazes(task: Task, config: Config) -> dict[str, float]:
    """Milliseconds a maze, both layers read, of the fastest turn of each."""
    make_generator = importlib.import_module("labmaze_bank").make_generator

    peer = make_generator(task, config.seed)
    ours = LayoutGenerator(settings_of(task), config.seed)
    ours.draw()  # labmaze's constructor draws one too

    def draw_theirs() -> Any:
        peer.regenerate()
        return peer.entity_layer, peer.variations_layer

    def draw_ours() -> Any:
        layout = ours.draw()
        return layout.entities(), layout.variations()

    seconds: dict[str, list[float]] = {"labmaze": [], "ours": []}
    for _ in range(config.rounds):
        for theirs, rows in zip(draw_theirs(), draw_ours(), strict=True):
            assert ["".join(row) for row in theirs] == list(rows), task.name
        seconds["labmaze"].append(measure(draw_theirs, config.turn))
        seconds["ours"].append(measure(draw_ours, config.turn))
    least = {f"{name}_ms": 1000 * min(times) / config.turn for name, times in seconds.items()}
    return least | {"times_longer": least["ours_ms"] / least["labmaze_ms"]}


def measure(draw: Callable[[], Any], times: int) -> float:
    begin = time.process_time()  # of the processor: what else runs here does not count
    for _ in range(times):
        draw()
    return time.process_time() - begin


def compare_banks(task: Task) -> dict[str, float]:
    """Seconds for the default bank, from labmaze's text and from our sets of cells; both on all cores."""
    size = DEFAULT_LAYOUTS[task.size]
    begin = time.perf_counter()
    theirs = make_before(task, size)
    before = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        bank = load_bank(task, folder=Path(folder), progress=False)
        after = time.perf_counter() - begin
    for name, column in zip(vars(bank), theirs, strict=True):
        np.testing.assert_array_equal(getattr(bank, name), column)
    return {"layouts": size, "labmaze_seconds": before, "ours_seconds": after}


def make_before(task: Task, size: int) -> list[np.ndarray]:
    """The arrays of a bank."""
    os.environ["PYTHONPATH"] = str(PEER)
    chunks: list[list[np.ndarray]] = []
    with calling("labmaze_bank:make_message", dataclasses.asdict(task), num_cores()) as messages:
        while sum(len(chunk[0]) for chunk in chunks) < size:
            chunks.append(unpack(next(messages)))
    return [np.concatenate(column)[:size] for column in zip(*chunks, strict=True)]


def unpack(message: bytes) -> list[np.ndarray]:
    with np.load(io.BytesIO(message)) as arrays:
        return list(arrays.values())


if __name__ == "__main__":
    main(tyro.cli(Config))
