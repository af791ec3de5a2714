"""Where agents went, and figures of it: the same for scenes and for NPZ files."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory_maze.data.scenes import Scenes
from memory_maze.options import ACTION_NAMES
from memory_maze.paper import PROBING
from memory_maze.world import bits_of, to_cells

POINTS = 101  # at which the growth of the visited share is taken
_SCORED = 30  # without a split for evaluation, one in so many is scored


@dataclasses.dataclass(frozen=True)
class Tracks:
    """n trajectories of S actions, in mazes of N x N cells with T objects.

    Places are in cells, (x, y) from the bottom left.
    """

    layouts: np.ndarray  # (n, N, N) bool: where it is free; row 0 is the bottom row
    objects: np.ndarray  # (n, T, 2) float
    positions: np.ndarray  # (n, S + 1, 2) float
    directions: np.ndarray  # (n, S + 1, 2) float: unit vectors
    actions: np.ndarray  # (n, S) int
    rewards: np.ndarray  # (n, S) number


def tracks_of_scenes(scenes: Scenes) -> Tracks:
    """The tracks of all trajectories of a shard."""
    size = scenes.size
    cells = scenes.objects.astype(int)
    heading = -scenes.poses[..., 3]
    return Tracks(
        layouts=~bits_of(scenes.walls),
        objects=np.stack([cells % size, cells // size], axis=-1) + 0.5,
        positions=to_cells(scenes.poses[..., :2], size),
        directions=np.stack([np.cos(heading), np.sin(heading)], axis=-1),
        actions=scenes.actions,
        rewards=scenes.rewards,
    )


def tracks_of_arrays(arrays: dict[str, np.ndarray]) -> Tracks:
    """The track of one trajectory with the paper's keys."""
    return Tracks(
        layouts=arrays["maze_layout"][:1] > 0,
        objects=arrays["targets_pos"][:1],
        positions=arrays["agent_pos"][None],
        directions=arrays["agent_dir"][None],
        actions=arrays["action"][None, 1:].argmax(axis=2),
        rewards=arrays["reward"][None, 1:],
    )


@dataclasses.dataclass(frozen=True)
class Figures:
    """What is kept of n trajectories."""

    lengths: np.ndarray  # (n,) int: elements, one more than actions
    rewards: np.ndarray  # (n,) float: their sum
    growth: np.ndarray  # (n, POINTS) float: share of the free cells visited, from start to end
    revisits: np.ndarray  # (n,) int: how often a cell that was left is entered again
    distances: np.ndarray  # (n,) float: walked, in cells
    actions: np.ndarray  # (n, 6) int: how often each
    layouts: np.ndarray  # (n, N, N) bool: where it is free
    sums: np.ndarray  # (n, T, 2) float: of targets_vec over the second half
    squares: np.ndarray  # (n, T, 2) float: of its squares

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def halves(self) -> np.ndarray:
        """Elements in the second halves, (n,)."""
        return self.lengths // 2


def measure(tracks: Tracks) -> Figures:
    """The figures of trajectories of one length."""
    count, length = tracks.positions.shape[:2]
    cells = _cells(tracks)
    first = _first_visits(tracks, cells)
    entries = (np.diff(cells, axis=1) != 0).sum(axis=1)
    steps = np.diff(tracks.positions.astype(np.float64), axis=1)
    sums, squares = _sum_vectors(tracks)
    return Figures(
        lengths=np.full(count, length),
        rewards=tracks.rewards.sum(axis=1, dtype=np.float64),
        growth=_growth(first, tracks.layouts.sum(axis=(1, 2)), length),
        revisits=entries - ((first < length).sum(axis=1) - 1),
        distances=np.hypot(steps[..., 0], steps[..., 1]).sum(axis=1),
        actions=np.stack([(tracks.actions == action).sum(axis=1) for action in range(len(ACTION_NAMES))], 1),
        layouts=tracks.layouts,
        sums=sums,
        squares=squares,
    )


def _cells(tracks: Tracks) -> np.ndarray:
    """(n, S + 1) int: N * row + column."""
    size = tracks.layouts.shape[1]
    column, row = np.moveaxis(np.clip(tracks.positions.astype(int), 0, size - 1), -1, 0)
    return size * row + column


def _first_visits(tracks: Tracks, cells: np.ndarray) -> np.ndarray:
    """(n, N * N) int: when each cell was first visited; the length if never."""
    count, length = cells.shape
    first = np.full((count, tracks.layouts[0].size), length, np.int32)
    np.minimum.at(first, (np.arange(count)[:, None], cells), np.arange(length, dtype=np.int32))
    return first


