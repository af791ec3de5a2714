"""The training loop for agents, and for sequence models with their probes.

A `Job` defines an update and the contents of a checkpoint. The runner performs updates and handles logging,
checkpoints, NaN, the time limit, Ctrl-C and SIGTERM, and several hosts.
"""

import abc
import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from memory_maze.sampler import check_seed
from memory_maze.system.cpu import return_memory
from memory_maze.system.limits import check_above, check_least
from memory_maze.training.checkpoint import Checkpoints
from memory_maze.training.devices import is_first
from memory_maze.training.log import Log
from memory_maze.training.meter import Meter
from memory_maze.training.needs import Forecast, check_memory
from memory_maze.training.stopping import Deadline, RunStoppedError, StopRequest, Tell, check_finite

Metrics = dict[str, jax.Array]
Show = Callable[[dict[str, Any]], None]  # receives each line of metrics
Agree = Callable[[Sequence[bool]], Sequence[bool]]  # combines the wishes of all hosts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long to train, and how often to log and save."""

    steps: int
    seed: int = 0
    log_every: float = 10.0
    """Seconds between lines of metrics."""
    save_every: float = 300.0
    """Seconds between checkpoints."""
    minutes: float | None = None
    """Stop training after this many minutes."""
    wandb: bool = False
    """Also log to Weights & Biases."""

    def __post_init__(self) -> None:
        check_least(0, steps=self.steps, log_every=self.log_every, save_every=self.save_every)
        check_above(0, minutes=self.minutes)
        check_seed(self.seed)


# What may differ when a run is resumed.
FREE = {"steps", "log_every", "save_every", "minutes", "wandb"}


class Job(abc.ABC):
    """What to train."""

    unit: int = 1
    """Steps per update."""
    what: str = "steps"
    """Name of the steps in messages."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the contents of config.json."""

    @property
    @abc.abstractmethod
    def devices(self) -> list[jax.Device]:
        """Devices of this host that updates run on."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Validates the job before anything is written."""

    @abc.abstractmethod
    def compile(self, checkpoints: Checkpoints, updates: int) -> jax.stages.Compiled | None:
        """Compiles the program of an update, for a run of `updates` updates; None if all of them are done.

        Writes nothing, since the program may not fit into memory.
        """

    @abc.abstractmethod
    def begin(self, checkpoints: Checkpoints) -> int:
        """Starts the run, or resumes its last checkpoint; returns the number of updates so far."""

    @abc.abstractmethod
    def update(self) -> Metrics:
        """Performs an update; may return before it is computed."""

    @abc.abstractmethod
    def save(self, checkpoints: Checkpoints) -> None:
        """Writes a checkpoint."""

    def score(self) -> dict[str, float]:
        """Returns additional metrics when due; called after each update."""
        return {}

    def close(self) -> None:  # noqa: B027 as most have nothing to close
        """Releases resources."""


def run_job(
    job: Job,
    schedule: Schedule,
    out: Path,
    show: Show = lambda metrics: None,
    tell: Tell = lambda sentence: None,
    agree: Agree = lambda wishes: wishes,
) -> None:
    """Trains until all steps are done or the time is over; resumes where an earlier call stopped.

    Args:
        job: What to train.
        schedule: How long to train, and how often to log and save.
        out: Run directory.
        show: Called with each line of metrics.
        tell: Called with messages, such as the expected duration.
        agree: Combines the wishes of all hosts.

    Raises:
        RunStoppedError: After Ctrl-C or SIGTERM on any host. The run directory has a checkpoint to resume.
        RuntimeError: If a loss is NaN. The last checkpoint precedes it.
        KeyboardInterrupt: If stopped before there was anything to save.
    """
    stop = StopRequest(tell)
    stop.worth_saving = jax.process_count() > 1  # or the others would wait for this host
    runner = _Runner(job, schedule, out, show, tell, agree, stop, Deadline(schedule.minutes))
    stop.heed(runner.run)


def check_same(out: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises a `ValueError` if the directory holds a run with another configuration."""
    for key, value in new.items():
        if old.get(key) != value:
            raise ValueError(
                f"{out}: its run has {key} {old.get(key)}, not {value}: choose another directory"
            )


class _Wishes(NamedTuple):
    """What is due or requested."""

    write: bool
    save: bool
    stop: bool
    end: bool


@dataclasses.dataclass(frozen=True)
class _Runner:
    job: Job
    schedule: Schedule
    out: Path
    show: Show
    tell: Tell
    agree: Agree
    stop: StopRequest
    deadline: Deadline

    def run(self) -> None:
        began, job, unit = time.perf_counter(), self.job, self.job.unit
        updates = math.ceil(self.schedule.steps / unit)
        with contextlib.ExitStack() as stack:
            job.prepare()
            checkpoints = stack.enter_context(contextlib.closing(Checkpoints(self.out / "checkpoints")))
            stack.enter_context(contextlib.closing(job))
            compiling = time.perf_counter()
            program = job.compile(checkpoints, updates)
            compile_seconds = time.perf_counter() - compiling
            return_memory()
            if program is not None:
                check_memory(program, job.devices, self.tell)
            made = job.begin(checkpoints)
            log = None
            if is_first():
                described = job.describe() if self.schedule.wandb else None
                log = stack.enter_context(contextlib.closing(Log(self.out, made * unit, described)))
            before = log.seconds if log else 0.0
            meter = Meter(self.schedule.log_every, unit, made * unit, began - before, compile_seconds)
            if made < updates:
                self._go_on(range(made + 1, updates + 1), checkpoints, log, meter)

    def _go_on(self, updates: range, checkpoints: Checkpoints, log: Log | None, meter: Meter) -> None:
        job, stop, unit = self.job, self.stop, self.job.unit
        saved = time.perf_counter()
        left = self.deadline.minutes_left
        with Forecast(len(updates), job.what, unit, self.tell, left) as forecast:
            for update in updates:
                metrics = job.update()
                meter.add(metrics)
                forecast.note(metrics)
                if stop.given_up:
                    raise KeyboardInterrupt
                stop.worth_saving = True
                save_due = time.perf_counter() - saved > self.schedule.save_every
                # Read once: later requests are for the next update.
                mine = _Wishes(meter.due, save_due, stop.asked, self.deadline.passed)
                wishes, last = _Wishes(*self.agree(mine)), update == updates[-1]
                scores = job.score()
                if scores or last or any(wishes):
                    self._write(log, meter.read() | scores)
                if last or wishes.save or wishes.stop or wishes.end:
                    job.save(checkpoints)
                    saved = time.perf_counter()
                if wishes.stop and not last:
                    text = f"saved after {update * unit:,} steps; run it again to resume: {self.out}"
                    raise RunStoppedError(text, stop.signal_number)
                if wishes.end:
                    break

    def _write(self, log: Log | None, line: dict[str, Any]) -> None:
        check_finite(line)
        if log:
            log.write(line)
            self.show(line)
