"""Progress bars of runs."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bars:
    """One bar, and others below it as they are asked for; gone when it is closed."""

    def __init__(self, console: Console, total: int, what: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[line]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=600,
        )
        self._main = self._progress.add_task(what, total=total, line="compiling")

    def __enter__(self) -> "Bars":
        self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)

    def show(self, done: int, line: str) -> None:
        """How far the first one is, and a line about it."""
        self._progress.update(self._main, completed=done, line=line)

    def add(self, total: int, what: str) -> Any:
        """Another one; gives what `advance` takes."""
        return self._progress.add_task(what, total=total, line="")

    def advance(self, bar: Any, done: int) -> None:
        """Another one is so much further."""
        self._progress.advance(bar, done)
