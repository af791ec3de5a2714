"""Scores of the policies that need no training: `python benchmarks/policies.py` writes results/policies.json.

Both engines play the same mazes. The reference takes a millisecond a step, so that 200 episodes of 9x9
take minutes and of 15x15 half an hour: --engines jax leaves it out. What a file has already is kept. Other
sizes may be given too: --tasks 7x7.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from memory_maze.agents.load import load_policy
from memory_maze.episodes.evaluate import PAPER, evaluate
from memory_maze.policies import POLICIES
from memory_maze.system.files import replacing
from memory_maze.tasks import TASKS, parse_task

console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Play whole episodes with every policy, task and engine."""

    policies: tuple[str, ...] = POLICIES
    """Which policies."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Which tasks."""
    engines: tuple[str, ...] = ("jax", "mujoco")
    """Which engines."""
    episodes: int = 200
    """Episodes of each."""
    seed: int = 1000
    """Seed of the first maze."""
    out: Path = ROOT / "results" / "policies.json"
    """File for the figures."""


def main(config: Config) -> None:
    print_results(add(config))


def add(config: Config) -> dict[str, Any]:
    """Measures what is asked for, and gives all that the file then has."""
    results: dict[str, Any] = json.loads(config.out.read_text()) if config.out.exists() else {}
    for policy in config.policies:
        for engine in config.engines:
            for task in config.tasks:
                results[f"{policy} {task} {engine}"] = measure(config, policy, task, engine)
                with replacing(config.out) as path:
                    path.write_text(json.dumps(results, indent=2) + "\n")
    return results


def measure(config: Config, policy: str, task: str, engine: str) -> dict[str, Any]:
    run = describe_run(graphics=False) | {"device": jax.devices()[0].device_kind, "policy": policy}
    with Progress(console=console, transient=True) as progress:
        total = config.episodes * parse_task(task).episode_steps()
        bar = progress.add_task(f"{policy} {task} {engine}", total=total)
        advance = lambda steps: progress.advance(bar, steps)  # noqa: E731
        return run | evaluate(
            load_policy(policy),
            parse_task(task),
            config.episodes,
            engine=engine,
            seed=config.seed,
            advance=advance,
        )


def print_results(results: dict[str, Any]) -> None:
    table = Table("policy", "task", "engine", "score", "+-", "episodes", "paper's oracle")
    for figures in results.values():
        cells = [f"{figures['mean']:.2f}", f"{figures['std_error']:.2f}", str(figures["episodes"])]
        paper = str(PAPER.get(figures["task"], {}).get("oracle", ""))
        table.add_row(figures["policy"], figures["task"], figures["engine"], *cells, paper)
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config))
