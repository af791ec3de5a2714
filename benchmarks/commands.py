"""Commands of the package that benchmarks call, in processes of their own, and copies of their results."""

import contextlib
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import RESULT
from memory_maze.system.files import replacing

_running: set[subprocess.Popen] = set()


def call(minutes: float | None, *arguments: object, environment: dict[str, str] | None = None) -> None:
    """Runs a command of the package, as `run` does."""
    run(make_command(*arguments), minutes, environment)


def run(
    command: Sequence[str], minutes: float | None = None, environment: dict[str, str] | None = None
) -> None:
    """Runs a command, or ends as it does; after so many minutes it is asked to save and stop."""
    # In a group of its own, as a second Ctrl-C is not waited for: `working` passes on the first.
    process = subprocess.Popen(command, env=os.environ | (environment or {}), process_group=0)
    _running.add(process)
    try:
        code = process.wait(None if minutes is None else 60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        code = process.wait()
    _running.remove(process)
    if code:
        sys.exit(code)


def make_command(*arguments: object) -> list[str]:
    """The words of a command of the package."""
    return [sys.executable, "-m", "memory_maze", *map(str, arguments)]


def match(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    """The names that patterns stand for, in which * is anything; ends the program if one is for none."""
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise SystemExit(f"no entry {pattern}: there are {', '.join(names)}")
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def copy_result(
    run: Path, copy: Path, length: Callable[[dict[str, Any]], int] = lambda training: training["steps"]
) -> None:
    """Copies the result of a run, unless it says less than the copy that is there.

    A finished result is not replaced by an unfinished one, nor by an earlier one, nor an unfinished one by a
    shorter one. `length` is that of an unfinished training.
    """
    if not (run / RESULT).exists() or _rank(run / RESULT, length) < _rank(copy, length):
        return
    with replacing(copy) as path:
        shutil.copyfile(run / RESULT, path)


def _rank(path: Path, length: Callable[[dict[str, Any]], int]) -> tuple[bool, bool, int, str]:
    """How much a result says, for comparing: whether it is finished and evaluated, its length, its date."""
    try:
        result = json.loads(path.read_text())
        training, evaluations = result["training"], result.get("evaluations", [])
        finished = training["steps"] >= training["steps_planned"]
        dates = [one.get("date") or "" for one in (result, *evaluations)]
        evaluated = bool(evaluations or result.get("evaluation"))
        return finished, evaluated, 0 if finished else length(training), max(dates)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # there is none, or it is damaged
        return False, False, -1, ""


class Jobs:
    """Functions that run in threads of their own; after one has failed no other is begun."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool, self._begun = pool, []
        self._stopped = threading.Event()

    def begin(self, function: Callable[..., None], *arguments: Any) -> Future[None]:
        """As soon as a thread is free, in the order of the calls."""
        future = self._pool.submit(self._run, function, *arguments)
        self._begun.append(future)
        return future

    def _run(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._stopped.is_set():
            raise CancelledError
        try:
            function(*arguments)
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Until all have ended, or until one has failed, as it did."""
        for future in self._begun:
            future.result()

    def stop(self) -> None:
        """Nothing new is begun."""
        self._stopped.set()


@contextlib.contextmanager
def working(together: int) -> Generator[Jobs]:
    """Waits for the jobs that are begun in it, so many at a time.

    Ctrl-C and SIGTERM are passed on to the commands that run, so that they save themselves.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with ThreadPoolExecutor(together) as pool:
            jobs = Jobs(pool)
            try:
                yield jobs
                jobs.wait()
            except KeyboardInterrupt:
                jobs.stop()
                for process in list(_running):
                    process.send_signal(signal.SIGINT)
                sys.exit(128 + signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
