"""Commands of the package that benchmarks call, in processes of their own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator

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


@contextlib.contextmanager
def stopping() -> Generator[None]:
    """Ctrl-C is passed on to the commands that run, also to those of other threads."""
    try:
        yield
    except KeyboardInterrupt:
        for process in _running:
            process.send_signal(signal.SIGINT)
        for process in list(_running):
            process.wait()
        sys.exit(130)
