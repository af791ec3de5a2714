"""Trains an agent from start to end: `memory-maze train`."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.folder import CONFIG, read_config
from memory_maze.agents.network import read_agent
from memory_maze.agents.protocol import Network
from memory_maze.agents.registry import name_agent
from memory_maze.agents.weights import save_agent
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.sampler import check_seed
from memory_maze.system.limits import check_above, check_least
from memory_maze.system.programs import cache_programs
from memory_maze.tasks import parse_task
from memory_maze.training.checkpoint import Checkpoints
from memory_maze.training.devices import (
    Agreement,
    check_same_on_all,
    check_shared,
    is_first,
    local_copy,
    make_mesh,
    place,
    put_on_all,
)
from memory_maze.training.log import Log
from memory_maze.training.loop import LAYOUT, Program, Training, begin, compile_iterate
from memory_maze.training.meter import Meter
from memory_maze.training.needs import Forecast, check_memory
from memory_maze.training.stopping import Deadline, RunStoppedError, StopRequest, Tell, check_finite

Show = Callable[[dict[str, Any]], None]  # called with each line of metrics


@dataclasses.dataclass(frozen=True)
class Run:
    """What is trained, and for how long."""

    task: str
    agent: AgentConfig
    steps: int = 100_000_000
    """Actions in all mazes together."""
    seed: int = 0
    """Of the network, the mazes and the actions."""
    layouts: int | None = None
    """How many layouts to train in; by default enough for 100 million steps."""
    log_every: float = 10.0
    """Seconds between two lines of metrics."""
    save_every: float = 300.0
    """Seconds between two checkpoints."""
    minutes: float | None = None
    """Stop training after so long, to go on another time."""

    def __post_init__(self) -> None:
        check_least(1, steps=self.steps, layouts=self.layouts)
        check_least(0, log_every=self.log_every, save_every=self.save_every)
        check_above(0, minutes=self.minutes)
        check_seed(self.seed)

    def describe(self) -> dict[str, Any]:
        """Plain data, for config.json."""
        described = {"algorithm": name_agent(type(self.agent))} | dataclasses.asdict(self)
        return described | {"agent": self.agent.describe()}


def train(
    run: Run,
    out: Path,
    show: Show = lambda metrics: None,
    devices: Sequence[jax.Device] | None = None,
    tell: Tell = lambda sentence: None,
) -> Network:
    """Trains until the run's steps are made, or its minutes are over; goes on where an earlier call stopped.

    It runs on some devices, or on all of all hosts; an earlier call may have had others. Each host calls it
    with the same arguments and a folder that they share; only the first one shows and writes metrics.
    What the run needs, and that it will stop, is told in sentences.

    Raises `RunStoppedError` after Ctrl-C or SIGTERM on any host, and another `RuntimeError` if a loss is NaN.
    In both cases the folder holds a checkpoint to go on from. Raises `KeyboardInterrupt` if there was nothing
    to save yet.
    """
    began = time.perf_counter()
    cache_programs()
    mesh = make_mesh(devices)
    check_same_on_all(run.describe())
    check_shared(out)
    env = Env(parse_task(run.task), image_only_obs=True, layouts=run.layouts)
    batch = put_on_all(mesh, Batch(env, run.agent.num_envs))
    _check_same(run, out)
    stop = StopRequest(tell)
    stop.worth_saving = jax.process_count() > 1  # or the others would wait for this host
    job = _Job(run, out, batch, mesh, show, tell, stop, Deadline(run.minutes), began)
    return stop.heed(job.train)


@dataclasses.dataclass(frozen=True)
class _Job:
    """A call of `train`, when everything is known."""

    run: Run
    out: Path
    batch: Batch
    mesh: Mesh
    show: Show
    tell: Tell
    stop: StopRequest
    deadline: Deadline
    began: float

    def train(self) -> Network:
        run, out = self.run, self.out
        key = put_on_all(self.mesh, jax.random.key(run.seed))
        # Also refuses what cannot be trained, before anything is written.
        shapes = jax.eval_shape(functools.partial(begin, config=run.agent, mesh=self.mesh), key, self.batch)
        shapes = place(self.mesh, LAYOUT, shapes)
        checkpoints = Checkpoints(out / "checkpoints")
        check_same_on_all({"the latest checkpoint": checkpoints.latest})
        compiling = time.perf_counter()
        updates = range(checkpoints.latest or 0, math.ceil(run.steps / run.agent.steps_per_update))
        program = compile_iterate(shapes, self.batch, run.agent, self.mesh) if updates else None
        compile_seconds = time.perf_counter() - compiling
        if program:
            check_memory(program, self.mesh.local_devices)
        if checkpoints.latest is None:
            training = begin(key, self.batch, run.agent, self.mesh)
        else:
            training = checkpoints.restore(shapes)
        saver = _Saver(run, out, checkpoints)
        saver.save_weights(training)
        unit, steps = run.agent.steps_per_update, int(training.steps) * run.agent.steps_per_update
        log = Log(out, steps) if is_first() else None
        before = log.seconds if log else 0.0
        meter = Meter(run.log_every, unit, steps, self.began - before, compile_seconds)
        try:
            if program:
                training = self._go_on(training, updates, program, _Writer(log, self.show), saver, meter)
        finally:
            checkpoints.close()
            if log:
                log.close()
        return local_copy(training.network)

    def _go_on(
        self,
        training: Training,
        updates: range,
        program: Program,
        write: "_Writer",
        saver: "_Saver",
        meter: Meter,
    ) -> Training:
        run, stop, agree = self.run, self.stop, Agreement(self.mesh)
        with Forecast(len(updates), "steps", run.agent.steps_per_update, self.tell) as forecast:
            for _ in updates:
                training, metrics = program(training, self.batch)
                meter.add(metrics)
                forecast.note(metrics)
                if stop.given_up:
                    raise KeyboardInterrupt
                stop.worth_saving = True
                wishes = _Wishes(*agree(_Wishes(meter.due, saver.due, stop.asked, self.deadline.passed)))
                if any(wishes):
                    write(meter.read())
                if wishes.save or wishes.stop:
                    saver.save(training)
                if wishes.stop:
                    steps = int(training.steps) * run.agent.steps_per_update
                    text = f"saved after {steps:,} steps; run it again to go on: {saver.out}"
                    raise RunStoppedError(text, stop.signal_number)
                if wishes.end:
                    break
        if meter.pending:
            write(meter.read())
        saver.save(training)
        return training


def _check_same(run: Run, out: Path) -> None:
    """A folder holds one run; it may be made longer."""
    if not (out / CONFIG).exists():
        return
    described = read_config(out)
    name = name_agent(type(run.agent))
    if not isinstance(described, dict) or described.get("algorithm") != name:
        raise ValueError(f"{out}: there is another kind of run in it: choose another folder")
    if former := run.agent.former_version(described["agent"]):
        raise ValueError(f"{out}: its run is of a {former}: choose another folder to train anew")
    old = {key: described.get(key) for key in ("task", "seed", "layouts")}
    old |= read_agent(described, out).settings()
    new = {"task": run.task, "seed": run.seed, "layouts": run.layouts} | run.agent.settings()
    for key, value in new.items():
        if old.get(key) != value:
            raise ValueError(f"{out}: its run has {key} {old[key]} and not {value}: choose another folder")


@dataclasses.dataclass
class _Saver:
    run: Run
    out: Path
    checkpoints: Checkpoints
    saved: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def due(self) -> bool:
        return time.perf_counter() - self.saved > self.run.save_every

    def save(self, training: Training) -> None:
        self.checkpoints.save(int(training.steps), training)
        self.save_weights(training)
        self.saved = time.perf_counter()

    def save_weights(self, training: Training) -> None:
        if is_first():
            save_agent(self.out, training.network, self.run.describe())


class _Wishes(NamedTuple):
    """What is due, or asked for."""

    write: bool
    save: bool
    stop: bool
    end: bool


@dataclasses.dataclass
class _Writer:
    """Writes and shows metrics, on the first host."""

    log: Log | None
    show: Show

    def __call__(self, line: dict[str, Any]) -> None:
        check_finite(line)
        if self.log:
            self.log.write(line)
            self.show(line)
