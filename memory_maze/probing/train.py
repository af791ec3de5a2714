"""Trains a sequence model and the probes of its state: `memory-maze probe`.

In each step the model learns from a batch, and the probes from its states, without a way back for their
gradients. So what the probes know is what the model kept for its own sake.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.agents.folder import CONFIG, read_config
from memory_maze.agents.load import check_pictures
from memory_maze.data.dataset import Batches, Dataset
from memory_maze.data.order import check_sizes
from memory_maze.paper import TARGETS, Target
from memory_maze.probing import baselines
from memory_maze.probing.agent import check_variant, describe_agent, load_agent
from memory_maze.probing.check import ModelError, check_model
from memory_maze.probing.config import INTERLEAVE, ProbeConfig
from memory_maze.probing.evaluate import evaluate, make_sequence, summarize, time_first
from memory_maze.probing.model import SequenceModel, find_maker, initial_carry
from memory_maze.probing.probe import KEYS, Probe, make_truth
from memory_maze.results.probing import LOSS_VERSION
from memory_maze.results.schema import PROBING
from memory_maze.system.files import replacing
from memory_maze.system.limits import check_above, check_least
from memory_maze.system.programs import cache_programs
from memory_maze.tasks import parse_task
from memory_maze.training.checkpoint import Checkpoints
from memory_maze.training.devices import launch_options
from memory_maze.training.runner import FREE, Job, Metrics, Schedule, Show, check_same, run_job
from memory_maze.training.stopping import Tell
from memory_maze.variants import describe_variant

POSITION = "position-{}.json"  # in the data, at a checkpoint
_FREE = {"score_every", "score_on", "kind", "loss_version"}  # what else may differ when a run is resumed


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW as in the paper's tables."""

    learning_rate: float = 3e-4
    epsilon: float = 1e-5
    weight_decay: float = 1e-2
    max_gradient: float = 200.0
    """Clip gradients to this norm."""

    def __post_init__(self) -> None:
        check_above(0, learning_rate=self.learning_rate, epsilon=self.epsilon)
        check_above(0, max_gradient=self.max_gradient)
        check_least(0, weight_decay=self.weight_decay)


@dataclasses.dataclass(frozen=True)
class Run(Schedule):
    """What to train, and for how long."""

    model: str
    """Name of a baseline, directory of a trained agent, or package.module:Name."""
    settings: baselines.Config | None = None
    """Hyperparameters of a baseline."""
    targets: tuple[Target, ...] = TARGETS
    probe: ProbeConfig = dataclasses.field(default_factory=ProbeConfig)
    depths: tuple[int, ...] = ()
    """Hidden layers of additional probes with the same targets: the paper's ablation."""
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    steps: int = dataclasses.field(default=1_000_000, kw_only=True)
    """Gradient steps."""
    batch: int = 32
    """Batch size."""
    time: int = 48
    """Sequence length."""
    interleave: int = INTERLEAVE
    """Number of batches of different trajectories that alternate, for models trained with TBTT."""
    score_every: int = 10_000
    """Gradient steps between evaluations for the learning curve."""
    score_on: int = 64
    """Number of trajectories in these evaluations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(1, score_every=self.score_every, score_on=self.score_on)
        check_sizes(batch=self.batch, time=self.time, interleave=self.interleave)
        if any(depth < 0 for depth in self.depths):
            raise ValueError(f"depths must be numbers of hidden layers, from 0: got {self.depths}")

    def describe(self, train_set: Dataset) -> dict[str, Any]:
        """Returns the contents of config.json, for a run on this data."""
        data = {"size": train_set.size, "trajectories": len(train_set), "seeds": train_set.seeds[:3]}
        made = {"kind": PROBING, "loss_version": LOSS_VERSION}
        which = describe_agent(self.model)
        return made | dataclasses.asdict(self) | which | describe_mazes(train_set) | {"data": data}


def describe_mazes(dataset: Dataset) -> dict[str, Any]:
    """What a data set has other than the benchmark's of its size: nothing, as a rule."""
    task = parse_task(f"{dataset.size}x{dataset.size}", dataset.objects)
    return describe_variant(task, dataset.options)


