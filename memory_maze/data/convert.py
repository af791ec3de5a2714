"""From scenes to NPZ files and back.

NPZ files do not say how walls look: that is found in their pictures. The height of the ball, less than a
hair's breadth, is not in them either. So pictures of scenes that were NPZ files are close to those files',
not the same.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from memory_maze.data import scenes as scenes_module
from memory_maze.data.collection import (
    SHARDS,
    File,
    Note,
    describe_maker,
    fill,
    pack_trajectories,
    record_seeds,
)
from memory_maze.data.dataset import Dataset
from memory_maze.data.frames import read_frames
from memory_maze.data.manifest import CONVERTED, Manifest, Shard
from memory_maze.data.scenes import UNKNOWN_SEED, Scenes
from memory_maze.data.schema import DataError
from memory_maze.engine.picture.textures import load_atlas
from memory_maze.scenario import FLOOR, WALL, WALL_TEXTURES, find_rooms
from memory_maze.system.programs import cache_programs
from memory_maze.tasks import CONTROL_FREQ, make_task
from memory_maze.variants import name_options, record_options
from memory_maze.world import CELL_METRES, COLORS, bit_rows

REST = -0.000367  # metres: the height of a ball that stands
BLOCKS = 9
_FIRST_LOOK = 32  # pictures of a trajectory
_WELL_DRAWN = 36.0  # dB: pictures of the reference are at least 38 from ours
_ROUNDS = 3


def convert(dataset: Dataset, out: Path, manifest: Manifest, note: Note = lambda shard, fresh: None) -> None:
    """Writes a data set in the format of a manifest from `plan`; run again it goes on where it was."""

    def make(todo: list[Shard]) -> Iterator[tuple[Shard, Iterator[File]]]:
        return ((shard, convert_shard(dataset, manifest, shard)) for shard in todo)

    cache_programs()
    fill(out, manifest, make, note)


def convert_shard(dataset: Dataset, manifest: Manifest, shard: Shard) -> Iterator[File]:
    """Names and contents of a shard's files in the other format; the one that completes it comes last."""
    indices = np.arange(len(dataset))[shard.episodes.start : shard.episodes.stop]
    if manifest.format == "scenes":
        parts = [
            scene_of(dataset[index], f"{dataset.path}: trajectory {index}", dataset.seeds[index])
            for index in indices
        ]
        yield shard.file, scenes_module.to_bytes(scenes_module.join(parts))
        return
    assert dataset.scenes is not None
    scenes = jax.tree.map(lambda array: array[indices], dataset.scenes)
    names = manifest.trajectory_files(shard)
    yield from zip(names, pack_trajectories(scenes, manifest.engine, manifest.options), strict=True)
    yield shard.file, record_seeds(names, scenes.seeds.tolist())


def plan(dataset: Dataset, format: str) -> Manifest:
    """What the data set is in the other format."""
    if (dataset.scenes is not None) == (format == "scenes"):
        raise ValueError(f"{dataset.path}: it already has the format {format}")
    if len(set(dataset.lengths.tolist())) > 1:
        raise DataError(
            f"{dataset.path}: its trajectories have {sorted(set(dataset.lengths.tolist()))[:2]} elements: "
            "scenes must have equal lengths"
        )
    steps = int(dataset.lengths[0]) - 1
    before = dataset.manifest
    if before is not None and format == "npz":
        return dataclasses.replace(before, format=format, shard=SHARDS[format, before.engine])
    if record_options(dataset.options):
        raise DataError(
            f"{dataset.path}: it is of the variant {name_options(dataset.options)}, whose images "
            "wall textures cannot be inferred from: collect it as scenes, or keep the NPZ files"
        )
    manifest = before or Manifest(
        format="npz",
        task=make_task(dataset.size, objects=dataset.objects, seconds=steps / CONTROL_FREQ),
        episodes=len(dataset),
        evaluation=dataset.evaluation,
        steps=steps,
        policy="unknown",
        engine="unknown",
        seed=0,
        shard=1,
        made_with={},
    )
    return dataclasses.replace(
        manifest,
        format=format,
        engine="jax",
        shard=SHARDS["npz", "jax"],
        made_with=describe_maker("jax") | {CONVERTED: "NPZ files"},
    )


