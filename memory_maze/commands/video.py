"""Render a video of an episode, or of two side by side: observations, a map with the path, and rewards.

The source of an episode is a directory of recordings, a data set, an agent (oracle, explorer, random,
impala-9x9, a run directory, or module:name), or a probing run. Agents play in the same held-out maze, or in
the maze of the recorded episode beside them. NAME#12 selects the episode or trajectory with index 12, from 0,
and for agents the maze of seed 12.
"""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from memory_maze.commands.environment import DEFAULT, Environment

console = Console()


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    source: tyro.conf.Positional[str]
    """Source of the episode, like recordings#3, data/9x9#12, oracle or runs/probe."""
    other: tyro.conf.Positional[str | None] = None
    """Source of a second episode to show beside it."""
    out: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE [FILE ...]")] = (Path("episode.mp4"),)
    """Output files, .mp4 or .gif."""
    task: str | None = None
    """Task that agents play; by default the one they were trained on, and 9x9 for other policies."""
    seed: int = 0
    """Seed of the maze that agents play in."""
    steps: str | None = None
    """Steps to show: a number, or from:to; by default all, and 200 for GIFs."""
    every: int | None = None
    """Show every N-th step; by default every step, and every second one for GIFs."""
    fps: int = 12
    """Frames per second."""
    engine: Literal["jax", "mujoco"] = "jax"
    """Engine that agents play on; mujoco needs the extra [mujoco]."""
    data: str | None = None
    """Data set for a probing run."""
    environment: Environment = DEFAULT

    def run(self) -> None:
        from rich.progress import Progress

        from memory_maze.system.programs import cache_programs
        from memory_maze.system.video import import_video
        from memory_maze.watch.film import write_film
        from memory_maze.watch.sources import find_pair

        cuts = {path: self._cut(path) for path in self.out}
        import_video()
        cache_programs()
        words = [self.source] if self.other is None else [self.source, self.other]
        entries = find_pair(words, self._settings([cut.last for cut in cuts.values()]))
        with Progress(console=console, transient=True) as progress:
            traces = [_load(progress, entry) for entry in entries]
            if len(traces) == 2 and not _share_maze(*traces):
                console.print("note: the episodes are in different mazes")
            for path, cut in cuts.items():
                bar = progress.add_task(path.name, total=len(cut.steps(traces)))
                write_film(path, traces, cut, lambda frames, bar=bar: progress.advance(bar, frames))
        for trace in traces:
            console.print(f"{trace.name}: score {trace.scores[-1]:g}", highlight=False, markup=False)
        for path in self.out:
            console.print(f"written: {path}", soft_wrap=True)

    def _cut(self, path: Path) -> Any:
        """Before minutes of playing, not after."""
        from memory_maze.system.files import check_writable
        from memory_maze.watch.film import ENDINGS, GIF_EVERY, GIF_STEPS, Cut, parse_steps

        if path.suffix not in ENDINGS:
            raise ValueError(f"{path}: the file must end in {' or '.join(ENDINGS)}")
        check_writable(path)
        if self.every is not None and self.every < 1:
            raise ValueError(f"every must be positive: got {self.every}")
        if not 1 <= self.fps <= 100:
            raise ValueError(f"fps must be from 1 to 100: got {self.fps}")
        gif = path.suffix == ".gif"
        first, last = parse_steps(self.steps) if self.steps else (0, GIF_STEPS if gif else None)
        return Cut(first, last, self.every or (GIF_EVERY if gif else 1), self.fps)

    def _settings(self, ends: list[int | None]) -> Any:
        """Agents play no further than the last frame."""
        from memory_maze.watch.sources import Settings

        numbers = [end for end in ends if end is not None]
        steps = max(numbers) if len(numbers) == len(ends) else None
        return Settings(
            self.task,
            self.seed,
            self.engine,
            steps=steps and max(steps, 1),
            data=self.data,
            objects=self.environment.objects,
            seconds=self.environment.seconds,
            options=self.environment.parse() if self.environment.is_given else None,
        )


def _load(progress: Any, entry: Any) -> Any:
    bar = progress.add_task(entry.name, total=entry.steps)
    trace = entry.load(lambda steps: progress.advance(bar, steps))
    progress.update(bar, total=trace.steps, completed=trace.steps)
    return trace


def _share_maze(one: Any, other: Any) -> bool:
    from numpy import array_equal

    return array_equal(one.layout, other.layout) and array_equal(one.objects, other.objects)
