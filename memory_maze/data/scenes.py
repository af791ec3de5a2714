"""Trajectories as scenes: mazes, poses and actions, of which everything else can be made again.

A step takes 19 bytes instead of the 12 kB of its picture. Pictures are drawn when they are read, by the
engine that recorded them, and are those that were seen then, bit for bit on the same type of device.
"""

import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from memory_maze.data.archive import LIMIT, Archive, naming, pack
from memory_maze.data.schema import DataError
from memory_maze.engine.env import read_scenarios
from memory_maze.engine.rules import REWARDS
from memory_maze.episodes.rollout import Recording
from memory_maze.options import ACTIONS
from memory_maze.scenario import FLOOR, WALL, WALL_TEXTURES, Scenario, find_rooms
from memory_maze.tasks import MAX_OBJECTS, MAX_SIZE, MIN_SIZE
from memory_maze.world import CELL_METRES, COLORS, bits_of, to_cells

UNKNOWN_SEED = 2**32 - 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scenes:
    """n trajectories of S actions, in mazes of N x N cells with T objects.

    Cells are numbered row by row from the bottom left: N * row + column.
    """

    seeds: Any  # (n,) uint32: of the mazes, as for `reset(seed=...)`, or UNKNOWN_SEED
    walls: Any  # (n, N) uint32: bit c of row r is wall; row 0 is the bottom row
    rooms: Any  # (n, N) uint32: likewise, room floors
    textures: Any  # (n, 9) uint8: index into scenario.WALL_TEXTURES, by 3x3 blocks of the grid
    objects: Any  # (n, T) uint16: cells
    colors: Any  # (n, T) uint8: index into world.COLORS
    hidden: Any  # (n, T) bool: invisible in the first picture (errata 1)
    actions: Any  # (n, S) uint8
    rewards: Any  # (n, S) uint8, or float32 where a rule pays others than 0 and 1
    targets: Any  # (n, S + 1) uint8: the object that is asked for
    poses: Any  # (n, S + 1, 4) float32, or float64 from the reference: x, y, z (m), steer (rad)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def size(self) -> int:
        return self.walls.shape[1]

    @property
    def length(self) -> int:
        """Elements in time: one more than actions."""
        return self.poses.shape[1]


TYPES = {
    "seeds": ("uint32",),
    "walls": ("uint32",),
    "rooms": ("uint32",),
    "textures": ("uint8",),
    "objects": ("uint16",),
    "colors": ("uint8",),
    "hidden": ("bool",),
    "actions": ("uint8",),
    "rewards": ("uint8", "float32"),
    "targets": ("uint8",),
    "poses": ("float32", "float64"),
}


def from_recording(scenarios: Sequence[Scenario], seeds: Sequence[int], recording: Recording) -> Scenes:
    """What was played, as scenes."""
    starts = read_scenarios(scenarios)
    maze, size = starts.maze, scenarios[0].size
    cells = np.rint(to_cells(maze.objects, size) - 0.5).astype(np.uint16)
    return Scenes(
        seeds=np.array(seeds, np.uint32),
        walls=maze.walls,
        rooms=maze.rooms,
        textures=maze.textures.astype(np.uint8),
        objects=cells[..., 0] + size * cells[..., 1],
        colors=maze.colors.astype(np.uint8),
        hidden=starts.touched,
        actions=recording.actions,
        rewards=pack_rewards(recording.rewards, "an episode"),
        targets=recording.targets,
        poses=recording.poses,
    )


def pack_rewards(rewards: np.ndarray, name: str) -> np.ndarray:
    """Rewards in one byte each where they are 0 and 1, as those of the benchmark."""
    _check_rewards(rewards, name)
    return rewards.astype(np.uint8 if np.isin(rewards, (0, 1)).all() else np.float32)


def _check_rewards(rewards: np.ndarray, name: str) -> None:
    low, high = REWARDS
    if (wrong := ~((low <= rewards) & (rewards <= high))).any():
        raise DataError(
            f"{name}: invalid reward {rewards[wrong][0]:g}: rewards are from {low:g} to {high:g}; "
            "for another rule change memory_maze.engine.rules.REWARDS with it"
        )


