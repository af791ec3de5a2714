"""The constant baseline: the same answer for every state, the best that there is on the training data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.data.dataset import Dataset
from memory_maze.paper import TARGETS
from memory_maze.probing.evaluate import Advance, Scores, common_length
from memory_maze.probing.probe import score_objects, score_walls

_MANY = 256  # trajectories at once
_KEYS = ("maze_layout", "targets_vec")


def evaluate_constant(train: Dataset, scored: Dataset, advance: Advance = lambda steps: None) -> Scores:
    """Scores of all steps of `scored`, if the answer is the mean of the second halves of `train`."""
    walls, objects = map(jnp.asarray, _mean(train, advance))
    length = common_length(scored, len(scored))
    found: dict[str, list[np.ndarray]] = {target: [] for target in TARGETS}
    for batch in _read(scored, 0, length, advance):
        found["walls"].append(np.asarray(score_walls(walls >= 0.5, batch["maze_layout"])))
        found["objects"].append(np.asarray(score_objects(objects, batch["targets_vec"])))
    return {target: np.concatenate(parts) for target, parts in found.items()}


def _mean(dataset: Dataset, advance: Advance) -> tuple[np.ndarray, np.ndarray]:
    """Of the walls (N, N) and of the objects' places (n, 2)."""
    length = common_length(dataset, len(dataset))
    half = length // 2
    walls, objects = [], []
    for batch in _read(dataset, length - half, length, advance):
        walls.append(np.asarray(batch["maze_layout"][:, 0], np.float64))
        objects.append(np.asarray(batch["targets_vec"].mean(axis=1), np.float64))
    return np.concatenate(walls).mean(axis=0), np.concatenate(objects).mean(axis=0)


def _read(dataset: Dataset, begin: int, end: int, advance: Advance) -> Any:
    for first in range(0, len(dataset), _MANY):
        rows = np.arange(first, min(first + _MANY, len(dataset)))
        named = np.broadcast_arrays(rows[:, None], np.arange(begin, end)[None])
        yield jax.device_put(dataset.take(*named, _KEYS))
        advance(named[0].size)
