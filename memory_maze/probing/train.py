"""Trains a sequence model and the probes of its state: `memory-maze probe`.

In each step the model learns from a batch, and the probes from its states, without a way back for their
gradients. So what the probes know is what the model kept for its own sake.
"""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.agents.folder import CONFIG, read_config
from memory_maze.data.dataset import Batches, Dataset
from memory_maze.data.order import check_sizes
from memory_maze.paper import TARGETS, Target
from memory_maze.probing import baselines
from memory_maze.probing.check import ModelError, check_model
from memory_maze.probing.config import ProbeConfig
from memory_maze.probing.evaluate import evaluate, make_sequence, summarize, time_first
from memory_maze.probing.model import SequenceModel, find_maker, start
from memory_maze.probing.probe import KEYS, Probe, make_truth
from memory_maze.sampler import check_seed
from memory_maze.system.files import replacing
from memory_maze.system.limits import check_above, check_least
from memory_maze.system.programs import cache_programs
from memory_maze.training.checkpoint import Checkpoints
from memory_maze.training.devices import launch_options
from memory_maze.training.log import Log
from memory_maze.training.meter import Meter
from memory_maze.training.needs import Forecast
from memory_maze.training.stopping import Deadline, RunStoppedError, StopRequest, Tell, check_finite

Show = Callable[[dict[str, Any]], None]  # called with each line of metrics
POSITION = "position-{}.json"  # in the data, at a checkpoint


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW as in the paper's tables."""

    learning_rate: float = 3e-4
    epsilon: float = 1e-5
    weight_decay: float = 1e-2
    max_gradient: float = 200.0
    """Norm at which gradients are clipped."""

    def __post_init__(self) -> None:
        check_above(0, learning_rate=self.learning_rate, epsilon=self.epsilon)
        check_above(0, max_gradient=self.max_gradient)
        check_least(0, weight_decay=self.weight_decay)


@dataclasses.dataclass(frozen=True)
class Run:
    """What is trained, on what, and for how long."""

    model: str
    """A baseline, or package.module:Name."""
    settings: baselines.Config | None = None
    """Of a baseline."""
    targets: tuple[Target, ...] = TARGETS
    probe: ProbeConfig = dataclasses.field(default_factory=ProbeConfig)
    depths: tuple[int, ...] = ()
    """Hidden layers of further probes, which are asked the same: the paper's ablation."""
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    steps: int = 1_000_000
    """Gradient steps."""
    batch: int = 32
    """Sequences in a batch."""
    time: int = 48
    """Steps of each."""
    interleave: int = 32
    """Batches of different trajectories that are learned from in turn, by models that carry their state."""
    seed: int = 0
    log_every: float = 10.0
    """Seconds between two lines of metrics."""
    save_every: float = 600.0
    """Seconds between two checkpoints."""
    score_every: int = 10_000
    """Gradient steps between two looks at the evaluation trajectories."""
    score_on: int = 64
    """How many of these are looked at on the way."""
    minutes: float | None = None
    """Stop training after so long, to go on another time."""

    def __post_init__(self) -> None:
        check_least(0, steps=self.steps, log_every=self.log_every, save_every=self.save_every)
        check_least(1, score_every=self.score_every, score_on=self.score_on)
        check_above(0, minutes=self.minutes)
        check_seed(self.seed)
        check_sizes(batch=self.batch, time=self.time, interleave=self.interleave)
        if any(depth < 0 for depth in self.depths):
            raise ValueError(f"depths are numbers of hidden layers, from 0: got {self.depths}")

    def describe(self, train_set: Dataset) -> dict[str, Any]:
        """Plain data, for config.json: of a run on this data."""
        data = {"size": train_set.size, "trajectories": len(train_set), "seeds": train_set.seeds[:3]}
        return dataclasses.asdict(self) | {"data": data}


class Learning(NamedTuple):
    """Everything that a run needs to go on, but for its place in the data."""

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
    if ":" not in run.model:
        names = ", ".join(["constant", *baselines.MODELS])
        raise ValueError(f"no model {run.model!r}: there are {names}, and your own as package.module:Name")
    model = find_maker(run.model)(key)
    if not isinstance(model, SequenceModel):
        raise ModelError(f"{run.model} makes no SequenceModel: see memory_maze.probing.model")
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
        start(model, count_turns(run, model), run.batch),
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
        raise ValueError(f"{run.model} learns from its probe: choose one of {' and '.join(run.targets)}")
    if run.depths:
        raise ValueError(f"{run.model} learns from its probe: there can be no others of depths {run.depths}")


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

        self._update = jax.jit(update, donate_argnums=1, compiler_options=launch_options())

    @property
    def learning(self) -> Learning:
        """As it is now. Its arrays are used again by the next step."""
        return self._join(self._arrays)

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
    (_, (loss, asked, learned)), slopes = eqx.filter_value_and_grad(losses, has_aux=True)(parts)
    model, probes = parts
    optimizer, probe_optimizer = learning.optimizer, learning.probe_optimizer
    if not model.frozen:
        model, optimizer = _apply(_optimizer(run.optimizer), slopes[0], optimizer, model)
    probes, probe_optimizer = _apply(_probe_optimizer(run.probe), slopes[1], probe_optimizer, probes)
    metrics = {"loss_model": loss} | learned.metrics
    if not model.frozen:  # otherwise nobody needs its gradient, and it is not computed
        metrics["gradient_norm"] = optax.tree.norm(slopes[0])
    metrics |= {f"loss_{target}": value for target, value in asked.items()}
    metrics |= {
        f"score_{target}": probe.score(learned.states, truth).mean()
        for target, probe in learning.probes.items()
    }
    carry = learning.carry
    if model.carries:
        carry = jax.tree.map(lambda leaf, now: leaf.at[turn].set(now), carry, learned.carry)
    return Learning(model, optimizer, probes, probe_optimizer, carry, learning.steps + 1), metrics


