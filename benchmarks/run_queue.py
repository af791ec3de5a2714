"""A queue of runs, for GPUs that are taken away: `python benchmarks/run_queue.py --minutes 25`.

Works through the list below in its order, several runs at once, for one slice of time. At its end every run
has saved itself and was evaluated; the next call goes on. Results are copied to results/ as soon as they say
more than those that are there: a finished result is never replaced by an unfinished one.

Everything is in one folder: it can be packed, moved to another machine, and gone on with there. SIGTERM and
Ctrl-C end the slice early. What failed is told at the end, and tried again by the next call.

    python benchmarks/run_queue.py --list                         how far everything is
    python benchmarks/run_queue.py --names 'fast-*' --together 2  some of the list
    python benchmarks/run_queue.py --copy                         results of a folder from another machine
"""

import dataclasses
import datetime
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tyro
from commands import match
from entries import Entry, collect, measure, probe, shorten, train
from machine import ROOT
from online import DREAMERS
from rich.console import Console
from rich.table import Table
from slices import Clock, Job, Watch, work

from memory_maze.system.files import explain, replacing, sole_writer
from memory_maze.tasks import TASKS

# This file is not queue.py: programs of this folder would import it instead of Python's own queue.
BOTH = ("walls", "objects")
# The most valuable first.
QUEUE: tuple[Entry, ...] = (
    *(train(f"fast-{task}") for task in TASKS),
    *(train(f"{agent}-{preset}-9x9") for preset in ("fast", "paper") for agent in DREAMERS),
    *(train(f"fast-{task}", seed) for seed in (1, 2) for task in TASKS),
    collect("15x15"),
    probe("rssm-tbtt", "15x15", BOTH, seed=1),
    probe("rssm", "15x15", BOTH, seed=1),
    probe("supervised", "15x15", ("walls",), seed=1),
    probe("supervised", "15x15", ("objects",), seed=1),
    probe("vae-gru", "15x15", BOTH, seed=1),
    probe("vae", "15x15", BOTH, seed=1),
    measure(
        *("training", "--presets", "fast", "paper", "--tasks", "9x9", "15x15", "--layouts", "131072"),
        tiny=("--presets", "debug", "--tasks", "9x9", "--seconds", "1", "--layouts", "64"),
    ),
    measure("resume", tiny=("--preset", "debug", "--steps", "1000", "--save-every", "0.5")),
)

NOTHING: Mapping[str, str] = {}
console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Go on with the queue for a while."""

    minutes: float | None = None
    """Length of the slice; without a limit, it ends when everything is done."""
    together: int = 4
    """How many runs at a time."""
    names: tuple[str, ...] = ()
    """Only these entries, and what they need; * stands for anything."""
    folder: Path | None = None
    """Folder that the queue is kept in; runs/queue by default, and runs/queue-tiny if tiny."""
    reserve: float | None = None
    """Minutes at the end of the slice for checkpoints and evaluations; 3 by default, and 0.5 if tiny."""
    out: Path | None = None
    """Folder for the results; results/ by default, and FOLDER/results if tiny."""
    list: bool = False
    """Only print how far everything is."""
    copy: bool = False
    """Only copy results."""
    tiny: bool = False
    """Everything so small that a CPU does an entry in a minute, for trying the queue."""

    def __post_init__(self) -> None:
        if self.together < 1:
            raise SystemExit(f"--together must be at least 1: got {self.together}")

    @property
    def kept(self) -> float:
        """The reserve."""
        if self.reserve is not None:
            return self.reserve
        return 0.5 if self.tiny else 3.0

    @property
    def place(self) -> Path:
        """The folder that the queue is kept in."""
        return self.folder or ROOT / "runs" / ("queue-tiny" if self.tiny else "queue")

    @property
    def results(self) -> Path:
        """Folder for the results."""
        return self.out or (self.place if self.tiny else ROOT) / "results"


class Book:
    """What is known of entries beside their folders: the minutes spent, and what went wrong last."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "queue.json"
        self._saved = time.monotonic()
        self._known: dict[str, dict[str, Any]] = {}
        try:
            if self._path.exists():
                self._known = dict(json.loads(self._path.read_text()))
        except (ValueError, TypeError):
            text = "remove it: all runs go on, and only the minutes spent and the last failures are lost"
            raise SystemExit(f"{self._path} is damaged: {text}") from None

    def minutes(self, name: str) -> float:
        return self._known.get(name, {}).get("minutes", 0.0)

    def failure(self, name: str) -> str | None:
        return self._known.get(name, {}).get("failure")

    def spend(self, name: str, minutes: float) -> None:
        """Adds minutes; they are written from time to time, as this process may be killed."""
        self._note(name, minutes=self.minutes(name) + minutes)
        if time.monotonic() - self._saved > 10:
            self.save()

    def end(self, name: str, failure: str | None) -> None:
        """How an entry ended."""
        self._note(name, failure=failure)
        self.save()

    def save(self) -> None:
        self._saved = time.monotonic()
        with replacing(self._path) as path:
            path.write_text(json.dumps(self._known, indent=1) + "\n")

    def _note(self, name: str, **values: Any) -> None:
        self._known[name] = self._known.get(name, {}) | values


