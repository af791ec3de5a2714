"""From a new process to the first step: `python benchmarks/start.py` writes results/start.json.

The first start on a machine makes the textures and compiles the programs; later ones read them from
the user's cache. Every process is new, and each cold one has an empty cache.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.table import Table

from memory_maze.system.files import replacing

console = Console()
STAGES = ("import", "make", "reset", "step")
SCRIPT = """
import json, sys, time
times = [time.perf_counter()]
def mark(): times.append(time.perf_counter())
import gymnasium, memory_maze
mark()
env = gymnasium.make(f"MemoryMaze-{sys.argv[1]}-v0")
mark()
env.reset(seed=0)
mark()
env.step(1)
mark()
print(json.dumps([b - a for a, b in zip(times, times[1:])]))
"""


@dataclasses.dataclass(frozen=True)
class Config:
    """Measure how long the first step takes to come."""

    tasks: tuple[str, ...] = ("9x9", "15x15")
    """Which tasks."""
    repeats: int = 3
    """Cold and warm starts of each, of which the medians count."""
    out: Path = ROOT / "results" / "start.json"
    """File for the figures."""


def main(config: Config) -> None:
    run = describe_run(graphics=False)
    results = {task: measure(task, config.repeats) for task in config.tasks}
    settings = dataclasses.asdict(config) | {"out": None}
    with replacing(config.out) as path:
        path.write_text(json.dumps(run | {"settings": settings, "results": results}, indent=2) + "\n")
    print_results(results)
    console.print(f"written: {os.path.relpath(config.out)}", soft_wrap=True)


def measure(task: str, repeats: int) -> dict[str, Any]:
    """Pairs of starts, of which the first fills the cache for the second."""
    starts: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for kind in starts:
                starts[kind].append(start(task, cache))
    return {kind: medians(figures) | {"all": figures} for kind, figures in starts.items()}


def start(task: str, cache: str) -> dict[str, float]:
    """Seconds of each stage in a new process."""
    environment = os.environ | {"MEMORY_MAZE_CACHE": cache}
    # The user's own cache of programs would make every start a warm one.
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-c", SCRIPT, task]
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds = json.loads(result.stdout)
    stages = {f"{name}_seconds": value for name, value in zip(STAGES, seconds, strict=True)}
    return stages | {"total_seconds": sum(seconds)}


def medians(figures: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(figure[name] for figure in figures) for name in figures[0]}


def print_results(results: dict[str, Any]) -> None:
    table = Table("task", "start", *(f"{name}, s" for name in (*STAGES, "total")))
    for task, result in results.items():
        for kind, figures in result.items():
            row = (f"{figures[f'{name}_seconds']:.2f}" for name in (*STAGES, "total"))
            table.add_row(task, kind, *row)
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config))
