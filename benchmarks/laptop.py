"""Small agents that a CPU trains in minutes: `python benchmarks/laptop.py smoke`, then `laptop`.

Each run is what `memory-maze train --preset small --minutes M` makes of it, in a folder under runs/laptop,
evaluated in held-out mazes; its result is copied to results/laptop, or results/laptop-smoke. Called again,
runs that were interrupted get the minutes that are left. At the end there is a table of all results.

    python benchmarks/laptop.py smoke                       7x7, 15 minutes each: does it learn at all?
    python benchmarks/laptop.py laptop --together 2         9x9, an hour each, two runs with half of the cores
    python benchmarks/laptop.py laptop --names '*tbtt*-0'   some of them
    python benchmarks/laptop.py forget                      what is a memory of more than 50 steps worth?

7x7 has 113 layouts, of which 7 are held out: a smoke test, and no benchmark.
"""

import contextlib
import dataclasses
import json
import os
import queue
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import policies
import tyro
from commands import call, copy_result, match, run, working
from entries import Train, read_json
from laptop_tables import POLICIES, Table, list_forgetful, list_scores
from machine import ROOT, describe_run
from online import DREAMERS
from rich.console import Console
from rich.table import Table as Printed

from memory_maze.agents.folder import RESULT, WEIGHTS, read_environment
from memory_maze.agents.load import load_policy
from memory_maze.episodes.evaluate import bootstrap, evaluate
from memory_maze.policies.forgetful import Forgetful
from memory_maze.results.find import find_places, read_places
from memory_maze.results.metrics import read_metrics
from memory_maze.results.online import hash_weights, read_result
from memory_maze.results.schema import ONLINE
from memory_maze.system.cpu import num_cores
from memory_maze.system.files import replacing

STEPS = 1_000_000_000  # more than anyone makes: minutes are the limit
FORGET_EVERY = 50
FORGET = "forget.json"
_SLACK = 0.005  # of the minutes, for which no run is begun again
console = Console()


@dataclasses.dataclass(frozen=True)
class Plan:
    """Agents that are trained in one task for as long."""

    task: str
    minutes: float
    seeds: dict[str, int]
    """How many, by agent; the most valuable first."""
    results: str
    """Folder in results/."""