def main(config: Config) -> None:
    entries = choose(config)
    if config.list:
        print_table(entries, config.place)
    elif config.copy:
        copy_results(entries, config)
    else:
        check_minutes(entries, config)
        try:
            with sole_writer(config.place):
                sys.exit(run(entries, config))
        except (RuntimeError, OSError) as error:
            raise SystemExit(explain(error)) from None


def choose(config: Config) -> tuple[Entry, ...]:
    """The entries that are asked for, and those that they need."""
    if not config.names:
        chosen = QUEUE
    else:
        asked = match(config.names, [entry.name for entry in QUEUE])
        needed = {entry.needs for entry in QUEUE if entry.name in asked}
        chosen = tuple(entry for entry in QUEUE if entry.name in asked or entry.name in needed)
    return tuple(entry.shrink() for entry in chosen) if config.tiny else chosen


def check_minutes(entries: tuple[Entry, ...], config: Config) -> None:
    """Refuses a slice in which nothing could be begun."""
    least = config.kept + min(entry.least for entry in entries)
    if config.minutes is not None and config.minutes < least:
        raise SystemExit(
            f"--minutes {config.minutes:g} is too short: it takes {least:g}, and the last {config.kept:g} "
            "of these are for checkpoints and evaluations (--reserve)"
        )


def run(entries: tuple[Entry, ...], config: Config) -> int:
    """One slice; gives the code to exit with."""
    clock, book = Clock(config.minutes, config.kept), Book(config.place)
    # Compiled programs and layouts go with the folder, unless the user keeps them elsewhere.
    os.environ.setdefault("MEMORY_MAZE_CACHE", str((config.place / "cache").resolve()))
    copy_results(entries, config)
    left: dict[str, str] = {}
    by_name = {entry.name: entry for entry in entries}

    def end(name: str, code: int, failure: str | None) -> None:
        entry = by_name[name]
        if code == 0:
            entry.finish(config.place)
        book.end(name, failure)
        entry.copy(config.place, config.results)
        how = "stopped" if code else "ended"
        tell(f"{name} failed: {failure}" if failure else f"{name} {how}, {describe(entry, config.place)}")

    jobs = [make_job(entry, config) for entry in entries if not entry.read_state(config.place).done]
    watch = Watch(lambda name: tell(f"{name} begins"), book.spend, end, left.__setitem__)
    stopped_by = work(jobs, clock, config.together, watch)
    print_table(entries, config.place, left)
    failed = report_failures(entries, config.place, book)
    if stopped_by is not None:
        return 128 + stopped_by
    return 1 if failed else 0


def report_failures(entries: tuple[Entry, ...], folder: Path, book: Book) -> bool:
    """Says what failed and whether something is left to do; whether anything failed."""
    undone = [entry for entry in entries if not entry.read_state(folder).done]
    failures = {entry.name: text for entry in undone if (text := book.failure(entry.name))}
    for name, text in failures.items():
        console.print(f"{name} failed: {text} ({find_log(folder, name)})", soft_wrap=True, markup=False)
    console.print("call it again to go on" if undone else "everything is done")
    return bool(failures)


def make_job(entry: Entry, config: Config) -> Job:
    """What a slice does for an entry."""
    return Job(
        entry.name,
        lambda minutes: entry.command(config.place, minutes),
        find_log(config.place, entry.name),
        config.place / entry.name,
        **{key: getattr(entry, key) for key in ("needs", "least", "alone", "environment")},
    )


def find_log(folder: Path, name: str) -> Path:
    """Everything that the processes of an entry print."""
    return folder / "logs" / f"{name}.log"


def copy_results(entries: tuple[Entry, ...], config: Config) -> None:
    """Of a slice that was killed too, or of another machine."""
    for entry in entries:
        entry.copy(config.place, config.results)


def describe(entry: Entry, folder: Path) -> str:
    """How far it is, in words."""
    state = entry.read_state(folder)
    score = f": {state.score}" if state.score else ""
    return f"{shorten(state.steps)} of {shorten(entry.steps)}{score}"


def tell(sentence: str) -> None:
    now = datetime.datetime.now().strftime("%H:%M:%S")
    console.print(f"{now} {sentence}", soft_wrap=True, markup=False, highlight=False)


def print_table(entries: tuple[Entry, ...], folder: Path, left: Mapping[str, str] = NOTHING) -> None:
    """How far everything is, and why some of it was not begun."""
    book, table = Book(folder), Table(box=None, pad_edge=False)
    table.add_column("entry", no_wrap=True)
    for column in ("steps", "minutes"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("score", "state"):
        table.add_column(column)
    for entry in entries:
        state, minutes = entry.read_state(folder), book.minutes(entry.name)
        words = left.get(entry.name, "unfinished" if minutes else "")
        table.add_row(
            entry.name,
            f"{shorten(state.steps)} of {shorten(entry.steps)}",
            f"{minutes:.1f}",
            state.score,
            "done" if state.done else "failed" if book.failure(entry.name) else words,
        )
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
