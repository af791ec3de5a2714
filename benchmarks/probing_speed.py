"""Gradient steps a second of the sequence models, and what bounds them: `python benchmarks/probing_speed.py`.

Models and probes learn as in `memory-maze probe`, from scenes that are drawn on the device, alone on the
machine, after everything is compiled. Parts of a step are timed alone too: the pictures, the model's loss,
and its gradient; the rest are the probes and the optimizers. On GPUs kernels are counted and added up, in all
and by kind, and the longest are listed: where they take less time than a step, there are too many small ones.
Writes results/probing-speed-gpu.json (or -cpu.json).
"""

import collections
import dataclasses
import functools
import glob
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.table import Table

from memory_maze import data
from memory_maze.probing.baselines import MODELS
from memory_maze.probing.evaluate import make_sequence, time_first
from memory_maze.probing.model import initial_carry
from memory_maze.probing.probe import KEYS
from memory_maze.probing.session import make_run
from memory_maze.probing.train import Learner, begin, count_turns
from memory_maze.system.files import replacing
from memory_maze.system.programs import cache_programs
from memory_maze.system.provenance import describe_devices

console = Console()
PARTS = ("pictures", "forward", "gradient")
KINDS = {
    "convolutions": ("fprop", "dgrad", "wgrad", "cudnn"),
    "products": ("gemm", "nvjet", "cutlass", "dot"),
    "moves": ("concatenate", "pad", "Padding", "transpose", "copy", "slice", "memcpy", "Mem", "convert"),
    "sums": ("reduce", "softmax"),
}
NO_KERNELS: dict[str, Any] = {"kernels": None, "kinds_ms": {}, "kernels_ms": {}}


@dataclasses.dataclass(frozen=True)
class Config:
    """Measure how fast sequence models train."""

    models: tuple[str, ...] = tuple(name for name in MODELS if name not in ("rssm", "rssm-untrained"))
    """Which models; rssm does the same work as rssm-tbtt."""
    task: str = "9x9"
    """Which task."""
    preset: str = "paper"
    """Sizes of models, probes and batches."""
    seconds: float = 5.0
    """Length of each timing."""
    episodes: int = 256
    """Trajectories to learn from, which are collected first."""
    kernels: int = 20
    """How many kernels to list, on GPUs."""
    seed: int = 0
    """Seed of weights and data."""
    out: Path | None = None
    """File for the figures."""


def main(config: Config) -> None:
    cache_programs()
    out = config.out or ROOT / "results" / f"probing-speed-{jax.default_backend()}.json"
    results: dict[str, Any] = {}
    report = describe_run(graphics=False) | {
        "devices": describe_devices(),
        "jax": jax.__version__,
        "seed": config.seed,
        "settings": dataclasses.asdict(config) | {"out": None},
        "results": results,
    }
    with tempfile.TemporaryDirectory() as folder:
        data.collect(folder, config.task, config.episodes, seed=config.seed)
        dataset = data.load(folder, "train")
        for model in config.models:
            results[model] = measure(model, dataset, config)
            with replacing(out) as path:
                path.write_text(json.dumps(report, indent=2) + "\n")
    print_results(results)
    console.print(f"written: {os.path.relpath(out)}", soft_wrap=True)


def measure(name: str, dataset: Any, config: Config) -> dict[str, Any]:
    targets = ("objects",) if name == "supervised" else ("walls", "objects")
    run = make_run(name, config.preset, targets=targets, seed=config.seed)
    learning = begin(run, dataset.size, dataset.objects)
    began = time.perf_counter()
    turns = count_turns(run, learning.model)
    with dataset.batches("replay", run.batch, run.time, keys=KEYS, arrays="jax", interleave=turns) as batches:
        parts = {"pictures_ms": 1e3 * time_calls(lambda: next(batches), config.seconds / 5)}
        batch = next(batches)
        sequence, carry = make_sequence(time_first(batch)), initial_carry(learning.model, run.batch)
        arguments = learning.model, carry, sequence, jax.random.key(0)
        forward = eqx.filter_jit(lambda model, *others: model.loss(*others)[0])
        gradient = eqx.filter_jit(eqx.filter_grad(lambda model, *others: model.loss(*others)[0]))
        for part, program in (("forward", forward), ("gradient", gradient)):
            call = functools.partial(program, *arguments)
            parts[f"{part}_ms"] = 1e3 * time_calls(call, config.seconds / 5)
        learner = Learner(run, learning)

        def step() -> Any:
            return learner.step(next(batches))

        jax.block_until_ready(step())
        first = time.perf_counter() - began
        seconds = time_calls(step, config.seconds)
        kernels = list_kernels(step, config.kernels) if jax.default_backend() == "gpu" else NO_KERNELS
    return {
        "steps_per_second": 1 / seconds,
        "step_ms": 1e3 * seconds,
        "hours_for_a_million": 1e6 * seconds / 3600,
        "first_seconds": first,
        "parts": parts,
        **kernels,
    }


def time_calls(call: Callable[[], Any], seconds: float) -> float:
    """Of one call, when many are made one after another."""
    jax.block_until_ready(call())
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        made = [call() for _ in range(4)]
        jax.block_until_ready(made)
        count += len(made)
    return (time.perf_counter() - begin) / count


def list_kernels(call: Callable[[], Any], most: int) -> dict[str, Any]:
    """How many kernels a call has, and their milliseconds: by kind, and of the longest."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(call())
        (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        profile = jax.profiler.ProfileData.from_file(file)
    times: collections.Counter[str] = collections.Counter()
    kinds: collections.Counter[str] = collections.Counter()
    count = 0
    for plane in profile.planes:
        for line in plane.lines if "GPU" in plane.name else ():
            for event in line.events if "Stream" in line.name else ():
                times[event.name] += event.duration_ns / 1e6
                kinds[find_kind(event.name)] += event.duration_ns / 1e6
                count += 1
    longest = {"all": sum(times.values()), **dict(times.most_common(most))}
    return {"kernels": count, "kinds_ms": dict(kinds.most_common()), "kernels_ms": longest}


def find_kind(kernel: str) -> str:
    """What a kernel does, by its name."""
    return next((kind for kind, names in KINDS.items() if any(name in kernel for name in names)), "others")


def print_results(results: dict[str, Any]) -> None:
    table = Table("model", "steps/s", "hours for 1M", "ms a step", "kernels, ms", *PARTS, "first, s")
    for name, figures in results.items():
        parts = [f"{figures['parts'][f'{part}_ms']:.1f}" for part in PARTS]
        table.add_row(
            name,
            f"{figures['steps_per_second']:.1f}",
            f"{figures['hours_for_a_million']:.1f}",
            f"{figures['step_ms']:.1f}",
            f"{figures['kernels']}, {figures['kernels_ms'].get('all', 0):.1f}" if figures["kernels"] else "-",
            *parts,
            f"{figures['first_seconds']:.0f}",
        )
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
