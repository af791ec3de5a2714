"""Processes that share a slice of time: several run at once, and all have ended when it is over.

Each is told how long it may work. Towards the end who still works is asked to save and stop (SIGTERM), and at
the very end killed. SIGTERM and Ctrl-C end a slice early in the same way.
"""

import contextlib
import dataclasses
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from memory_maze.system.files import sole_writer
from memory_maze.system.provenance import now
from memory_maze.training.stopping import Deadline

_POLL = 0.2  # seconds
_PATIENCE = 60.0  # seconds, for processes of an earlier slice that save themselves
_ASK, _KILL = 1 / 4, 1 / 20  # of the reserve that is left when processes are asked to stop, and killed
_STOPPED = {code for number in (signal.SIGTERM, signal.SIGINT) for code in (-number, 128 + number)}
_KILLED = (-9, 137)
_LONGEST = 300  # characters of an error
# Becomes the program that it is told; Linux sends that SIGTERM when the process that began it dies.
_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_MPS = "CUDA_MPS_PIPE_DIRECTORY"


@dataclasses.dataclass(frozen=True)
class Job:
    """What a process does."""

    name: str
    command: Callable[[float | None], list[str]]
    """Its words, with the minutes that it may work; None if these are not limited."""
    log: Path
    """File that its output is added to."""
    folder: Path | None = None
    """Run directory, of which another process may be the writer."""
    needs: str | None = None
    """Name of a job that has to end first, if it is among those of the slice."""
    least: float = 1.0
    """Minutes of work that it is worth beginning for."""
    alone: bool = False
    """Nothing else may run meanwhile: it measures speed."""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


class Clock:
    """How much of a slice is left.

    Args:
        minutes: Of the slice; None if it ends when all is done.
        reserve: Minutes at its end for checkpoints and evaluations.
    """

    def __init__(self, minutes: float | None, reserve: float) -> None:
        self._deadline, self._reserve = Deadline(minutes), reserve
        self.limited = minutes is not None

    @property
    def minutes(self) -> float:
        """For work, up to the reserve."""
        return self._deadline.minutes_left - self._reserve

    @property
    def stopping(self) -> bool:
        """It is time to stop without an evaluation."""
        return self._is_near(_ASK)

    @property
    def over(self) -> bool:
        """Nothing may run any longer."""
        return self._is_near(_KILL)

    def _is_near(self, share: float) -> bool:
        return self._deadline.minutes_left < share * self._reserve + 2 * _POLL / 60


@dataclasses.dataclass(frozen=True)
class Watch:
    """Who is told what happens in a slice."""

    begun: Callable[[str], None] = lambda name: None
    spent: Callable[[str, float], None] = lambda name, minutes: None
    """So many more minutes have passed in a job; called often."""
    ended: Callable[[str, int, str | None], None] = lambda name, code, failure: None
    """With the code of its process, and what went wrong if it was not asked to stop."""
    left: Callable[[str, str], None] = lambda name, reason: None
    """A job was not begun."""


def work(jobs: Sequence[Job], clock: Clock, together: int, watch: Watch) -> int | None:
    """Runs jobs in their order, so many at a time. Gives the number of the signal that ended it, if any."""
    with _hearing() as signals:
        return _Slice(list(jobs), clock, together, watch, signals).run()