class Learning(NamedTuple):
    """Everything that is needed to resume a run, except for the position in the data."""

    model: SequenceModel
    optimizer: Any
    probes: dict[str, Probe]
    probe_optimizer: Any
    carry: Any  # of each of the interleaved batches
    steps: jax.Array  # () int32


def make_model(run: Run, key: jax.Array) -> SequenceModel:
    """The run's model with new weights."""
    if run.model in baselines.MODELS:
        return baselines.MODELS[run.model](key, run.settings or baselines.PRESETS["paper"])
    if (agent := load_agent(run.model)) is not None:
        return agent
    if ":" not in run.model:
        names = ", ".join(["constant", *baselines.MODELS])
        raise ValueError(
            f"unknown model {run.model!r}: choose from {names}, the directory of an agent, or your own as "
            "package.module:Name"
        )
    model = find_maker(run.model)(key)
    if not isinstance(model, SequenceModel):
        raise ModelError(f"{run.model} does not make a SequenceModel: see memory_maze.probing.model")
    return model


def begin(run: Run, size: int, objects: int) -> Learning:
    """A new run on mazes of so many cells and objects."""
    model_key, *probe_keys = jax.random.split(jax.random.key(run.seed), 1 + len(TARGETS))
    # Asked before anything is computed: Python waits for that when it ends.
    if eqx.filter_eval_shape(make_model, run, model_key).supervised:
        _check_supervised(run)
    model = make_model(run, model_key)
    keys = dict(zip(TARGETS, probe_keys, strict=True))
    dtype = run.settings.dtype if run.settings else jnp.float32

    def make_probe(target: Target, key: jax.Array, config: ProbeConfig) -> Probe:
        return Probe(key, target, model.state_size, size, objects, config, dtype)

    probes: dict[str, Probe] = {target: make_probe(target, keys[target], run.probe) for target in run.targets}
    for target in run.targets:
        for depth in run.depths:
            config = dataclasses.replace(run.probe, layers=depth)
            key = jax.random.fold_in(keys[target], depth)
            probes[name_depth(target, depth)] = make_probe(target, key, config)
    return Learning(
        model,
        _optimizer(run.optimizer).init(eqx.filter(model, eqx.is_inexact_array)),
        probes,
        _probe_optimizer(run.probe).init(eqx.filter(probes, eqx.is_inexact_array)),
        initial_carry(model, count_turns(run, model), run.batch),
        jnp.int32(0),
    )


def count_turns(run: Run, model: SequenceModel) -> int:
    """Batches of different trajectories."""
    return run.interleave if model.carries else 1


def name_depth(target: str, depth: int) -> str:
    """Of a further probe."""
    return f"{target}_{depth}"


def _check_supervised(run: Run) -> None:
    if len(run.targets) > 1:
        raise ValueError(f"{run.model} is trained by its probe: choose one of {' and '.join(run.targets)}")
    if run.depths:
        raise ValueError(
            f"{run.model} is trained by its probe: probes of other depths {run.depths} are not possible"
        )


def _optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    return optax.chain(
        optax.clip_by_global_norm(config.max_gradient),
        optax.adamw(config.learning_rate, eps=config.epsilon, weight_decay=config.weight_decay),
    )


def _probe_optimizer(config: ProbeConfig) -> optax.GradientTransformation:
    return optax.adam(config.learning_rate, eps=config.epsilon)


