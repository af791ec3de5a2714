"""How far the JAX engine is from MuJoCo, at full size: what `memory-maze compare-engines` measures.

python benchmarks/equivalence.py            half an hour on two cores; writes results/equivalence.json
                                            and docs/images/engines.png
python benchmarks/equivalence.py --quick    a few minutes; writes into build/equivalence alone
"""

import dataclasses
import json
import os
import shutil
import time
from importlib import metadata
from pathlib import Path

import tyro
from machine import ROOT, describe_run
from rich.console import Console

from memory_maze.compare.report import FULL, QUICK, check_table, statistics_table, write_report
from memory_maze.system.files import replacing
from memory_maze.tasks import TASKS

RESULT, PICTURE = ROOT / "results" / "equivalence.json", ROOT / "docs" / "images" / "engines.png"
console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Compare the JAX engine with the MuJoCo reference."""

    quick: bool = False
    """Compare less, and leave the committed results alone."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Which tasks."""
    seed: int = 1000
    """Seed of mazes and actions."""
    out: Path = ROOT / "build" / "equivalence"
    """Folder for the whole report."""


def main(config: Config) -> None:
    versions = {name: metadata.version(name) for name in ("mujoco", "jax", "numpy", "labmaze")}
    run, begin = describe_run() | {"versions": versions}, time.perf_counter()
    report = write_report(config.out, config.tasks, QUICK if config.quick else FULL, config.seed, run)
    report["minutes"] = round((time.perf_counter() - begin) / 60, 1)
    console.print(statistics_table(report))
    console.print(check_table(report))
    written = config.out
    if not config.quick:
        with replacing(RESULT) as path:
            path.write_text(json.dumps(report, indent=2) + "\n")
        with replacing(PICTURE) as path:
            shutil.copyfile(config.out / "engines.png", path)
        written = RESULT
    console.print(f"written: {os.path.relpath(written)}", soft_wrap=True)


if __name__ == "__main__":
    main(tyro.cli(Config))
