"""Steps a second of training, end to end: `python benchmarks/training.py`.

Mazes, network and learner run as in `memory-maze train impala`, alone on the machine, after everything is
compiled. Writes results/training-gpu.json (or -cpu.json).
"""

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import jax
import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.table import Table

from memory_maze.agents.impala.config import PRESETS
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.system.files import replacing
from memory_maze.system.programs import cache_programs
from memory_maze.system.provenance import describe_devices
from memory_maze.training.devices import make_mesh, use_cores
from memory_maze.training.on_policy import begin, iterate

console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Measure how fast agents train."""

    presets: tuple[str, ...] = ("paper", "fast")
    """Which presets."""
    tasks: tuple[str, ...] = ("9x9",)
    """Which tasks."""
    seconds: float = 10.0
    """Length of each timing."""
    layouts: int = 4096
    """Layouts to train in."""
    seed: int = 0
    """Seed of the network, the mazes and the actions."""
    out: Path | None = None
    """File for the figures."""


def main(config: Config) -> None:
    use_cores()
    cache_programs()
    out = config.out or ROOT / "results" / f"training-{jax.default_backend()}.json"
    results: dict[str, Any] = {preset: {} for preset in config.presets}
    report = describe_run(graphics=False) | {
        "devices": describe_devices(),
        "jax": jax.__version__,
        "seed": config.seed,
        "settings": dataclasses.asdict(config) | {"out": None},
        "results": results,
    }
    for preset in config.presets:
        for task in config.tasks:
            results[preset][task] = measure(preset, task, config)
            with replacing(out) as path:
                path.write_text(json.dumps(report, indent=2) + "\n")
    print_results(results)
    console.print(f"written: {os.path.relpath(out)}", soft_wrap=True)


def measure(preset: str, task: str, config: Config) -> dict[str, float]:
    agent, mesh = PRESETS[preset], make_mesh()
    batch = Batch(Env(task, image_only_obs=True, layouts=config.layouts), agent.num_envs)
    start = time.perf_counter()
    training = begin(jax.random.key(config.seed), batch, agent, mesh)
    for _ in range(2):
        training, metrics = iterate(training, batch, agent, mesh)
    jax.block_until_ready(metrics)
    compiled = time.perf_counter()
    iterations = 0
    while time.perf_counter() - compiled < config.seconds or not iterations:
        last = metrics
        training, metrics = iterate(training, batch, agent, mesh)
        jax.block_until_ready(last)  # as in training, the next iteration is asked for while one runs
        iterations += 1
    jax.block_until_ready(metrics)
    elapsed = time.perf_counter() - compiled
    return {
        "steps_per_second": iterations * agent.num_envs * agent.unroll_length / elapsed,
        "iterations": iterations,
        "first_seconds": compiled - start,
    }


def print_results(results: dict[str, Any]) -> None:
    table = Table("preset", "task", "steps/s", "compilation, s", "100M steps, min")
    for preset, tasks in results.items():
        for task, figures in tasks.items():
            speed, first = figures["steps_per_second"], figures["first_seconds"]
            minutes = (1e8 / speed + first) / 60
            table.add_row(preset, task, f"{speed:,.0f}", f"{first:.0f}", f"{minutes:.1f}")
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
