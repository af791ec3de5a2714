"""How much a trained model's state knows: probes asked at every step of the evaluation trajectories."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from memory_maze.data.dataset import Dataset
from memory_maze.data.schema import DataError
from memory_maze.probing.model import Sequence, SequenceModel, initial_carry
from memory_maze.probing.probe import KEYS, Probe, Truth, make_truth

Advance = Callable[[int], None]  # called with how many steps were done
Scores = dict[str, np.ndarray]  # of each target (trajectories, steps)

STREAMS, CHUNK = 64, 100  # trajectories at once, and steps of them


def evaluate(
    model: SequenceModel,
    probes: dict[str, Probe],
    dataset: Dataset,
    *,
    trajectories: int | None = None,
    seed: int = 0,
    advance: Advance = lambda steps: None,
) -> Scores:
    """Scores of every step of the first trajectories of a data set, or of all.

    The state is carried over the whole trajectory.
    """
    count = len(dataset) if trajectories is None else min(trajectories, len(dataset))
    length = common_length(dataset, count)
    parts: list[Scores] = []
    for first in range(0, count, STREAMS):
        chosen = np.arange(first, min(first + STREAMS, count))
        parts.append(_score_streams(model, probes, dataset, chosen, length, seed, advance))
    return {target: np.concatenate([part[target] for part in parts]) for target in probes}


def common_length(dataset: Dataset, count: int) -> int:
    """How many elements the first trajectories have."""
    lengths = np.unique(dataset.lengths[:count])
    if len(lengths) > 1:
        raise DataError(
            f"{dataset.path}: trajectories have from {lengths[0]} to {lengths[-1]} elements: scores need "
            "trajectories of equal length"
        )
    return int(lengths[0])


def _score_streams(
    model: SequenceModel,
    probes: dict[str, Probe],
    dataset: Dataset,
    chosen: np.ndarray,
    length: int,
    seed: int,
    advance: Advance,
) -> Scores:
    # As many streams as ever, and as many steps: one program does all.
    rows = np.resize(chosen, min(STREAMS, len(dataset)))
    carry = initial_carry(model, len(rows))
    found: dict[str, list[np.ndarray]] = {target: [] for target in probes}
    chunk = min(CHUNK, length)
    for begin in range(0, length, chunk):
        times = np.minimum(np.arange(begin, begin + chunk), length - 1)
        named = np.broadcast_arrays(rows[:, None], times[None])
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), int(chosen[0])), begin)
        carry, scores = _score(model, probes, carry, dataset.take(*named, KEYS), key)
        for target, values in scores.items():
            found[target].append(np.asarray(values).T[: len(chosen), : length - begin])
        advance(len(chosen) * min(chunk, length - begin))
    return {target: np.concatenate(values, axis=1) for target, values in found.items()}


@eqx.filter_jit
def _score(
    model: SequenceModel, probes: dict[str, Probe], carry: Any, batch: dict[str, Any], key: jax.Array
) -> tuple[Any, dict[str, jax.Array]]:
    carry, states, truth = observe(model, carry, batch, key)
    return carry, {target: probe.score(states, truth) for target, probe in probes.items()}


def observe(
    model: SequenceModel, carry: Any, batch: dict[str, Any], key: jax.Array
) -> tuple[Any, jax.Array, Truth]:
    """The carry after a (B, T) batch, the states on the way, and what is true there; time first."""
    batch = time_first(batch)
    carry, states = model.observe(carry, make_sequence(batch), key)
    return carry, states, make_truth(batch)


def time_first(batch: dict[str, Any]) -> dict[str, jax.Array]:
    """(T, B, ...) of (B, T, ...)."""
    return {key: array.swapaxes(0, 1) for key, array in batch.items()}


def make_sequence(batch: dict[str, Any]) -> Sequence:
    """What a model may see of arrays with the data set's keys."""
    return Sequence(batch["image"], batch["action"].astype(np.float32), batch["reset"])


def summarize(scores: Scores) -> dict[str, Any]:
    """Figures of each target: the benchmark's score is the mean over the second half of all trajectories."""
    return {target: summarize_target(values) for target, values in scores.items()}


def summarize_target(values: np.ndarray) -> dict[str, Any]:
    """Of (trajectories, steps) scores."""
    count, length = values.shape
    halves = values[:, -(length // 2) :].mean(axis=1, dtype=np.float64)
    return {
        "mean": float(halves.mean()),
        "std_error": float(halves.std(ddof=1) / np.sqrt(count)) if count > 1 else None,
        "trajectories": count,
        "by_step": [float(value) for value in values.mean(axis=0, dtype=np.float64)],
    }
