"""What a trajectory holds: the paper's table of keys, and how each is made from a scene.

Arrays have a leading time axis of one more than the number of actions: element 0 is what is seen before
the first action, and its action and reward are zero.
"""

import dataclasses
from typing import Any

import numpy as np

from memory_maze.engine.rules import REWARDS
from memory_maze.options import ACTIONS, DEFAULT, MAX_RESOLUTION, MIN_RESOLUTION

RESOLUTION = DEFAULT.camera_resolution


class DataError(ValueError):
    """Data that cannot be used; the message names the file and the rule."""


@dataclasses.dataclass(frozen=True)
class Key:
    """One array of a trajectory. N is the size of the maze, T the number of objects, R of pixels a side."""

    shape: tuple[int | str, ...]
    """Without the time axis."""
    dtype: Any
    """As we write it."""
    kinds: str
    """NumPy's kinds that are read: the published files' types are not documented."""
    low: float
    high: float | str
    """Bounds of the values; "N" is the size of the maze."""

    def sizes(self, size: int, objects: int, resolution: int = RESOLUTION) -> tuple[int, ...]:
        """The shape in numbers."""
        letters = {"N": size, "T": objects, "R": resolution}
        return tuple(letters[side] if isinstance(side, str) else side for side in self.shape)


# A promise about files, so a list of its own: another observation of the interfaces is not in it.
KEYS = {
    "image": Key(("R", "R", 3), np.uint8, "u", 0, 255),
    "action": Key((len(ACTIONS),), np.uint8, "buif", 0, 1),
    "reward": Key((), np.float32, "buif", *REWARDS),
    "maze_layout": Key(("N", "N"), np.uint8, "bui", 0, 1),
    "agent_pos": Key((2,), np.float32, "f", 0, "N"),
    "agent_dir": Key((2,), np.float32, "f", -1, 1),
    "targets_pos": Key(("T", 2), np.float32, "f", 0, "N"),
    "targets_vec": Key(("T", 2), np.float32, "f", -np.inf, np.inf),
    "target_pos": Key((2,), np.float32, "f", 0, "N"),
    "target_vec": Key((2,), np.float32, "f", -np.inf, np.inf),
    "target_color": Key((3,), np.float32, "f", 0, 1),
}
RESET = "reset"  # beside the keys in training sequences: the element is the first of its trajectory
CLOSE = 1e-3  # of cells and colours, between numbers that tell the same


def check_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of a training sequence, or an error that lists them."""
    for key in keys:
        if key not in KEYS and key != RESET:
            raise ValueError(f"unknown key {key!r}: choose from {', '.join(KEYS)} and {RESET}")
    return tuple(keys)


def check_trajectory(arrays: dict[str, np.ndarray], name: str, resolution: int | None = None) -> None:
    """Raises `DataError` if the arrays are no trajectory, or contradict themselves."""
    check_arrays({key: (array.shape, array.dtype) for key, array in arrays.items()}, name, resolution)
    for key, rule in KEYS.items():
        _check_values(arrays[key], key, rule, arrays["maze_layout"].shape[1], name)
    _check_actions(arrays, name)
    _check_poses(arrays, name)
    _check_targets(arrays, name)


def check_arrays(
    arrays: dict[str, tuple[tuple[int, ...], np.dtype]], name: str, resolution: int | None = None
) -> None:
    """Keys, shapes and types, which the files' headers tell; pictures may be of any size if none is given."""
    if missing := [key for key in KEYS if key not in arrays]:
        raise DataError(f"{name}: the key {missing[0]} is missing")
    for key, rule in KEYS.items():
        dtype = arrays[key][1]
        if dtype.kind not in rule.kinds or (key == "image" and dtype != np.uint8):
            raise DataError(f"{name}: {key} has type {dtype}: it should be {np.dtype(rule.dtype)}")
    layout, places = arrays["maze_layout"][0], arrays["targets_pos"][0]
    if len(layout) != 3 or len(places) != 3 or 0 in layout or 0 in places:
        raise DataError(
            f"{name}: maze_layout has shape {layout} and targets_pos {places}: both have three axes"
        )
    size, objects, length = layout[1], places[1], arrays["image"][0][0] if arrays["image"][0] else 0
    resolution = resolution or find_resolution(arrays["image"][0])
    for key, rule in KEYS.items():
        expected = (length, *rule.sizes(size, objects, resolution))
        if arrays[key][0] != expected:
            raise DataError(f"{name}: {key} has shape {arrays[key][0]}: it should be {expected}")
    if length < 2:
        raise DataError(f"{name}: it has no actions")


