"""Makes data sets with a progress bar."""

import contextlib
import time
from collections.abc import Generator
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

from memory_maze.data.collection import make_missing
from memory_maze.data.manifest import Manifest, Shard


class Bar:
    """How far a data set is, in steps."""

    def __init__(self, progress: Progress, what: str, manifest: Manifest) -> None:
        self._progress, self._steps = progress, manifest.steps
        self._bar = progress.add_task(what, total=manifest.episodes * manifest.steps, rate="")
        self._began = time.perf_counter()
        self._complete = self._partial = self.made = 0

    def note(self, shard: Shard, fresh: bool) -> None:
        """A shard is complete."""
        count = len(shard.episodes) * self._steps
        self._complete += count
        self.made += count if fresh else 0
        self._partial = 0
        self._show()

    def advance(self, steps: int) -> None:
        """Some steps of a shard are made."""
        self._partial += steps
        self._show()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def _show(self) -> None:
        rate = f"{(self.made + self._partial) / self.seconds:,.0f}/s"
        self._progress.update(self._bar, completed=self._complete + self._partial, rate=rate)


@contextlib.contextmanager
def show_bar(what: str, manifest: Manifest, console: Console) -> Generator[Bar]:
    """A bar while the data set is made, and a line or two about it at the end."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps, {task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=120) as progress:
        bar = Bar(progress, what, manifest)
        yield bar
    if bar.made:
        console.print(f"{bar.made:,} steps in {bar.seconds:.1f} s: {bar.made / bar.seconds:,.0f} steps/s")


def run_collection(out: Path, manifest: Manifest, console: Console, ray: str | None = None) -> None:
    """Collects what is missing of a data set."""
    with show_bar(f"{manifest.policy} in {manifest.task.name}", manifest, console) as bar:
        if ray is None:
            make_missing(out, manifest, note=bar.note, advance=bar.advance)
        else:
            from memory_maze.data.cluster import collect_on_ray

            collect_on_ray(out, manifest, ray, bar.note)
    print_summary(out, manifest, console)


def run_conversion(source: str, out: Path, format: str, console: Console) -> None:
    """Converts what is missing of a data set."""
    from memory_maze.data.convert import convert, plan
    from memory_maze.data.dataset import load

    dataset = load(source)
    manifest = plan(dataset, format)
    with show_bar(f"{manifest.task.name} to {format}", manifest, console) as bar:
        convert(dataset, out, manifest, bar.note)
    print_summary(out, manifest, console)


def print_summary(out: Path, manifest: Manifest, console: Console) -> None:
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    train, evaluation = manifest.count("train"), manifest.count("eval")
    console.print(
        f"{train:,} trajectories for training and {evaluation:,} for evaluation of {manifest.steps:,} steps, "
        f"{size / 1e6:,.1f} MB: {out}",
        soft_wrap=True,
    )