class _Slice:
    def __init__(
        self, jobs: list[Job], clock: Clock, together: int, watch: Watch, signals: list[int]
    ) -> None:
        self._waiting, self._clock, self._together, self._watch = jobs, clock, together, watch
        self._signals, self._running = signals, list[_Process]()
        self._failed: set[str] = set()
        self._began = time.monotonic()

    def run(self) -> int | None:
        try:
            while self._go_on():
                time.sleep(_POLL)
                self._note_ended()
                self._end_in_time()
        finally:  # if this program fails
            for process in self._running:
                process.ask()
            for process in self._running:
                process.wait(_PATIENCE)
        for job in self._waiting:
            self._watch.left(job.name, self._find_obstacle(job) or "its turn did not come")
        return self._signals[0] if self._signals else None

    def _go_on(self) -> bool:
        """Begins what can be begun; whether there is something to wait for."""
        while not self._signals and (job := self._choose()):
            self._waiting.remove(job)
            share = self._together > 1 and not job.alone
            minutes = self._clock.minutes if self._clock.limited else None
            self._running.append(_Process(job, job.command(minutes), share))
            self._watch.begun(job.name)
        if self._running:
            return True
        may_get_free = time.monotonic() - self._began < _PATIENCE and not self._signals
        return may_get_free and any(
            find_writer(job.folder) for job in self._waiting if self._is_worth_it(job)
        )

    def _choose(self) -> Job | None:
        """The first that can be begun now."""
        if len(self._running) >= self._together or any(process.job.alone for process in self._running):
            return None
        for job in self._waiting:
            if self._find_obstacle(job):
                continue
            if job.alone and self._running:
                return None  # or it would wait until all others are done
            return job
        return None

    def _find_obstacle(self, job: Job) -> str | None:
        """Why a job cannot be begun."""
        if not self._is_worth_it(job):
            return "there was no time left"
        unfinished = {other.name for other in self._waiting} | self._failed
        unfinished |= {process.job.name for process in self._running}
        if job.needs in unfinished:
            return f"it needs {job.needs}"
        return find_writer(job.folder)

    def _is_worth_it(self, job: Job) -> bool:
        return self._clock.minutes >= job.least

    def _note_ended(self) -> None:
        for process in list(self._running):
            code = process.poll()
            self._watch.spent(process.job.name, process.read_minutes())
            if code is None:
                continue
            self._running.remove(process)
            process.kill()  # what it began itself and left behind
            failure = None if process.asked or self._signals else process.describe_failure(code)
            if code:
                self._failed.add(process.job.name)
            self._watch.ended(process.job.name, code, failure)

    def _end_in_time(self) -> None:
        if self._signals or self._clock.stopping:
            for process in self._running:
                process.ask()
        if self._clock.over or self._signals.count(signal.SIGINT) > 1:
            for process in self._running:
                process.kill()


class _Process:
    def __init__(self, job: Job, command: list[str], share: bool) -> None:
        self.job, self.asked = job, False
        self._noted = time.monotonic()
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as log:
            log.write(f"{now()} {shlex.join(command)}\n".encode())
            log.flush()
            self._start = log.tell()
            self._popen = subprocess.Popen(
                _end_with_this(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_make_environment(job, share),
                process_group=0,  # Ctrl-C is for this process, which asks the others once
            )

    def poll(self) -> int | None:
        return self._popen.poll()

    def read_minutes(self) -> float:
        """Since this was last asked."""
        before, self._noted = self._noted, time.monotonic()
        return (self._noted - before) / 60

    def ask(self) -> None:
        """To save and stop."""
        if not self.asked:
            self.asked = True
            self._popen.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Until it has ended; it is killed if that takes longer."""
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """With its own processes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def describe_failure(self, code: int) -> str | None:
        """None if it did not fail: somebody else may have asked it to stop."""
        if code == 0 or code in _STOPPED:
            return None
        if code in _KILLED:
            return "it was killed, perhaps for want of memory"
        with self.job.log.open("rb") as log:
            log.seek(self._start)
            return find_error(log.read().decode(errors="replace")) or f"its process ended with code {code}"


def find_error(output: str) -> str | None:
    """The error that a program's output ends with, or its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"error: |[\w.]*(Error|Exception)\b", line)]
    return (errors or lines)[-1].removeprefix("error: ")[:_LONGEST] if lines else None


def find_writer(folder: Path | None) -> str | None:
    """The sentence that another process is writing to a folder, if one is."""
    if folder is None or not folder.exists():
        return None
    try:
        with sole_writer(folder):
            return None
    except (RuntimeError, OSError) as error:
        return str(error)


def _make_environment(job: Job, share: bool) -> dict[str, str]:
    environment = os.environ | job.environment
    if share:
        # Otherwise the first process takes most of the GPU's memory.
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if job.alone:
        environment.pop(_MPS, None)  # by which figures are known as those of a shared GPU
    return environment


def _end_with_this(command: list[str]) -> list[str]:
    """A command that is asked to save and stop also when this process is killed."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-IS", "-c", _WITH_PARENT, str(os.getpid()), *command]


@contextlib.contextmanager
def _hearing() -> Generator[list[int]]:
    """The numbers of the signals that come meanwhile and ask to stop."""
    signals: list[int] = []
    wanted = (signal.SIGTERM, signal.SIGINT)
    before = {
        number: signal.signal(number, lambda number, frame: signals.append(number)) for number in wanted
    }
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