def find_resolution(shape: tuple[int, ...]) -> int:
    """Of the pictures of an array, or the usual one where it holds none of a variant."""
    square = len(shape) == 4 and shape[1] == shape[2]
    return shape[1] if square and MIN_RESOLUTION <= shape[1] <= MAX_RESOLUTION else RESOLUTION


def _check_values(array: np.ndarray, key: str, rule: Key, size: int, name: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        step = int(np.argwhere(~np.isfinite(array))[0][0])
        raise DataError(f"{name}: {key} is not finite at step {step}")
    high = size if isinstance(rule.high, str) else rule.high
    if (array < rule.low - CLOSE).any() or (array > high + CLOSE).any():
        raise DataError(
            f"{name}: {key} has values from {array.min()} to {array.max()}: allowed are {rule.low} to {high}"
        )


def _check_actions(arrays: dict[str, np.ndarray], name: str) -> None:
    chosen = arrays["action"].astype(float).sum(axis=1)
    wrong = np.flatnonzero((chosen[1:] != 1) | (arrays["action"][1:].max(axis=1) != 1))
    if len(wrong):
        raise DataError(f"{name}: action is not one-hot at step {wrong[0] + 1}")
    if chosen[0] or arrays["reward"][0]:
        raise DataError(f"{name}: action or reward is not zero at step 0, before the first action")


def _check_poses(arrays: dict[str, np.ndarray], name: str) -> None:
    layout, places = arrays["maze_layout"], arrays["agent_pos"]
    if (layout != layout[0]).any():
        raise DataError(f"{name}: maze_layout changes during the trajectory")
    lengths = np.hypot(*arrays["agent_dir"].T.astype(float))
    if np.abs(lengths - 1).max() > CLOSE:
        raise DataError(f"{name}: agent_dir is not a unit vector at step {np.abs(lengths - 1).argmax()}")
    column, row = np.clip(places.astype(int), 0, layout.shape[1] - 1).T
    inside = layout[0][row, column] > 0
    if not inside.all():
        raise DataError(f"{name}: agent_pos is inside a wall at step {np.argmin(inside)}")
    jumps = np.abs(np.diff(places.astype(float), axis=0)).max(axis=1)
    if (jumps > 1).any():
        raise DataError(f"{name}: agent_pos jumps by {jumps.max():.1f} cells at step {jumps.argmax() + 1}")


def _check_targets(arrays: dict[str, np.ndarray], name: str) -> None:
    places, forward = arrays["targets_pos"].astype(float), arrays["agent_dir"].astype(float)
    if np.abs(places - places[0]).max() > CLOSE:
        raise DataError(f"{name}: targets_pos changes during the trajectory")
    right = np.stack([forward[:, 1], -forward[:, 0]], axis=1)
    offsets = places - arrays["agent_pos"].astype(float)[:, None]
    vectors = np.stack([(offsets * axis[:, None]).sum(axis=2) for axis in (right, forward)], axis=2)
    wrong = np.abs(vectors - arrays["targets_vec"]).max(axis=(1, 2))
    if wrong.max() > 0.01:
        raise DataError(
            f"{name}: targets_vec does not match agent_pos and agent_dir at step {wrong.argmax()}"
        )
    away = [
        np.abs(arrays[many] - arrays[one][:, None]).max(axis=2)
        for one, many in (("target_pos", "targets_pos"), ("target_vec", "targets_vec"))
    ]
    for what, distances in zip(("target_pos", "target_vec"), away, strict=True):
        if (nearest := distances.min(axis=1)).max() > CLOSE:
            raise DataError(f"{name}: {what} does not match any object at step {nearest.argmax()}")
    if (both := np.maximum(*away).min(axis=1)).max() > CLOSE:
        raise DataError(f"{name}: target_pos and target_vec are different objects at step {both.argmax()}")