def _apply(transform: optax.GradientTransformation, slopes: Any, state: Any, parts: Any) -> tuple[Any, Any]:
    updates, state = transform.update(slopes, state, eqx.filter(parts, eqx.is_inexact_array))
    return eqx.apply_updates(parts, updates), state


def train(
    run: Run,
    train_set: Dataset,
    scored_set: Dataset,
    out: Path,
    show: Show = lambda metrics: None,
    tell: Tell = lambda sentence: None,
) -> Learning:
    """Trains until the run's steps are made, or its minutes are over; goes on where an earlier call stopped.

    How long it takes, and that it will stop, is told in sentences.

    Raises `RunStoppedError` after Ctrl-C or SIGTERM, `ModelError` if the model breaks a rule, and
    `RuntimeError` if a loss is NaN. The folder holds a checkpoint to go on from. Raises `KeyboardInterrupt`
    if there was nothing to save yet.
    """
    deadline = Deadline(run.minutes)
    cache_programs()
    described = run.describe(train_set)
    _check_same(described, out)
    stop = StopRequest(tell)
    return stop.heed(lambda: _train(run, train_set, scored_set, out, described, show, tell, stop, deadline))


def _train(
    run: Run,
    train_set: Dataset,
    scored_set: Dataset,
    out: Path,
    described: dict[str, Any],
    show: Show,
    tell: Tell,
    stop: StopRequest,
    deadline: Deadline,
) -> Learning:
    learning = begin(run, train_set.size, train_set.objects)
    new_model = learning.model
    with contextlib.ExitStack() as stack:
        checkpoints = stack.enter_context(contextlib.closing(Checkpoints(out / "checkpoints")))
        position = None
        if checkpoints.latest is not None:
            learning = checkpoints.restore(_describe(learning))
            position = json.loads((out / POSITION.format(checkpoints.latest)).read_text())
        batches = stack.enter_context(_open_batches(run, new_model, train_set, position))
        check_model(new_model, jax.random.key(0))  # while the first batches are made
        del new_model
        with replacing(out / CONFIG) as path:
            path.write_text(json.dumps(described, indent=2) + "\n")
        log = stack.enter_context(contextlib.closing(Log(out, int(learning.steps))))
        left = run.steps - int(learning.steps)
        forecast = stack.enter_context(Forecast(left, "gradient steps", 1, tell))
        return _go_on(
            run, learning, batches, scored_set, checkpoints, out, log, show, forecast, stop, deadline
        )


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


def _check_same(described: dict[str, Any], out: Path) -> None:
    """A folder holds one run; it may be made longer."""
    if not (out / CONFIG).exists():
        return
    old, new = {"depths": []} | read_config(out), json.loads(json.dumps(described))
    free = {"steps", "log_every", "save_every", "score_every", "score_on", "minutes"}
    for key in new.keys() - free:
        if old.get(key) != new[key]:
            raise ValueError(
                f"{out}: its run has {key} {old.get(key)} and not {new[key]}: choose another folder"
            )


def _go_on(
    run: Run,
    learning: Learning,
    batches: Batches,
    scored_set: Dataset,
    checkpoints: Checkpoints,
    out: Path,
    log: Log,
    show: Show,
    forecast: Forecast,
    stop: StopRequest,
    deadline: Deadline,
) -> Learning:
    began = saved = time.perf_counter()
    begun = int(learning.steps)
    learner, meter = Learner(run, learning), Meter(run.log_every, 1, begun, began - log.seconds)
    del learning  # its arrays are the learner's now

    def write(more: dict[str, float]) -> None:
        line = meter.read() | more
        check_finite(line)
        log.write(line)
        show(line)

    def save(steps: int) -> None:
        nonlocal saved
        # First the place in the data: a checkpoint without it would be of no use.
        position = out / POSITION.format(steps)
        with replacing(position) as path:
            path.write_text(json.dumps(batches.position))
        checkpoints.save(steps, learner.learning, position)
        _forget_positions(out)
        saved = time.perf_counter()

    for step in range(begun + 1, run.steps + 1):
        metrics = learner.step(next(batches))
        meter.add(metrics)
        forecast.note(metrics)
        if stop.given_up:
            raise KeyboardInterrupt
        stop.worth_saving = True
        asked = stop.asked  # once: what is asked from now on is for the next step
        ending = asked or deadline.passed or step == run.steps
        if step % run.score_every == 0 or step == run.steps:
            learning = learner.learning
            scores = evaluate(learning.model, learning.probes, scored_set, trajectories=run.score_on)
            write({f"held_out_{target}": figures["mean"] for target, figures in summarize(scores).items()})
        elif meter.due or ending:
            write({})
        if ending or time.perf_counter() - saved > run.save_every:
            save(step)
        if asked and step < run.steps:
            text = f"saved after {step:,} steps; run it again to go on: {out}"
            raise RunStoppedError(text, stop.signal_number)
        if ending:
            break
    return learner.learning


def _forget_positions(out: Path) -> None:
    """Of checkpoints that are no longer kept."""
    kept = {folder.name for folder in (out / "checkpoints").iterdir()}
    for path in out.glob(POSITION.format("*")):
        if path.stem.partition("-")[2] not in kept:
            path.unlink()
