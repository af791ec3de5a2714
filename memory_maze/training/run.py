"""Training of agents: `memory-maze train`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.folder import CONFIG, read_config, read_environment
from memory_maze.agents.load import check_pictures
from memory_maze.agents.network import read_agent
from memory_maze.agents.protocol import Network
from memory_maze.agents.registry import name_agent
from memory_maze.agents.weights import save_agent
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.options import DEFAULT, Options
from memory_maze.results.schema import ONLINE
from memory_maze.system.limits import check_least
from memory_maze.system.programs import cache_programs
from memory_maze.system.video import import_pictures
from memory_maze.tasks import Task, parse_task
from memory_maze.training import off_policy, on_policy
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
from memory_maze.training.runner import FREE, Job, Metrics, Schedule, Show, check_same, run_job
from memory_maze.training.stopping import Tell
from memory_maze.training.strips import LENGTH, ROWS, SEEN, write_strip
from memory_maze.variants import check_playable, describe_variant, name_task

# The training programs of agents, each a module with LAYOUT, begin and compile_iterate.
PROGRAMS: dict[str, ModuleType] = {"sequences": on_policy, "replay": off_policy}


@dataclasses.dataclass(frozen=True)
class Run(Schedule):
    """What to train, and for how long."""

    task: str | Task
    agent: AgentConfig
    steps: int = dataclasses.field(default=100_000_000, kw_only=True)
    """Total number of actions in all environments."""
    layouts: int | None = None
    """Number of layouts to train on; by default enough for 100 million steps."""
    options: Options = DEFAULT
    """Variant of the task."""
    strips: bool = False
    """Write a strip of what the world model imagines at each checkpoint."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(1, steps=self.steps, layouts=self.layouts)
        check_playable(self.parsed_task, self.options)
        check_pictures("an agent", self.options)
        if self.strips:
            _check_strips(self.agent, self.parsed_task.episode_steps(self.options.control_freq) + 1)

    @property
    def parsed_task(self) -> Task:
        return parse_task(self.task) if isinstance(self.task, str) else self.task

    def describe(self) -> dict[str, Any]:
        """Returns the contents of config.json."""
        values = {key: getattr(self, key) for key in ("seed", "layouts", *sorted(FREE))}
        where = {"task": self.parsed_task.name} | describe_variant(self.parsed_task, self.options)
        made = {
            "kind": ONLINE,
            "algorithm": name_agent(type(self.agent)),
            "loss_version": self.agent.loss_version,
        }
        return made | where | values | {"agent": self.agent.describe()}


def train(
    run: Run,
    out: Path,
    show: Show = lambda metrics: None,
    devices: Sequence[jax.Device] | None = None,
    tell: Tell = lambda sentence: None,
) -> Network:
    """Trains an agent until all steps are done or the time is over; resumes where an earlier call stopped.

    Call it on each host with the same arguments and a shared directory. Only the first host shows and writes
    metrics.

    Args:
        run: What to train.
        out: Run directory.
        show: Called with each line of metrics.
        devices: By default all devices of all hosts; they may differ from those of an earlier call.
        tell: Called with messages, such as the required memory.

    Raises:
        The same as `run_job`.
    """
    cache_programs()
    mesh = make_mesh(devices)
    check_same_on_all(run.describe())
    check_shared(out)
    options: dict[str, Any] = dataclasses.asdict(run.options) | {"image_only_obs": True}
    env = Env(run.parsed_task, layouts=run.layouts, **options)
    batch = put_on_all(mesh, Batch(env, run.agent.num_envs))
    check_resumed(run, out, mesh.size)
    job = _AgentJob(run, out, batch, mesh)
    run_job(job, run, out, show, tell, Agreement(mesh))
    return local_copy(job.training.network)