def scene_of(arrays: dict[str, np.ndarray], name: str, seed: int | None = None) -> Scenes:
    """One trajectory of NPZ arrays as a scene."""
    layout = np.asarray(arrays["maze_layout"][0])
    size = len(layout)
    rows = tuple("".join(FLOOR if cell else WALL for cell in row) for row in np.pad(layout, 1)[::-1])
    rooms = np.array([[char.isupper() for char in row] for row in find_rooms(rows)])[1:-1, 1:-1][::-1]
    cells = arrays["targets_pos"][0].astype(int)
    objects = (cells[:, 0] + size * cells[:, 1]).astype(np.uint16)
    away = np.abs(arrays["targets_pos"] - arrays["target_pos"][:, None]).sum(axis=2)
    targets = away.argmin(axis=1).astype(np.uint8)
    scene = Scenes(
        seeds=np.array([UNKNOWN_SEED if seed is None else seed], np.uint32),
        walls=bit_rows(layout == 0)[None],
        rooms=bit_rows(rooms)[None],
        textures=np.zeros((1, BLOCKS), np.uint8),
        objects=objects[None],
        colors=_find_colors(targets, arrays["target_color"], len(objects))[None],
        hidden=(objects == size * size // 2)[None],
        actions=arrays["action"][1:].argmax(axis=1).astype(np.uint8)[None],
        rewards=scenes_module.pack_rewards(arrays["reward"][1:], name)[None],
        targets=targets[None],
        poses=_find_poses(arrays, size)[None],
    )
    scenes_module.check_scenes(scene, name)
    return dataclasses.replace(scene, textures=find_textures(scene, arrays["image"])[None])


def _find_colors(targets: np.ndarray, seen: np.ndarray, count: int) -> np.ndarray:
    """Those that were asked for tell theirs; the others have the first colours that are left."""
    numbers = np.abs(COLORS - seen[:, None]).sum(axis=2).argmin(axis=1)
    known = {int(target): int(number) for target, number in zip(targets, numbers, strict=True)}
    usual = [number for number in range(len(COLORS)) if number not in known.values()]
    colors = np.zeros(count, np.uint8)
    for index in range(count):
        if index in known:
            colors[index] = known[index]
        else:
            colors[index] = index if index in usual else usual[0]
            usual.remove(colors[index])
    return colors


def _find_poses(arrays: dict[str, np.ndarray], size: int) -> np.ndarray:
    place = (arrays["agent_pos"].astype(float) - size / 2) * CELL_METRES
    forward = arrays["agent_dir"].astype(float)
    steer = -np.unwrap(np.arctan2(forward[:, 1], forward[:, 0]))
    return np.column_stack([place, np.full(len(place), REST), steer]).astype(np.float32)


def find_textures(scene: Scenes, images: np.ndarray) -> np.ndarray:
    """(9,) uint8: the wall textures with which the pictures look as they do."""
    times = np.linspace(0, len(images) - 1, min(_FIRST_LOOK, len(images))).astype(int)
    textures = np.zeros(BLOCKS, np.uint8)
    for _ in range(_ROUNDS):
        textures = _fit(scene, images, times)
        quality = psnr(redraw(scene, textures, np.arange(len(images))), images)
        if quality.min() > _WELL_DRAWN:
            break
        # Walls that were not in sight yet are in the worst pictures.
        times = np.unique(np.concatenate([times, np.argsort(quality)[:_FIRST_LOOK]]))
        times = np.resize(times, 2 * _FIRST_LOOK * -(-len(times) // (2 * _FIRST_LOOK)))
    return textures


def _fit(scene: Scenes, images: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The best texture of each block by itself: a pixel shows one block."""
    alike = np.repeat(np.arange(len(WALL_TEXTURES), dtype=np.uint8)[:, None], BLOCKS, axis=1)
    marked = np.where(np.eye(BLOCKS, dtype=bool), 1, 0).astype(np.uint8)
    drawn = np.stack([redraw(scene, textures, times) for textures in (*alike, *marked)]).astype(np.int16)
    drawn, marked_drawn = drawn[: len(alike)], drawn[len(alike) :]
    errors = (np.abs(drawn - images[times]).astype(np.int64) ** 2).sum(axis=-1)
    shows = (marked_drawn != drawn[0]).any(axis=-1)  # (blocks, pictures, 64, 64)
    return np.array([errors[:, seen].sum(axis=1).argmin() for seen in shows], np.uint8)


def redraw(scene: Scenes, textures: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(F, 64, 64, 3) uint8: pictures of a scene with other wall textures."""
    scene = dataclasses.replace(scene, textures=textures[None])
    zeros = np.zeros_like(times, np.int32)[None]
    return np.asarray(
        read_frames(scene, load_atlas(), zeros, times[None].astype(np.int32), ("image",))["image"][0]
    )


def psnr(drawn: np.ndarray, images: np.ndarray) -> np.ndarray:
    """(F,) decibels."""
    errors = (drawn.astype(float) - images).reshape(len(images), -1)
    return 10 * np.log10(255**2 / np.maximum((errors**2).mean(axis=1), 1e-3))
