"""Trains an agent from start to end: `memory-maze train impala`."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jax.sharding import Mesh

from memory_maze.agents.impala import Network
from memory_maze.agents.presets import Config
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.engine.programs import cache_programs
from memory_maze.tasks import parse_task
from memory_maze.training.checkpoint import Checkpoints, load_weights, read_config, save_agent
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
from memory_maze.training.loop import LAYOUT, Training, begin, iterate
from memory_maze.training.meter import Meter
from memory_maze.training.names import CONFIG
from memory_maze.training.stopping import RunStoppedError, StopRequest, check_finite

Show = Callable[[dict[str, Any]], None]  # called with each line of metrics


@dataclasses.dataclass(frozen=True)
class Run:
    """What is trained, and for how long."""

    task: str
    agent: Config
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

    @property
    def iteration_steps(self) -> int:
        return self.agent.environments * self.agent.length

    def describe(self) -> dict[str, Any]:
        """Plain data, for config.json."""
        return {"algorithm": "impala"} | dataclasses.asdict(self)


def train(
    run: Run,
    out: Path,
    show: Show = lambda metrics: None,
    devices: Sequence[jax.Device] | None = None,
) -> Network:
    """Trains until the run's steps are made; goes on where an earlier call stopped.

    It runs on some devices, or on all of all hosts; an earlier call may have had others. Each host calls it
    with the same arguments and a folder that they share; only the first one shows and writes metrics.

    Raises `RunStoppedError` after Ctrl-C or SIGTERM on any host, and another `RuntimeError` if a loss is no
    number. In both cases the folder holds a checkpoint to go on from.
    """
    began = time.perf_counter()
    cache_programs()
    mesh = make_mesh(devices)
    check_same_on_all(run.describe())
    check_shared(out)
    env = Env(parse_task(run.task), image_only_obs=True, layouts=run.layouts)
    batch = put_on_all(mesh, Batch(env, run.agent.environments))
    _check_same(run, out)
    key = put_on_all(mesh, jax.random.key(run.seed))
    # Also refuses what cannot be trained, before anything is written.
    shapes = jax.eval_shape(functools.partial(begin, config=run.agent, mesh=mesh), key, batch)
    checkpoints = Checkpoints(out / "checkpoints")
    check_same_on_all({"the latest checkpoint": checkpoints.latest})
    if checkpoints.latest is None:
        training = begin(key, batch, run.agent, mesh)
    else:
        training = checkpoints.restore(place(mesh, LAYOUT, shapes))
    saver = _Saver(run, out, checkpoints)
    saver.save_weights(training)
    steps = int(training.steps)
    log = Log(out, steps * run.iteration_steps) if is_first() else None
    unit = run.iteration_steps
    meter = Meter(run.log_every, unit, steps * unit, began - (log.seconds if log else 0.0))
    try:
        training = _go_on(run, training, batch, mesh, _Teller(log, show), saver, meter)
    finally:
        checkpoints.close()
        if log:
            log.close()
    return local_copy(training.network)


def _check_same(run: Run, out: Path) -> None:
    """A folder holds one run; it may be made longer."""
    if not (out / CONFIG).exists():
        return
    described = read_config(out)
    if "time_limit" not in described["agent"]:
        raise ValueError(
            f"{out}: its run began with a former V-trace, which learned wrongly at the time limit: "
            "choose another folder to train anew"
        )
    old = {key: described.get(key) for key in ("task", "seed", "layouts")}
    old |= dataclasses.asdict(_read_agent(described, out))
    new = {"task": run.task, "seed": run.seed, "layouts": run.layouts} | dataclasses.asdict(run.agent)
    for key, value in new.items():
        if old[key] != value:
            raise ValueError(f"{out}: its run has {key} {old[key]} and not {value}: choose another folder")


def _read_agent(described: dict[str, Any], folder: Path) -> Config:
    """The agent's values; those that came later are what they were before there was a choice."""
    values = dict(described["agent"])
    if unknown := values.keys() - {field.name for field in dataclasses.fields(Config)}:
        raise ValueError(f"{folder}: {min(unknown)} is unknown: a newer version of the package made it")
    values["channels"] = tuple(values["channels"])
    return Config(**values)


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

    tell: bool
    save: bool
    stop: bool


def _go_on(
    run: Run, training: Training, batch: Batch, mesh: Mesh, tell: "_Teller", saver: _Saver, meter: Meter
) -> Training:
    agree = Agreement(mesh)
    with StopRequest() as stop:
        for _ in range(int(training.steps), math.ceil(run.steps / run.iteration_steps)):
            training, metrics = iterate(training, batch, run.agent, mesh)
            meter.add(metrics)
            wishes = _Wishes(*agree(_Wishes(meter.due, saver.due, stop.asked)))
            if any(wishes):
                tell(meter.read())
            if wishes.save or wishes.stop:
                saver.save(training)
            if wishes.stop:
                steps = int(training.steps) * run.iteration_steps
                raise RunStoppedError(f"saved after {steps:,} steps; run it again to go on: {saver.out}")
    if meter.pending:
        tell(meter.read())
    saver.save(training)
    return training


@dataclasses.dataclass
class _Teller:
    """Writes and shows metrics, on the first host."""

    log: Log | None
    show: Show

    def __call__(self, line: dict[str, Any]) -> None:
        check_finite(line)
        if self.log:
            self.log.write(line)
            self.show(line)


def load_network(folder: Path) -> tuple[Network, dict[str, Any]]:
    """A trained network and what config.json says of it."""
    described = read_config(folder)
    template = eqx.filter_eval_shape(Network, jax.random.key(0), _read_agent(described, folder))
    return load_weights(folder, template), described