class _AgentJob(Job):
    """An agent that acts and trains in a single program."""

    def __init__(self, run: Run, out: Path, batch: Batch, mesh: Mesh) -> None:
        self._run, self._out, self._batch, self._mesh = run, out, batch, mesh
        self._program = PROGRAMS[run.agent.learns_from]
        self.unit = run.agent.steps_per_iteration

    def describe(self) -> dict[str, Any]:
        described = self._run.describe()
        if self._run.agent.learns_from == "replay":  # each device has its part of it
            described["devices"] = self._mesh.size
        return described

    @property
    def devices(self) -> list[jax.Device]:
        return self._mesh.local_devices

    def prepare(self) -> None:
        self._shapes = place(self._mesh, self._program.LAYOUT, jax.eval_shape(self._begin))

    def compile(self, checkpoints: Checkpoints, updates: int) -> jax.stages.Compiled | None:
        check_same_on_all({"the latest checkpoint": checkpoints.latest})
        if (checkpoints.latest or 0) >= updates:
            return None
        self._iterate = self._program.compile_iterate(self._shapes, self._batch, self._run.agent, self._mesh)
        return self._iterate

    def begin(self, checkpoints: Checkpoints) -> int:
        self.training = checkpoints.restore(self._shapes) if checkpoints.latest else self._begin()
        self._save_weights()
        return checkpoints.latest or 0

    def _begin(self) -> Any:
        key = put_on_all(self._mesh, jax.random.key(self._run.seed))
        return self._program.begin(key, self._batch, self._run.agent, self._mesh)

    def update(self) -> Metrics:
        self.training, metrics = self._iterate(self.training, self._batch)
        return metrics

    def save(self, checkpoints: Checkpoints) -> None:
        step = int(self.training.steps)
        checkpoints.save(step, self.training)
        self._save_weights()
        if self._run.strips:
            self._write_strip(step)

    def _write_strip(self, step: int) -> None:
        key = put_on_all(self._mesh, jax.random.fold_in(jax.random.key(self._run.seed), step))
        config, mesh = self._run.agent, self._mesh
        windows = self._program.sample_windows(self.training, self._batch, config, mesh, LENGTH, key)
        if windows is None or not is_first():
            return
        windows = jax.tree.map(lambda leaf: leaf.addressable_data(0)[:, :ROWS], windows)
        network = local_copy(self.training.network)
        images = eqx.filter_jit(config.load().predict)(network, windows, SEEN, local_copy(key))
        path = self._out / "open-loop" / f"{step * self.unit:012}.png"
        write_strip(path, np.asarray(images), np.asarray(windows.image))

    def _save_weights(self) -> None:
        if is_first():
            save_agent(self._out, self.training.network, self.describe())


def _check_strips(agent: AgentConfig, images: int) -> None:
    if not hasattr(agent.load(), "predict"):
        raise ValueError(f"{agent.title} has no world model, whose images strips would show")
    if images < LENGTH:
        raise ValueError(f"strips are of {LENGTH} images, and an episode has {images}: leave them out")
    import_pictures()


def find_devices(out: Path) -> int | None:
    """On how many devices the run in a directory must be resumed; None if any number will do."""
    if not (out / CONFIG).exists():
        return None
    described = read_config(out)
    return described.get("devices") if isinstance(described, dict) else None


def check_resumed(run: Run, out: Path, devices: int) -> None:
    """Raises a `ValueError` if a directory holds a run that this one cannot resume."""
    if not (out / CONFIG).exists():
        return
    old, new = read_config(out), run.describe()
    if not isinstance(old, dict) or old.get("algorithm") != new["algorithm"]:
        raise ValueError(f"{out}: it holds another kind of run: choose another directory")
    if former := run.agent.former_version(old["agent"]):
        raise ValueError(f"{out}: its run uses a {former}: choose another directory for a new run")
    if (wanted := find_devices(out)) not in (None, devices):
        raise ValueError(
            f"{out}: its replay is spread over {wanted} devices: resume it on as many, not on {devices}"
        )
    where = name_task(run.parsed_task, run.options)
    check_same(out, {"task": name_task(*read_environment(out))}, {"task": where})
    check_same(out, old, {key: new[key] for key in ("seed", "layouts")})
    check_same(out, read_agent(old, out).settings(), run.agent.settings())
