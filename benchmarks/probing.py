"""The offline probing benchmarks: `python benchmarks/probing.py --models rssm-tbtt vae-gru --tasks 9x9`.

Each run is what `memory-maze probe` makes of it, in a folder under runs/; its result is copied to
results/probing. Called again, unfinished runs go on. Data sets are collected where they are missing. On two
cores of a CPU, in less than ten minutes, a model that remembers beside one that does not:

    python benchmarks/probing.py --preset small --models constant vae supervised --targets objects
        --steps 2000 --episodes 1000

No run fills a large GPU: with --together those of a task share it, as in benchmarks/online.py.
"""

import dataclasses
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import tyro
from commands import call, stopping
from machine import ROOT

from memory_maze.files import replacing
from memory_maze.training.names import RESULT

MODELS = ("constant", "vae", "supervised", "rssm", "vae-gru", "rssm-tbtt")


@dataclasses.dataclass(frozen=True)
class Config:
    """Train and probe sequence models."""

    models: tuple[str, ...] = MODELS
    """Which models."""
    tasks: tuple[str, ...] = ("9x9", "15x15")
    """Which tasks."""
    targets: tuple[Literal["walls", "objects"], ...] = ("walls", "objects")
    """What to probe for."""
    preset: Literal["paper", "small", "debug"] = "paper"
    """Sizes of models, probes and batches."""
    depths: tuple[int, ...] = ()
    """Hidden layers of further probes, for the paper's ablation; not of supervised models."""
    steps: int = 20_000
    """Gradient steps of each; the paper's are 1,000,000."""
    seed: int = 0
    """Seed of each."""
    episodes: int = 30_000
    """Trajectories of a data set that is missing."""
    score_every: int = 2_000
    """Gradient steps between two looks at some evaluation trajectories."""
    together: bool = False
    """All of a task at once, in a process each, and not one after the other."""
    minutes: float | None = None
    """Stop and save a run after so long, to go on another time."""
    data: Path = ROOT / "data"
    """Folder of the data sets."""
    runs: Path = ROOT / "runs"
    """Folder for the runs."""
    out: Path = ROOT / "results" / "probing"
    """Folder for the results."""


def main(config: Config) -> None:
    if config.together:
        # Otherwise the first process takes most of the GPU's memory.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    runs = [(model, targets) for model in config.models for targets in split_targets(model, config.targets)]
    with ThreadPoolExecutor(len(runs) if config.together else 1) as pool, stopping():
        for task in config.tasks:
            data = config.data / task
            call(None, "collect", "--task", task, "--episodes", config.episodes, "--out", data)
            for _ in pool.map(lambda run: probe(config, run[0], task, data, run[1]), runs):  # noqa: B023
                pass


def split_targets(model: str, targets: tuple[str, ...]) -> list[tuple[str, ...]]:
    """What each run of a model is asked: one thing, if it learns from its probe."""
    return [(target,) for target in targets] if model == "supervised" else [targets]


def probe(config: Config, model: str, task: str, data: Path, targets: tuple[str, ...]) -> None:
    """One run."""
    alone = model == "supervised"
    parts = [config.preset, model, *(targets if alone else ()), task, str(config.seed)]
    folder = config.runs / "-".join(["probe", *parts])
    what = ["--task", task, "--data", data, "--preset", config.preset, "--targets", *targets]
    how = ["--steps", config.steps, "--seed", config.seed, "--score-every", config.score_every]
    if config.depths and not alone:
        how += ["--depths", *config.depths]
    call(config.minutes, "probe", model, *what, *how, "--out", folder)
    config.out.mkdir(parents=True, exist_ok=True)
    with replacing(config.out / f"{'-'.join(parts)}.json") as path:
        shutil.copyfile(folder / RESULT, path)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