PLANS = {
    "smoke": Plan("7x7", 15, dict.fromkeys(DREAMERS, 3) | {"impala": 1}, "laptop-smoke"),
    "laptop": Plan("9x9", 60, dict.fromkeys(DREAMERS, 1) | {"dreamer-tbtt": 3, "impala": 1}, "laptop"),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Train and evaluate small agents, or ask what their memories are worth."""

    what: tyro.conf.Positional[Literal["smoke", "laptop", "forget"]]
    """smoke: 7x7, to see whether agents learn at all; laptop: 9x9; forget: evaluates all agents trained so
    far with and without a reset of their memory every 50 steps."""
    minutes: float | None = None
    """Training time of each; by default 15 for smoke, and 60 for laptop."""
    together: int = 1
    """How many runs at a time, each on its own share of the cores."""
    names: tuple[str, ...] = ("*",)
    """Only these runs; * stands for anything."""
    preset: Literal["small", "debug"] = "small"
    """Hyperparameters; debug is for trying this program, in folders of its own."""
    episodes: int = 100
    """To evaluate each on."""
    runs: Path | None = None
    """Folder for the runs; runs/laptop by default, and runs/laptop-debug with preset debug."""
    out: Path | None = None
    """Folder for the results; results/ by default, and RUNS/results with preset debug."""

    def __post_init__(self) -> None:
        if not 1 <= self.together <= num_cores():
            raise SystemExit(f"--together must be from 1 to the number of cores, {num_cores()}")
        if self.minutes is not None and not self.minutes > 0:
            raise SystemExit(f"--minutes must be positive: got {self.minutes:g}")

    @property
    def place(self) -> Path:
        """Folder for the runs."""
        return self.runs or ROOT / "runs" / ("laptop" if self.preset == "small" else f"laptop-{self.preset}")

    @property
    def results(self) -> Path:
        """Folder for the results."""
        return self.out or (ROOT if self.preset == "small" else self.place) / "results"


def main(config: Config) -> None:
    if config.what == "forget":
        show(list_forgetful(forget(config)))
        return
    plan = PLANS[config.what]
    shares: queue.Queue[list[int]] = queue.Queue()
    for share in split_cores(config.together):
        shares.put(share)
    with working(config.together) as jobs:
        for entry in choose(plan, config):
            jobs.begin(make, config, plan, entry, shares)
    known = add_policies(config, plan.task)
    show(list_scores(find_all(config.results), known))


def choose(plan: Plan, config: Config) -> list[Train]:
    """The runs that are asked for, the first seed of every agent before the second."""
    entries = {
        entry.name: entry
        for seed in range(max(plan.seeds.values()))
        for agent, count in plan.seeds.items()
        if seed < count
        for entry in [make_entry(agent, plan.task, seed, config)]
    }
    return [entries[name] for name in match(config.names, list(entries))]


def make_entry(agent: str, task: str, seed: int, config: Config) -> Train:
    """A run, whose minutes are told to its command."""
    words = (agent, "--preset", config.preset, "--task", task, "--seed", str(seed))
    return Train(f"{agent}-{config.preset}-{task}-{seed}", words, STEPS, episodes=config.episodes)


def make(config: Config, plan: Plan, entry: Train, shares: queue.Queue[list[int]]) -> None:
    """Trains and evaluates one agent on a share of the cores."""
    minutes, folder = config.minutes or plan.minutes, config.place / entry.name
    with holding(shares) as environment:
        # More than once if a former call was killed: what came after its last checkpoint is trained again.
        while left := find_minutes_left(folder, minutes):
            run(entry.command(config.place, left), environment=environment)
        if not is_evaluated(folder, config.episodes):
            call(None, "evaluate", folder, "--episodes", config.episodes, environment=environment)
    copy_result(folder, config.results / plan.results / f"{entry.name}.json", count_minutes)


def find_minutes_left(folder: Path, minutes: float) -> float:
    """Of the minutes that a run is to train; 0 if it has, up to some seconds."""
    lines = read_metrics(folder)
    left = minutes - (lines[-1]["seconds"] / 60 if lines else 0)
    return left if left > max(_SLACK * minutes, 0.01) else 0


def is_evaluated(folder: Path, episodes: int) -> bool:
    """Whether a run was evaluated after its training, and not stopped before."""
    result = read_json(folder / RESULT)
    if result.get("weights") != hash_weights(folder):
        return False
    return any(one["engine"] == "jax" and one["episodes"] >= episodes for one in result["evaluations"])


def count_minutes(training: dict[str, Any]) -> int:
    """By which results are compared: on a slower machine, or another share of it, steps are fewer."""
    return round((training["seconds"] or 0) / 60)


def split_cores(together: int) -> list[list[int]]:
    """Equal shares of the cores that this process may use; numbers alone where it cannot choose."""
    pinned = hasattr(os, "sched_getaffinity")
    cores = sorted(os.sched_getaffinity(0)) if pinned else list(range(num_cores()))
    size = len(cores) // together
    return [cores[index * size : (index + 1) * size] for index in range(together)]


@contextlib.contextmanager
def holding(shares: queue.Queue[list[int]]) -> Generator[dict[str, str]]:
    """A share of the cores, for the processes that this thread begins; gives variables for them."""
    share = shares.get()
    try:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(
                0, share
            )  # of this thread alone; processes inherit it, and count their cores
            yield {}
        else:
            count = 1 << (len(share).bit_length() - 1)  # must divide numbers of environments
            yield {"XLA_FLAGS": f"--xla_force_host_platform_device_count={min(count, 8)}"}
    finally:
        shares.put(share)


def add_policies(config: Config, task: str) -> dict[str, Any]:
    """Scores of policies that need no training, which are measured if they are missing."""
    path = config.results / "policies.json"
    missing = tuple(name for name in POLICIES if f"{name} {task} jax" not in read_json(path))
    if missing:
        asked = policies.Config(policies=missing, tasks=(task,), engines=("jax",), out=path)
        tiny = {} if config.preset == "small" else {"episodes": config.episodes}
        policies.add(dataclasses.replace(asked, **tiny))
    return read_json(path)


def find_all(results: Path) -> list[dict[str, Any]]:
    """All results on file, of both plans."""
    folders = [results / plan.results for plan in PLANS.values()]
    found = read_places(find_places([one for one in folders if one.exists()], ONLINE), ONLINE)
    for text in found.left_out.values():
        console.print(f"left out: {text}", soft_wrap=True, markup=False)
    return found.results


def forget(config: Config) -> dict[str, Any]:
    """Compares every agent with itself; what the file has of the same weights is kept."""
    path = config.results / PLANS["laptop"].results / FORGET
    folders = {one.parent.name: one.parent for one in sorted(config.place.glob(f"*/{WEIGHTS}"))}
    if not folders:
        raise SystemExit(f"no agents in {config.place}: python benchmarks/laptop.py laptop trains some")
    report = read_json(path)
    for name in match(config.names, list(folders)):
        result = read_result(folders[name])
        known = report.get(name, {})
        if (known.get("weights"), known.get("episodes")) == (result["weights"], config.episodes):
            continue
        console.print(
            f"{name}: {config.episodes} episodes with its memory, and as many without", markup=False
        )
        report[name] = compare(folders[name], result, config.episodes)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(report, indent=1) + "\n")
    return report


def compare(folder: Path, result: dict[str, Any], episodes: int) -> dict[str, Any]:
    """An agent with its memory and without, in the same held-out mazes."""
    origin = describe_run(graphics=False)
    task, options = read_environment(folder)
    policy = load_policy(str(folder))
    reports = [
        evaluate(one, task, episodes, options=options) for one in (policy, Forgetful(policy, FORGET_EVERY))
    ]
    remembered, forgotten = (np.array(report["scores"]) for report in reports)
    kept = ("mean", "std_error", "interval_95", "scores", "rewards_per_100_steps")
    remembering, forgetful = ({key: report[key] for key in kept} for report in reports)
    about = {key: result[key] for key in ("agent", "title", "preset", "task", "seed", "weights")}
    length = {key: result["training"][key] for key in ("steps", "seconds")}
    played = {key: reports[0][key] for key in ("episodes", "held_out", "layouts")}
    return {
        **origin,
        **about,
        **length,
        **played,
        "mazes_seed": reports[0]["seed"],
        "forget_every": FORGET_EVERY,
        "remembering": remembering,
        "forgetful": forgetful,
        "change": float((forgotten - remembered).mean()),
        "interval_95": bootstrap(forgotten - remembered),
    }


def show(table: Table) -> None:
    """In the terminal."""
    printed = Printed(*table.header)
    for line in table.lines:
        printed.add_row(*line)
    console.print(printed)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
