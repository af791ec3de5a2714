"""Small sound data, made by hand: nothing has to be compiled."""

import dataclasses
import json

import numpy as np

from memory_maze.data import scenes as scenes_module
from memory_maze.data.collection import make_manifest
from memory_maze.data.manifest import Manifest
from memory_maze.data.npz import pack_trajectory
from memory_maze.data.scenes import Scenes
from memory_maze.options import ACTIONS
from memory_maze.tasks import make_task
from memory_maze.world import CELL_METRES, COLORS, bits_of

SIZE, STEPS = 7, 20
WALLS = ((1, 1), (1, 3), (3, 5), (5, 2))  # row, column
OBJECTS = ((6, 0), (3, 3), (0, 6))  # column, row


def make_scenes(seeds: list[int], walls=WALLS, steps: int = STEPS, size: int = SIZE) -> Scenes:
    """Agents that go right along the bottom row, a quarter of a cell a step, and then stand still."""
    count = len(seeds)
    rows = np.zeros(size, np.uint32)
    for row, column in walls:
        rows[row] |= np.uint32(1 << column)
    times = np.minimum(np.arange(steps + 1), 20)
    poses = np.zeros((count, steps + 1, 4), np.float32)
    poses[..., 0] = (0.5 + 0.25 * times - size / 2) * CELL_METRES
    poses[..., 1] = (0.5 - size / 2) * CELL_METRES
    poses[..., 3] = 0.25 * np.arange(count)[:, None]
    rewards = np.zeros((count, steps), np.uint8)
    rewards[:, 9] = 1
    targets = np.zeros((count, steps + 1), np.uint8)
    targets[:, 10:] = 1
    return Scenes(
        seeds=np.array(seeds, np.uint32),
        walls=np.tile(rows, (count, 1)),
        rooms=np.zeros((count, size), np.uint32),
        textures=np.zeros((count, 9), np.uint8),
        objects=np.tile(np.array([size * row + column for column, row in OBJECTS], np.uint16), (count, 1)),
        colors=np.tile(np.arange(len(OBJECTS), dtype=np.uint8), (count, 1)),
        hidden=np.zeros((count, len(OBJECTS)), bool),
        actions=np.ones((count, steps), np.uint8),
        rewards=rewards,
        targets=targets,
        poses=poses,
    )


def make_arrays(scenes: Scenes, index: int = 0) -> dict[str, np.ndarray]:
    """One of them with the paper's keys; its pictures are any."""
    size, length = scenes.size, scenes.length
    pose, target = scenes.poses[index].astype(float), scenes.targets[index]
    places = pose[:, :2] / CELL_METRES + size / 2
    forward = np.stack([np.cos(pose[:, 3]), -np.sin(pose[:, 3])], axis=1)
    right = np.stack([forward[:, 1], -forward[:, 0]], axis=1)
    cells = scenes.objects[index].astype(int)
    objects = np.tile(np.stack([cells % size, cells // size], axis=1) + 0.5, (length, 1, 1))
    offsets = objects - places[:, None]
    vectors = np.stack([(offsets * axis[:, None]).sum(axis=2) for axis in (right, forward)], axis=2)
    action = np.zeros((length, len(ACTIONS)))
    action[np.arange(1, length), scenes.actions[index]] = 1
    blocks = np.random.RandomState(index).randint(0, 256, (length, 8, 8, 3), np.uint8)
    everything = np.arange(length)
    return {
        "image": blocks.repeat(8, axis=1).repeat(8, axis=2),
        "action": action.astype(np.uint8),
        "reward": np.concatenate([[0], scenes.rewards[index]]).astype(np.float32),
        "maze_layout": np.tile(~bits_of(scenes.walls[index]), (length, 1, 1)).astype(np.uint8),
        "agent_pos": places.astype(np.float32),
        "agent_dir": forward.astype(np.float32),
        "targets_pos": objects.astype(np.float32),
        "targets_vec": vectors.astype(np.float32),
        "target_pos": objects[everything, target].astype(np.float32),
        "target_vec": vectors[everything, target].astype(np.float32),
        "target_color": COLORS[scenes.colors[index][target]].astype(np.float32),
    }


def make_shards(manifest: Manifest) -> dict[str, Scenes]:
    """The scenes of each shard; walls are different in both splits."""
    walls = {"train": WALLS, "eval": (*WALLS, (4, 4))}
    return {
        shard.file: make_scenes(list(shard.episodes), walls[shard.split], manifest.steps)
        for shard in manifest.shards()
    }


def describe_set(format: str = "scenes", **keywords) -> Manifest:
    """Three shards: two of four trajectories for training, one of two for evaluation."""
    settings = {"episodes": 10, "evaluation": 2, "steps": STEPS, "shard": 4} | keywords
    manifest = make_manifest(
        make_task(SIZE, len(OBJECTS)), settings.pop("episodes"), format=format, **settings
    )
    return dataclasses.replace(manifest, made_with={})


def write_set(folder, format: str = "scenes", **keywords) -> Manifest:
    """A sound data set in a folder."""
    manifest = describe_set(format, **keywords)
    folder.mkdir(parents=True, exist_ok=True)
    manifest.save(folder)
    for shard, scenes in zip(manifest.shards(), make_shards(manifest).values(), strict=True):
        if format == "scenes":
            (folder / shard.file).write_bytes(scenes_module.to_bytes(scenes))
            continue
        names = manifest.trajectory_files(shard)
        for index, name in enumerate(names):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(pack_trajectory(make_arrays(scenes, index)))
        seeds = dict(zip(names, map(int, scenes.seeds), strict=True))
        (folder / shard.file).write_text(json.dumps({"seeds": seeds}))
    return manifest