class Learner:
    """Makes the gradient steps of a run.

    Keeps its arrays in a list: to take a model apart and to put it together costs Python time in every step.
    """

    def __init__(self, run: Run, learning: Learning) -> None:
        arrays, self._rest = eqx.partition(learning, eqx.is_array)
        self._arrays, self._tree = jax.tree.flatten(arrays)

        def update(batch: dict[str, Any], arrays: list[jax.Array]) -> tuple[list[jax.Array], dict]:
            learning, metrics = _update(run, batch, self._join(arrays))
            return jax.tree.leaves(eqx.filter(learning, eqx.is_array)), metrics

        self._update: Any = jax.jit(update, donate_argnums=1, compiler_options=launch_options())

    @property
    def learning(self) -> Learning:
        """As it is now. Its arrays are used again by the next step."""
        return self._join(self._arrays)

    def compile(self, batch: dict[str, Any]) -> jax.stages.Compiled:
        """The program of all steps from here on, for batches like this one."""
        self._update = self._update.lower(batch, self._arrays).compile()
        return self._update

    def step(self, batch: dict[str, Any]) -> dict[str, jax.Array]:
        """Learns from a batch of (B, T) arrays."""
        self._arrays, metrics = self._update(batch, self._arrays)
        return metrics

    def _join(self, arrays: list[jax.Array]) -> Learning:
        return eqx.combine(jax.tree.unflatten(self._tree, arrays), self._rest)


def _update(run: Run, batch: dict[str, Any], learning: Learning) -> tuple[Learning, dict[str, jax.Array]]:
    """One gradient step, of the model and of its probes."""
    batch = time_first(batch)
    sequence, truth = make_sequence(batch), make_truth(batch)
    key = jax.random.fold_in(jax.random.key(run.seed + 1), learning.steps)
    turn = learning.steps % count_turns(run, learning.model)
    before = jax.tree.map(lambda leaf: leaf[turn], learning.carry)

    def losses(parts: tuple[SequenceModel, dict[str, Probe]]) -> tuple[jax.Array, Any]:
        model, probes = parts
        loss, learned = model.loss(before, sequence, key)
        states = learned.states if model.supervised else jax.lax.stop_gradient(learned.states)
        asked = {target: probe.loss(states, truth) for target, probe in probes.items()}
        return loss + sum(asked.values()), (loss, asked, learned)

    parts = learning.model, learning.probes
    (_, (loss, asked, learned)), gradients = eqx.filter_value_and_grad(losses, has_aux=True)(parts)
    model, probes = parts
    optimizer, probe_optimizer = learning.optimizer, learning.probe_optimizer
    if not model.frozen:
        model, optimizer = _apply(_optimizer(run.optimizer), gradients[0], optimizer, model)
    probes, probe_optimizer = _apply(_probe_optimizer(run.probe), gradients[1], probe_optimizer, probes)
    metrics = {"loss_model": loss} | learned.metrics
    if not model.frozen:  # otherwise nobody needs its gradient, and it is not computed
        metrics["gradient_norm"] = optax.tree.norm(gradients[0])
    metrics |= {f"loss_{target}": value for target, value in asked.items()}
    metrics |= {
        f"score_{target}": probe.score(learned.states, truth).mean()
        for target, probe in learning.probes.items()
    }
    carry = learning.carry
    if model.carries:
        carry = jax.tree.map(lambda leaf, now: leaf.at[turn].set(now), carry, learned.carry)
    return Learning(model, optimizer, probes, probe_optimizer, carry, learning.steps + 1), metrics


def _apply(
    transform: optax.GradientTransformation, gradients: Any, state: Any, parts: Any
) -> tuple[Any, Any]:
    updates, state = transform.update(gradients, state, eqx.filter(parts, eqx.is_inexact_array))
    return eqx.apply_updates(parts, updates), state


