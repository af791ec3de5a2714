"""What the explorer's data are like: `python benchmarks/explorer.py` writes results/explorer.json.

As many trajectories for training as for evaluation, so that the constant baseline is well measured.
"""

import dataclasses
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import jax
import tyro
from machine import ROOT, describe_run
from rich.console import Console

from memory_maze.commands.inspect import make_table
from memory_maze.data.collection import make_manifest
from memory_maze.data.inspect import inspect
from memory_maze.data.progress import run_collection
from memory_maze.system.files import replacing
from memory_maze.tasks import TASKS
from memory_maze.watch.inspect_pictures import write_pictures

console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Collect, inspect, draw."""

    tasks: tuple[str, ...] = tuple(TASKS)
    """Which tasks."""
    episodes: int = 1000
    """Trajectories for training, and as many for evaluation."""
    steps: int = 1000
    """Actions in each."""
    seed: int = 0
    """Seed of the first maze."""
    images: Path = ROOT / "docs" / "images"
    """Folder for the pictures."""
    out: Path = ROOT / "results" / "explorer.json"
    """File for the figures."""


def main(config: Config) -> None:
    report = describe_run(graphics=False) | {"device": jax.devices()[0].device_kind, "seed": config.seed}
    report["tasks"] = {}
    for task in config.tasks:
        report["tasks"][task] = measure(config, task)
        with replacing(config.out) as path:
            path.write_text(json.dumps(report, indent=2) + "\n")


def measure(config: Config, task: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        episodes, evaluation = 2 * config.episodes, config.episodes
        manifest = make_manifest(
            TASKS[task], episodes, steps=config.steps, seed=config.seed, evaluation=evaluation
        )
        run_collection(folder / "data", manifest, console)
        found = inspect(folder / "data")
        figures = found.report()
        assert not figures["problems"], figures["problems"]
        console.print(make_table(figures))
        write_pictures(folder / "pictures", found)
        config.images.mkdir(parents=True, exist_ok=True)
        for kind in ("sheet", "visits"):
            shutil.copy(folder / "pictures" / f"{kind}.png", config.images / f"explorer-{task}-{kind}.png")
    return {key: value for key, value in figures.items() if key not in ("path", "problems", "remarks")}


if __name__ == "__main__":
    main(tyro.cli(Config))