def _growth(first: np.ndarray, free: np.ndarray, length: int) -> np.ndarray:
    times = np.linspace(0, length - 1, POINTS).astype(int)
    return np.stack([(first <= time).sum(axis=1) for time in times], axis=1) / free[:, None]


def _sum_vectors(tracks: Tracks) -> tuple[np.ndarray, np.ndarray]:
    """Sums of targets_vec and of its squares over the second half, (n, T, 2) each."""
    half = tracks.positions.shape[1] // 2
    positions = tracks.positions[:, -half:].astype(np.float64)
    forward = tracks.directions[:, -half:].astype(np.float64)
    right = np.stack([forward[..., 1], -forward[..., 0]], axis=-1)
    sums, squares = np.zeros((2, *tracks.objects.shape))
    for index in range(tracks.objects.shape[1]):
        offsets = tracks.objects[:, None, index] - positions
        for axis, unit in enumerate((right, forward)):
            vectors = (offsets * unit).sum(axis=-1)
            sums[:, index, axis] = vectors.sum(axis=1)
            squares[:, index, axis] = (vectors**2).sum(axis=1)
    return sums, squares


def join_figures(parts: Sequence[Figures]) -> Figures:
    """Figures of mazes of one size as one."""
    columns = [field.name for field in dataclasses.fields(Figures)]
    return Figures(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns})


def describe(figures: Figures, splits: Sequence[str]) -> dict[str, Any]:
    """The figures of a data set; `splits` tells of each trajectory where it belongs."""
    size, objects = figures.layouts.shape[1], figures.sums.shape[1]
    actions = figures.actions.sum(axis=0)
    return {
        "size": size,
        "objects": objects,
        "trajectories": len(figures),
        "splits": {split: splits.count(split) for split in dict.fromkeys(splits)},
        "steps": int((figures.lengths - 1).sum()),
        "steps_per_trajectory": [int(figures.lengths.min() - 1), int(figures.lengths.max() - 1)],
        "layouts": len(np.unique(figures.layouts.reshape(len(figures), -1), axis=0)),
        "reward": _mean_and_std(figures.rewards),
        "visited_share": _mean_and_std(figures.growth[:, -1]),
        "revisits": _mean_and_std(figures.revisits),
        "distance_cells": _mean_and_std(figures.distances),
        "actions": dict(zip(ACTION_NAMES, (actions / actions.sum()).tolist(), strict=True)),
        "constant_baseline": constant_baseline(figures, splits),
        "visited_share_growth": figures.growth.mean(axis=0).tolist(),
    }


def _mean_and_std(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "std": float(values.std())}


def constant_baseline(figures: Figures, splits: Sequence[str]) -> dict[str, Any]:
    """The paper's score of a probe that always predicts the mean of the training data.

    Walls: the share of cells that are as predicted. Objects: the squared error of targets_vec, summed over
    both axes. Both on the second half of each trajectory.
    """
    train, scored = _divide(splits)
    usual, mean = fit_constant(figures.layouts[train], figures.sums[train], figures.halves[train])
    count = figures.halves[scored][:, None, None]
    errors = (figures.squares[scored] - 2 * mean * figures.sums[scored]) / count + mean**2
    result: dict[str, Any] = {
        "trained_on": len(figures.lengths[train]),
        "scored_on": len(figures.lengths[scored]),
        "walls_percent": 100 * float((figures.layouts[scored] == usual).mean()),
        "objects_squared_error": float(errors.sum(axis=2).mean()),
    }
    paper = find_paper(figures.layouts.shape[1])
    return result | ({"paper": paper} if paper else {})


def fit_constant(layouts: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the constant baseline predicts: which cells are free (N, N), and targets_vec (T, 2).

    Args:
        layouts: (n, N, N) of the training data: where it is free.
        sums: (n, T, 2) of targets_vec over the second half of each trajectory.
        counts: (n,) elements in these halves.
    """
    return layouts.mean(axis=0) >= 0.5, sums.sum(axis=0) / counts.sum()


def find_paper(size: int) -> dict[str, float] | None:
    """The paper's scores of the constant baseline in mazes of a size, if it has them."""
    row, task = PROBING["Constant baseline"], f"{size}x{size}"
    if (task, "walls") not in row:
        return None
    names = {"walls": "walls_percent", "objects": "objects_squared_error"}
    return {name: row[task, target].mean for target, name in names.items()}


def _divide(splits: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Which trajectories the mean is of and which are scored: all for both, if there are few."""
    names = np.array(splits)
    everything = np.arange(len(names))
    if {"train", "eval"} <= set(splits):
        return everything[names == "train"], everything[names == "eval"]
    if len(names) < _SCORED:
        return everything, everything
    border = len(names) * (_SCORED - 1) // _SCORED
    return everything[:border], everything[border:]
