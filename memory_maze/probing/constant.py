"""The constant baseline: the same answer for every state, the best that there is on the training data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.data.dataset import Dataset
from memory_maze.data.tracks import fit_constant
from memory_maze.paper import TARGETS
from memory_maze.probing.evaluate import Advance, Scores, common_length
from memory_maze.probing.probe import score_objects, score_walls

_MANY = 256  # trajectories at once
_KEYS = ("maze_layout", "targets_vec")


def evaluate_constant(train: Dataset, scored: Dataset, advance: Advance = lambda steps: None) -> Scores:
    """Scores of all steps of `scored`, if the answer is the mean of the second halves of `train`."""
    walls, objects = map(jnp.asarray, _fit(train, advance))
    length = common_length(scored, len(scored))
    found: dict[str, list[np.ndarray]] = {target: [] for target in TARGETS}
    for batch in _read(scored, 0, length, advance):
        found["walls"].append(np.asarray(score_walls(walls, batch["maze_layout"])))
        found["objects"].append(np.asarray(score_objects(objects, batch["targets_vec"])))
    return {target: np.concatenate(parts) for target, parts in found.items()}


def _fit(dataset: Dataset, advance: Advance) -> tuple[np.ndarray, np.ndarray]:
    """What is predicted of walls and of objects."""
    length = common_length(dataset, len(dataset))
    half = length // 2
    layouts, sums = [], []
    for batch in _read(dataset, length - half, length, advance):
        layouts.append(np.asarray(batch["maze_layout"][:, 0]))
        sums.append(np.asarray(batch["targets_vec"], np.float64).sum(axis=1))
    return fit_constant(np.concatenate(layouts), np.concatenate(sums), np.full(len(dataset), half))


def _read(dataset: Dataset, begin: int, end: int, advance: Advance) -> Any:
    for first in range(0, len(dataset), _MANY):
        rows = np.arange(first, min(first + _MANY, len(dataset)))
        named = np.broadcast_arrays(rows[:, None], np.arange(begin, end)[None])
        yield jax.device_put(dataset.take(*named, _KEYS))
        advance(named[0].size)
