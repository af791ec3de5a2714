"""The trained agents of the paper's online benchmark: `python benchmarks/online.py fast-9x9 fast-11x11`.

Each run is what `memory-maze train` makes of it, in a folder under runs/, evaluated in mazes that no agent is
trained in; its result is copied to results/online. Called again, unfinished runs go on. `memory-maze report
online` draws the table. On one H200 a fast run of 100 million steps takes minutes; for two cores of a CPU
there is `small-9x9 --steps 8000000`.

No run fills a large GPU: with --together they share it. It pays where NVIDIA's MPS runs, as started by
`CUDA_MPS_PIPE_DIRECTORY=/tmp/mps nvidia-cuda-mps-control -d` and named to the runs by the same variable.
"""

import dataclasses
import os
from pathlib import Path

import tyro
from commands import call, copy_result, working
from machine import ROOT

from memory_maze.tasks import TASKS

DREAMERS = ("dreamer-tbtt", "dreamer-tbtt-probe", "dreamer")
# Each an agent and its options.
RUNS = {
    **{
        f"{preset}-{task}": ["impala", "--preset", preset, "--task", task]
        for preset in ("fast", "paper")
        for task in TASKS
    },
    "small-9x9": ["impala", "--preset", "small", "--task", "9x9"],
    "no-memory-9x9": ["impala", "--preset", "fast", "--task", "9x9", "--set", "core=none"],
    "forgetful-9x9": ["impala", "--preset", "fast", "--task", "9x9", "--set", "forget_every=50"],
    **{
        f"{agent}-{preset}-9x9": [agent, "--preset", preset, "--task", "9x9"]
        for preset in ("fast", "paper")
        for agent in DREAMERS
    },
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Train and evaluate agents."""

    names: tyro.conf.Positional[tuple[str, ...]] = tuple(f"fast-{task}" for task in TASKS)
    """Which runs."""
    steps: int = 100_000_000
    """Actions of each."""
    seed: int = 0
    """Seed of each."""
    episodes: int = 100
    """To evaluate each on, on the JAX engine."""
    mujoco_episodes: int = 0
    """And on the MuJoCo engine, where the same mazes take a millisecond a step."""
    together: bool = False
    """All at once, in a process each, and not one after the other."""
    minutes: float | None = None
    """Stop each run after so long and evaluate what it has learned, to go on another time."""
    runs: Path = ROOT / "runs"
    """Folder for the runs."""
    out: Path = ROOT / "results" / "online"
    """Folder for the results."""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.names if name not in RUNS]:
            raise SystemExit(f"no run {unknown[0]}: there are {', '.join(RUNS)}")


def main(config: Config) -> None:
    if config.together:
        # Otherwise the first process takes most of the GPU's memory.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with working(len(config.names) if config.together else 1) as jobs:
        for name in config.names:
            jobs.begin(make, config, name)


def make(config: Config, name: str) -> None:
    """Trains and evaluates one agent."""
    folder = config.runs / f"{name}-{config.seed}"
    options: list[object] = ["--steps", config.steps, "--evaluate", config.episodes]
    if config.minutes is not None:
        options += ["--minutes", config.minutes]
    call(None, "train", *list_arguments(name, config.seed), *options, "--out", folder)
    if config.mujoco_episodes:
        call(None, "evaluate", folder, "--engine", "mujoco", "--episodes", config.mujoco_episodes)
    copy_result(folder, config.out / f"{folder.name}.json")


def list_arguments(name: str, seed: int) -> list[str]:
    """What `memory-maze train` is told of a run, beside how long and where."""
    return [*RUNS[name], "--seed", str(seed)]


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
