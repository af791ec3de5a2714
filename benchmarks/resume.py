"""Whether training that is killed and goes on has the same curve: `python benchmarks/resume.py`.

One run is left alone; another like it is killed (SIGKILL) once it has saved a checkpoint, and called again.
Compares every line of their metrics and their weights. XLA is told to add in the same order every time: on a
GPU it may not otherwise, and two runs of a seed differ before any is killed; these lines are also compared by
themselves. Writes results/resume-gpu.json (or -cpu.json), for other agents results/resume-AGENT-gpu.json.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from machine import ROOT, describe_run
from safetensors.numpy import load_file

from memory_maze.agents.folder import METRICS, WEIGHTS
from memory_maze.results.metrics import read_metrics
from memory_maze.system.files import replacing

FLAGS = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true"
ENVIRONMENT = os.environ | {"XLA_FLAGS": FLAGS.strip()}


@dataclasses.dataclass(frozen=True)
class Config:
    """Kill a run and compare it with one that was not."""

    agent: str = "impala"
    """Which agent."""
    preset: str = "fast"
    """Values of the agent."""
    task: str = "9x9"
    """Which task."""
    steps: int = 5_000_000
    """Actions of each run."""
    save_every: float = 5.0
    """Seconds between two checkpoints."""
    seed: int = 0
    """Seed of both."""
    out: Path | None = None
    """File for the figures."""


def main(config: Config) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = Path(folder, "whole"), Path(folder, "parts")
        subprocess.run(command(config, whole), check=True, env=ENVIRONMENT)
        killed_after = kill_midway(config, parts)
        resumed_from = saved(parts)[-1] * read_metrics(parts)[0]["steps"]  # there is a line of each iteration
        subprocess.run(command(config, parts), check=True, env=ENVIRONMENT)
        result = json.loads((whole / "result.json").read_text())
        devices = result["hardware"]["devices"]
        figures = compare(whole, parts, resumed_from)
        figures |= {"killed_after": killed_after, "resumed_from": resumed_from, "devices": devices}
    kind = "cpu" if devices.endswith("cpu") else "gpu"
    name = f"resume-{kind}" if config.agent == "impala" else f"resume-{config.agent}-{kind}"
    out = config.out or ROOT / "results" / f"{name}.json"
    settings = dataclasses.asdict(config) | {"out": None}
    report = describe_run(graphics=False) | {"seed": config.seed, "settings": settings, "results": figures}
    with replacing(out) as path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    print(f"written: {os.path.relpath(out)}")


def command(config: Config, folder: Path) -> list[str]:
    options: dict[str, object] = {
        "preset": config.preset,
        "task": config.task,
        "steps": config.steps,
        "seed": config.seed,
        "save-every": config.save_every,
        "log-every": 0,
        "evaluate": 0,
        "out": folder,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "memory_maze", "train", config.agent, *words]


def kill_midway(config: Config, folder: Path) -> int:
    """Kills a run that has saved itself and gone on; tells how many steps it had made."""
    process = subprocess.Popen(command(config, folder), env=ENVIRONMENT)
    while steps_made(folder) < config.steps // 2 or not saved(folder):
        if process.poll() is not None:
            raise SystemExit("the run ended before it could be killed: give more --steps")
        time.sleep(0.05)
    process.kill()
    process.wait()
    return steps_made(folder)


def saved(folder: Path) -> list[int]:
    """Iterations after which there are complete checkpoints: these have names of digits alone."""
    return sorted(int(path.name) for path in folder.glob("checkpoints/*") if path.name.isdigit())


def steps_made(folder: Path) -> int:
    lines = read_metrics(folder) if (folder / METRICS).exists() else []
    return lines[-1]["steps"] if lines else 0


def compare(one: Path, two: Path, resumed_from: int) -> dict[str, Any]:
    """The largest differences between two runs; in their first lines nothing but chance could differ."""
    curves = [{line["steps"]: line for line in read_metrics(folder)} for folder in (one, two)]
    if curves[0].keys() != curves[1].keys():
        raise SystemExit("the runs have lines of different steps")
    weights = [load_file(folder / WEIGHTS) for folder in (one, two)]
    return {
        "lines": len(curves[0]),
        "largest_difference": differ(curves, list(curves[0])),
        "largest_difference_before": differ(curves, [steps for steps in curves[0] if steps <= resumed_from]),
        "largest_difference_of_weights": max(
            float(np.abs(weights[0][name] - weights[1][name]).max()) for name in weights[0]
        ),
    }


def differ(curves: list[dict[int, dict[str, Any]]], chosen: list[int]) -> dict[str, float]:
    """The largest difference of each figure in the chosen lines."""
    keys = [key for key in curves[0][chosen[-1]] if key.startswith("loss_") or key in ("reward", "return")]
    return {
        key: max(abs((curves[0][steps][key] or 0.0) - (curves[1][steps][key] or 0.0)) for steps in chosen)
        for key in keys
    }


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