def train(
    run: Run,
    train_set: Dataset,
    scored_set: Dataset,
    out: Path,
    show: Show = lambda metrics: None,
    tell: Tell = lambda sentence: None,
) -> Learning:
    """Trains until all steps are done or the time is over; resumes where an earlier call stopped.

    Raises:
        ModelError: If the model violates a rule; otherwise the same as `run_job`.
    """
    cache_programs()
    job = _ProbingJob(run, train_set, scored_set, out)
    if (out / CONFIG).exists():
        new = {key: value for key, value in job.describe().items() if key not in FREE | _FREE}
        check_same(out, {"depths": []} | read_config(out), new)
    run_job(job, run, out, show, tell)
    return job.learning


class _ProbingJob(Job):
    """Training of a sequence model and its probes on a data set."""

    what = "gradient steps"

    def __init__(self, run: Run, train_set: Dataset, scored_set: Dataset, out: Path) -> None:
        self._run, self._train_set, self._scored_set, self._out = run, train_set, scored_set, out
        self._described = json.loads(json.dumps(run.describe(train_set)))
        self._batches: Batches | None = None
        self._next: dict[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        return self._described

    @property
    def devices(self) -> list[jax.Device]:
        return jax.local_devices()[:1]

    def prepare(self) -> None:
        check_pictures("a sequence model", self._train_set.options)
        check_variant(self._run.model, self._train_set.options)
        self._new = begin(self._run, self._train_set.size, self._train_set.objects)

    def compile(self, checkpoints: Checkpoints, updates: int) -> jax.stages.Compiled | None:
        learning, position = self._new, None
        new_model = learning.model
        del self._new
        if checkpoints.latest is not None:
            learning = checkpoints.restore(_describe(learning))
            position = json.loads((self._out / POSITION.format(checkpoints.latest)).read_text())
        self._batches = _open_batches(self._run, new_model, self._train_set, position)
        check_model(new_model, jax.random.key(0))  # while the first batches are made
        self._step, self._learner = int(learning.steps), Learner(self._run, learning)
        if self._step >= updates:
            return None
        self._next = next(self._batches)
        return self._learner.compile(self._next)

    def begin(self, checkpoints: Checkpoints) -> int:
        with replacing(self._out / CONFIG) as path:
            path.write_text(json.dumps(self._described, indent=2) + "\n")
        return self._step

    @property
    def learning(self) -> Learning:
        """As it is now."""
        return self._learner.learning

    def update(self) -> Metrics:
        assert self._batches is not None
        batch, self._next = self._next or next(self._batches), None
        self._step += 1
        return self._learner.step(batch)

    def score(self) -> dict[str, float]:
        run = self._run
        if self._step % run.score_every and self._step < run.steps:
            return {}
        learning = self.learning
        scores = evaluate(learning.model, learning.probes, self._scored_set, trajectories=run.score_on)
        return {f"held_out_{target}": figures["mean"] for target, figures in summarize(scores).items()}

    def save(self, checkpoints: Checkpoints) -> None:
        assert self._batches is not None
        # First the place in the data: a checkpoint without it would be of no use.
        position = self._out / POSITION.format(self._step)
        with replacing(position) as path:
            path.write_text(json.dumps(self._batches.position))
        checkpoints.save(self._step, self.learning, position)
        _forget_positions(self._out)

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()


def _open_batches(
    run: Run, model: SequenceModel, train_set: Dataset, position: dict[str, Any] | None
) -> Batches:
    return train_set.batches(
        "replay" if model.carries else "windows",
        run.batch,
        run.time,
        keys=KEYS,
        arrays="jax",
        seed=run.seed,
        position=position,
        interleave=count_turns(run, model),
    )


def _describe(learning: Learning) -> Any:
    """Arrays as descriptions of themselves, with the device that they are on."""
    return jax.tree.map(
        lambda leaf: (
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
            if eqx.is_array(leaf)
            else leaf
        ),
        learning,
    )


def _forget_positions(out: Path) -> None:
    """Of checkpoints that are no longer kept."""
    kept = {folder.name for folder in (out / "checkpoints").iterdir()}
    for path in out.glob(POSITION.format("*")):
        if path.stem.partition("-")[2] not in kept:
            path.unlink()
