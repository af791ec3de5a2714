"""Collects with a progress bar."""

import time
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from memory_maze.data.collect import collect
from memory_maze.data.manifest import Manifest, Shard


def run_collection(out: Path, manifest: Manifest, console: Console, ray: str | None) -> None:
    """Makes what is missing and tells how far it is."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps, {task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    began = time.perf_counter()
    made = 0
    with Progress(*columns, console=console, transient=True, speed_estimate_period=120) as progress:
        total = manifest.episodes * manifest.steps
        bar = progress.add_task(f"{manifest.policy} in {manifest.task.name}", total=total, rate="")

        def advance(steps: int) -> None:
            nonlocal made
            made += steps
            progress.update(bar, advance=steps, rate=f"{made / (time.perf_counter() - began):,.0f}/s")

        def note(shard: Shard, fresh: bool) -> None:
            if not fresh:
                progress.update(bar, advance=len(shard.episodes) * manifest.steps)

        if ray is None:
            collect(out, manifest, note=note, advance=advance)
        else:
            from memory_maze.data.cluster import collect_on_ray

            collect_on_ray(out, manifest, ray, note=note, advance=advance)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    seconds = time.perf_counter() - began
    train, evaluation = manifest.count("train"), manifest.count("eval")
    console.print(
        f"{train:,} trajectories for training and {evaluation:,} for evaluation of {manifest.steps:,} steps, "
        f"{size / 1e6:,.1f} MB: {out}",
        soft_wrap=True,
    )
    if made:
        console.print(f"{made:,} steps in {seconds:.1f} s: {made / seconds:,.0f} steps/s")
