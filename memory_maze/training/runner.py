"""The loop of everything that trains: agents, and sequence models with their probes.

A `Job` knows what an update does and what a checkpoint holds. The runner makes the updates and sees
to the log, checkpoints, NaN, the time limit, Ctrl-C and SIGTERM, and several hosts.
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
from memory_maze.system.limits import check_above, check_least
from memory_maze.training.checkpoint import Checkpoints
from memory_maze.training.devices import is_first
from memory_maze.training.log import Log
from memory_maze.training.meter import Meter
from memory_maze.training.needs import Forecast, check_memory
from memory_maze.training.stopping import Deadline, RunStoppedError, StopRequest, Tell, check_finite

Metrics = dict[str, jax.Array]
Show = Callable[[dict[str, Any]], None]  # called with each line of metrics
Agree = Callable[[Sequence[bool]], Sequence[bool]]  # what any host wishes, of what this one does


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long a run trains, and how often it writes and saves."""

    steps: int
    seed: int = 0
    log_every: float = 10.0
    """Seconds between two lines of metrics."""
    save_every: float = 300.0
    """Seconds between two checkpoints."""
    minutes: float | None = None
    """Stop training after so long, to go on another time."""
    wandb: bool = False
    """Log to Weights & Biases too."""

    def __post_init__(self) -> None:
        check_least(0, steps=self.steps, log_every=self.log_every, save_every=self.save_every)
        check_above(0, minutes=self.minutes)
        check_seed(self.seed)


# What may be another in every call that trains a run.
FREE = {"steps", "log_every", "save_every", "minutes", "wandb"}


class Job(abc.ABC):
    """What is trained, in its folder."""

    unit: int = 1
    """Steps in an update."""
    what: str = "steps"
    """What steps are called."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain data: what config.json holds."""

    @property
    @abc.abstractmethod
    def devices(self) -> list[jax.Device]:
        """Of this host, that updates run on."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Refuses what cannot be trained. Nothing is in the folder yet."""

    @abc.abstractmethod
    def compile(self, checkpoints: Checkpoints, updates: int) -> jax.stages.Compiled | None:
        """The program of an update, for a run that is to have so many; None if it has them already.

        Writes nothing either, for the program may not fit into memory.
        """

    @abc.abstractmethod
    def begin(self, checkpoints: Checkpoints) -> int:
        """Begins the run, or goes on from its last checkpoint; how many updates it has."""

    @abc.abstractmethod
    def update(self) -> Metrics:
        """Makes one; may return before it is computed."""

    @abc.abstractmethod
    def save(self, checkpoints: Checkpoints) -> None:
        """Writes a checkpoint."""

    def score(self) -> dict[str, float]:
        """Figures for the log that not every update has, if it is time for them; asked after each one."""
        return {}

    def close(self) -> None:  # noqa: B027 as most have nothing to close
        """Frees what it has opened."""


def run_job(
    job: Job,
    schedule: Schedule,
    out: Path,
    show: Show = lambda metrics: None,
    tell: Tell = lambda sentence: None,
    agree: Agree = lambda wishes: wishes,
) -> None:
    """Trains until the steps are made, or the minutes are over; goes on where an earlier call stopped.

    How long it takes, and that it will stop, is told in sentences; each line of metrics is shown.

    Raises `RunStoppedError` after Ctrl-C or SIGTERM on any host, and another `RuntimeError` if a loss is NaN.
    In both cases the folder holds a checkpoint to go on from. Raises `KeyboardInterrupt` if there was nothing
    to save yet.
    """
    stop = StopRequest(tell)
    stop.worth_saving = jax.process_count() > 1  # or the others would wait for this host
    runner = _Runner(job, schedule, out, show, tell, agree, stop, Deadline(schedule.minutes))
    stop.heed(runner.run)


def check_same(out: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """A folder holds one run: refuses another."""
    for key, value in new.items():
        if old.get(key) != value:
            raise ValueError(
                f"{out}: its run has {key} {old.get(key)}, not {value}: choose another directory"
            )


class _Wishes(NamedTuple):
    """What is due, or asked for."""

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
        with Forecast(len(updates), job.what, unit, self.tell) as forecast:
            for update in updates:
                metrics = job.update()
                meter.add(metrics)
                forecast.note(metrics)
                if stop.given_up:
                    raise KeyboardInterrupt
                stop.worth_saving = True
                save_due = time.perf_counter() - saved > self.schedule.save_every
                # Once: what is asked for from now on is for the next update.
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
