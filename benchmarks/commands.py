"""Commands of the package that benchmarks call, in processes of their own."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

_running: set[subprocess.Popen] = set()


def call(minutes: float | None, *arguments: object, environment: dict[str, str] | None = None) -> None:
    """Runs a command, or ends as it does; after so many minutes it is asked to save and stop."""
    command = [sys.executable, "-m", "memory_maze", *map(str, arguments)]
    process = subprocess.Popen(command, env=os.environ | (environment or {}))
    _running.add(process)
    try:
        code = process.wait(None if minutes is None else 60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        code = process.wait()
    _running.remove(process)
    if code:
        sys.exit(code)


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
