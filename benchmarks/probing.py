"""The offline probing benchmarks: `python benchmarks/probing.py --models rssm-tbtt vae-gru --tasks 9x9`.

Each run is what `memory-maze probe` makes of it, in a folder under runs/; its result is copied to
results/probing, or to results/probing-small. Called again, unfinished runs go on. Data sets are collected
where they are missing. On two cores of a CPU, in less than ten minutes, a model that remembers beside one
that does not:

    python benchmarks/probing.py --preset small --models constant vae supervised --targets objects
        --steps 2000 --episodes 1000

No run fills a large GPU: with --together 5 so many share it, as in benchmarks/online.py, and the next data
set is collected meanwhile.
"""

import dataclasses
import json
import math
import os
from concurrent.futures import Future
from pathlib import Path
from typing import Literal

import tyro
from commands import call, copy_result, working
from machine import ROOT

from memory_maze.agents.folder import RESULT
from memory_maze.training.stopping import Deadline

MODELS = ("constant", "vae", "supervised", "rssm", "vae-gru", "rssm-tbtt")
RESULTS = {"paper": "probing", "small": "probing-small", "debug": "probing-debug"}
PREFIX = "probe-"  # of a run's directory, before the name of its result


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
    together: int = 1
    """How many runs at a time, each in a process of its own."""
    minutes: float | None = None
    """Stop after so long, and evaluate what was learned by then, to go on another time."""
    data: Path = ROOT / "data"
    """Folder of the data sets."""
    runs: Path = ROOT / "runs"
    """Folder for the runs."""
    out: Path | None = None
    """Folder for the results; results/probing by default, and a folder of its own for each other preset."""


def main(config: Config) -> None:
    if config.together > 1:
        # Otherwise the first process takes most of the GPU's memory.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    deadline = Deadline(config.minutes)
    with working(config.together) as jobs:
        for task in config.tasks:
            # Before its runs, so that these do not wait for what nobody begins.
            collected = jobs.begin(collect, config, task, deadline)
            for model in config.models:
                for targets in split_targets(model, config.targets):
                    jobs.begin(probe, config, model, task, targets, collected, deadline)


def find_minutes(deadline: Deadline) -> float | None:
    """How many are left, if they are limited; ends the program when there are none."""
    if deadline.passed:
        raise SystemExit("out of time: call it again to go on")
    return deadline.minutes_left if math.isfinite(deadline.minutes_left) else None


def collect(config: Config, task: str, deadline: Deadline) -> None:
    """The data set of a task, if it is missing."""
    words = ["--task", task, "--episodes", config.episodes, "--out", config.data / task]
    call(find_minutes(deadline), "collect", *words)


def split_targets(model: str, targets: tuple[str, ...]) -> list[tuple[str, ...]]:
    """What each run of a model is asked: one thing, if it learns from its probe."""
    return [(target,) for target in targets] if model == "supervised" else [targets]


def probe(
    config: Config, model: str, task: str, targets: tuple[str, ...], collected: Future, deadline: Deadline
) -> None:
    """One run."""
    collected.result()
    depths = () if model == "supervised" else config.depths
    name = name_run(config.preset, model, targets, task, config.seed)
    folder = config.runs / f"{PREFIX}{name}"
    what = list_arguments(model, task, targets, config.preset, config.seed, config.score_every)
    how: list[object] = ["--data", config.data / task, "--steps", config.steps]
    if depths:
        how += ["--depths", *depths]
    if not is_complete(folder / RESULT, config.steps, targets, depths):
        if (left := find_minutes(deadline)) is not None:
            how += ["--minutes", left]
        call(None, "probe", *what, *how, "--out", folder, environment=prefer(model))
    copy_result(folder, (config.out or ROOT / "results" / RESULTS[config.preset]) / f"{name}.json")


def name_run(preset: str, model: str, targets: tuple[str, ...], task: str, seed: int) -> str:
    """The name of a run's result."""
    return "-".join([preset, model, *(targets if model == "supervised" else ()), task, str(seed)])


def list_arguments(
    model: str, task: str, targets: tuple[str, ...], preset: str, seed: int, score_every: int
) -> list[str]:
    """What `memory-maze probe` is told of a run, beside the data, how long and where."""
    what = [model, "--task", task, "--preset", preset, "--targets", *targets]
    return [*what, "--seed", str(seed), "--score-every", str(score_every)]


def prefer(model: str) -> dict[str, str]:
    """RSSMs go first on a shared GPU: their many small kernels would wait for the larger ones of others."""
    return {"CUDA_MPS_CLIENT_PRIORITY": "0" if model.startswith("rssm") else "1"}


def is_complete(path: Path, steps: int, targets: tuple[str, ...], depths: tuple[int, ...]) -> bool:
    """Whether a run has ended before, and was asked the same."""
    if not path.exists():
        return False
    result = json.loads(path.read_text())
    asked, training = result["config"], result["training"]
    same = (asked["targets"], asked["depths"]) == (list(targets), list(depths))
    made = training["steps"] == training["steps_planned"]
    return same and made and training["steps"] in (0, steps)  # the constant baseline learns nothing


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