def to_scenario(scenes: Scenes, index: int) -> Scenario:
    """The maze of a trajectory, with the targets that were asked for."""
    size = scenes.size
    grid = size + 2
    walls = np.pad(bits_of(scenes.walls[index]), 1, constant_values=True)[::-1]
    rows = tuple("".join(WALL if cell else FLOOR for cell in row) for row in walls)
    objects = [(size - int(cell) // size, int(cell) % size + 1) for cell in scenes.objects[index]]
    targets = scenes.targets[index]
    pose = scenes.poses[index, 0]
    spawn = (int(grid / 2 - pose[1] / CELL_METRES), int(grid / 2 + pose[0] / CELL_METRES))
    draws = targets[np.flatnonzero(np.diff(targets, prepend=255))]
    return Scenario(
        walls=rows,
        rooms=find_rooms(rows),
        objects=tuple(objects),
        colors=tuple(map(int, scenes.colors[index])),
        spawns=(spawn,),
        heading=-float(pose[3]),
        textures=tuple(WALL_TEXTURES[number] for number in scenes.textures[index]),
        draws=tuple(map(int, draws)),
        hidden=tuple(map(int, np.flatnonzero(scenes.hidden[index]))),
    )


def to_bytes(scenes: Scenes) -> bytes:
    """The content of a file of scenes: an NPZ file, not compressed."""
    return pack({key: np.asarray(getattr(scenes, key)) for key in TYPES}, compress=False)


def read_scenes(source: str | Path | bytes, name: str | None = None, limit: int = LIMIT) -> Scenes:
    """Reads and checks a file of scenes, which may hold so many bytes unpacked."""
    name = name or str(source)
    with Archive(io.BytesIO(source) if isinstance(source, bytes) else source, name, limit) as archive:
        arrays = archive.read_all()
    if missing := [key for key in TYPES if key not in arrays]:
        raise DataError(f"{name}: the key {missing[0]} is missing: not a file of scenes")
    scenes = Scenes(**{key: arrays[key] for key in TYPES})
    check_scenes(scenes, name)
    return scenes


def check_scenes(scenes: Scenes, name: str) -> None:
    """Raises `DataError` if pictures could not be drawn, or the trajectories contradict themselves."""
    for key, types in TYPES.items():
        if (actual := getattr(scenes, key).dtype) not in types:
            raise DataError(f"{name}: {key} has type {actual}: it should be {' or '.join(types)}")
    with naming(name):
        _check_shapes(scenes, name)
    _check_mazes(scenes, name)
    _check_rewards(scenes.rewards, name)
    _check_motion(scenes, name)


def _check_shapes(scenes: Scenes, name: str) -> None:
    count, size = scenes.walls.shape
    objects, length = scenes.objects.shape[1], scenes.poses.shape[1]
    if count < 1:
        raise DataError(f"{name}: no trajectories found")
    if size % 2 == 0 or not MIN_SIZE <= size <= MAX_SIZE or not 1 <= objects <= MAX_OBJECTS or length < 2:
        raise DataError(f"{name}: {size} cells, {objects} objects, {length} elements: not a valid maze")
    shapes = {
        "seeds": (count,),
        "rooms": (count, size),
        "textures": (count, 9),
        "colors": (count, objects),
        "hidden": (count, objects),
        "objects": (count, objects),
        "actions": (count, length - 1),
        "rewards": (count, length - 1),
        "targets": (count, length),
        "poses": (count, length, 4),
    }
    for key, shape in shapes.items():
        if getattr(scenes, key).shape != shape:
            raise DataError(f"{name}: {key} has shape {getattr(scenes, key).shape}: it should be {shape}")


def _check_mazes(scenes: Scenes, name: str) -> None:
    size, objects = scenes.size, scenes.objects.shape[1]
    bounds = {
        "walls": 2**size,
        "rooms": 2**size,
        "textures": len(WALL_TEXTURES),
        "objects": size * size,
        "colors": len(COLORS),
        "actions": len(ACTIONS),
        "targets": objects,
    }
    for key, bound in bounds.items():
        array = getattr(scenes, key)
        if (array >= bound).any():
            index = int(np.argwhere(array >= bound)[0][0])
            raise DataError(
                f"{name}: {key} of trajectory {index} has {array.max()}: it should be below {bound}"
            )
    blocked = np.take_along_axis(
        bits_of(scenes.walls).reshape(len(scenes), -1), scenes.objects.astype(int), axis=1
    ).any(axis=1)
    if blocked.any():
        raise DataError(f"{name}: an object of trajectory {np.argmax(blocked)} is inside a wall")
    for key in ("objects", "colors"):
        same = (np.diff(np.sort(getattr(scenes, key), axis=1), axis=1) == 0).any(axis=1)
        if same.any():
            raise DataError(f"{name}: two {key} of trajectory {np.argmax(same)} are the same")


def _check_motion(scenes: Scenes, name: str) -> None:
    poses = scenes.poses
    if not np.isfinite(poses).all():
        index, step, _ = np.argwhere(~np.isfinite(poses))[0]
        raise DataError(f"{name}: the pose of trajectory {index} is not finite at step {step}")
    cells = np.floor(np.clip(to_cells(poses[..., :2], scenes.size), -1, scenes.size)).astype(int)
    outside = ((cells < 0) | (cells >= scenes.size)).any(axis=2)
    row, column = np.clip(cells[..., 1], 0, scenes.size - 1), np.clip(cells[..., 0], 0, scenes.size - 1)
    walls = scenes.walls[np.arange(len(scenes))[:, None], row] >> column.astype(np.uint32) & 1
    wrong = outside | (walls == 1)
    if wrong.any():
        index, step = np.argwhere(wrong)[0]
        raise DataError(f"{name}: the agent of trajectory {index} is inside a wall at step {step}")
    jumps = np.abs(np.diff(poses[..., :2], axis=1)).max(axis=2) > CELL_METRES
    if jumps.any():
        index, step = np.argwhere(jumps)[0]
        raise DataError(f"{name}: the agent of trajectory {index} jumps at step {step + 1}")
    if (np.abs(poses[..., 2]) > CELL_METRES).any():
        raise DataError(f"{name}: an agent is not on the ground")
    if (np.abs(poses[..., 3]) > 2 * np.pi * scenes.length).any():
        raise DataError(f"{name}: an agent turned more than possible in its steps")


def join(parts: Sequence[Scenes]) -> Scenes:
    """Scenes of one size and length as one."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
