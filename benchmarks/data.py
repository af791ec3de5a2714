"""Collecting and reading data sets: `python benchmarks/data.py` writes results/data-cpu.json or -gpu.json.

Collects a data set as scenes, and a small one as NPZ files, then reads training batches from both, and
from the NPZ files also as one would without this package, by `np.load`.
"""

import dataclasses
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from machine import ROOT, describe_run
from rich.console import Console

from memory_maze.data.collection import make_manifest
from memory_maze.data.dataset import load
from memory_maze.data.progress import run_collection
from memory_maze.report.benchmarks import data_table
from memory_maze.system.files import replacing
from memory_maze.tasks import TASKS

console = Console()
KEYS = ("image", "action", "reward", "reset")


@dataclasses.dataclass(frozen=True)
class Config:
    """Collect, then read."""

    tasks: tuple[str, ...] = ("9x9", "15x15")
    """Which tasks."""
    episodes: int = 30_000
    """Trajectories of the scenes."""
    npz: int = 64
    """Trajectories of the NPZ files."""
    steps: int = 1000
    """Actions in each trajectory."""
    batch: int = 32
    """Sequences in a training batch."""
    time: int = 48
    """Elements of each."""
    seconds: float = 10
    """How long to read in each way."""
    seed: int = 0
    """Seed of the first maze."""
    folder: Path | None = None
    """Where to put the data; by default they are removed afterwards."""
    out: Path | None = None
    """File for the figures."""


def main(config: Config) -> None:
    kind = jax.default_backend()
    out = config.out or ROOT / "results" / f"data-{kind}.json"
    report = describe_run(graphics=False) | {
        "device": jax.devices()[0].device_kind,
        "config": {key: value for key, value in vars(config).items() if key not in ("folder", "out")},
        "tasks": {},
    }
    folder = config.folder or Path(tempfile.mkdtemp())
    try:
        for task in config.tasks:
            report["tasks"][task] = measure(config, task, folder / task)
            with replacing(out) as path:
                path.write_text(json.dumps(report, indent=2) + "\n")
    finally:
        if config.folder is None:
            shutil.rmtree(folder)
    console.print(data_table(report))


def measure(config: Config, task: str, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for format, episodes in (("scenes", config.episodes), ("npz", config.npz)):
        figures[format] = collect(config, task, folder / format, format, episodes)
    began = time.perf_counter()
    scenes, files = load(folder / "scenes", "train"), load(folder / "npz", "train")
    figures["load_seconds"] = time.perf_counter() - began
    for order in ("windows", "replay"):
        for name, dataset in (("scenes", scenes), ("npz", files)):
            with dataset.batches(order, config.batch, config.time, keys=KEYS, arrays="jax") as batches:
                figures[name][f"{order}_per_second"] = count_frames(config, batches)
    paths = sorted((folder / "npz" / "train").glob("*.npz"))
    figures["npz"]["np_load_windows_per_second"] = count_frames(config, read_plainly(config, paths))
    return figures


def collect(config: Config, task: str, folder: Path, format: str, episodes: int) -> dict[str, Any]:
    began = time.perf_counter()
    manifest = make_manifest(
        TASKS[task],
        episodes,
        steps=config.steps,
        format=format,
        seed=config.seed,
        evaluation=None if format == "scenes" else 0,
    )
    run_collection(folder, manifest, console, None)
    seconds = time.perf_counter() - began
    steps = episodes * config.steps
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "episodes": episodes,
        "steps": steps,
        "seconds": seconds,
        "steps_per_second": steps / seconds,
        "bytes": size,
        "bytes_per_step": size / steps,
    }


def count_frames(config: Config, batches: Iterator[dict[str, Any]]) -> float:
    """Frames a second, pictures included, after the first batches."""
    for _ in range(3):
        jax.block_until_ready(next(batches))
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < config.seconds:
        jax.block_until_ready(next(batches))
        count += 1
    return count * config.batch * config.time / (time.perf_counter() - began)


def read_plainly(config: Config, paths: list[Path]) -> Iterator[dict[str, np.ndarray]]:
    """Random windows by NumPy alone."""
    rng = np.random.default_rng(config.seed)
    while True:
        rows = []
        for _ in range(config.batch):
            with np.load(paths[rng.integers(len(paths))]) as file:
                arrays = {key: file[key] for key in KEYS if key in file}
            start = rng.integers(len(arrays["image"]) - config.time + 1)
            rows.append({key: array[start : start + config.time] for key, array in arrays.items()})
        yield {key: np.stack([row[key] for row in rows]) for key in rows[0]}


if __name__ == "__main__":
    main(tyro.cli(Config))
