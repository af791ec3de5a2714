"""Checks every file of a data set, and measures what is in it. Nothing is changed."""

import collections
import concurrent.futures
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.data.manifest import CONVERTED, NAME, SPLITS, Manifest, Shard, read_manifest, read_record
from memory_maze.data.npz import Member, Opener, find_members, is_in_split
from memory_maze.data.scenes import UNKNOWN_SEED, Scenes, read_scenes
from memory_maze.data.schema import DataError, check_arrays, check_trajectory
from memory_maze.data.tracks import (
    Figures,
    Tracks,
    describe,
    join_figures,
    measure,
    tracks_of_arrays,
    tracks_of_scenes,
)
from memory_maze.system.files import is_temporary

ALL = "all"  # the split of trajectories that belong to none
_FORMATS = {"scenes": "scenes", "npz": "NPZ files"}

Note = Callable[[int, int], None]  # called with how many files are checked, and how many there are


@dataclasses.dataclass(frozen=True)
class Part:
    """A file to check."""

    member: Member
    split: str
    manifest: Manifest | None = None
    count: int = 1
    """Trajectories in it, as the manifest says."""


@dataclasses.dataclass
class Inspection:
    """What was found in a data set."""

    path: Path
    manifest: Manifest | None = None
    parts: list[Part] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    """What is wrong, each with the file's name."""
    remarks: list[str] = dataclasses.field(default_factory=list)
    """What is unusual and does no harm."""
    seeds: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    """Of the mazes, with the file's name."""
    figures: Figures | None = None
    """Of the sound trajectories."""
    places: list[tuple[Part, int]] = dataclasses.field(default_factory=list)
    """Where each of them is: the file, and which one in it."""
    formats: set[str] = dataclasses.field(default_factory=set)

    def report(self) -> dict[str, Any]:
        """Everything as plain data."""
        result: dict[str, Any] = {"path": str(self.path), "problems": self.problems, "remarks": self.remarks}
        if self.figures is None:
            return result | {"trajectories": 0}
        files = {part.member.path for part, _ in self.places}
        size = sum(file.stat().st_size for file in files)
        figures = describe(self.figures, [part.split for part, _ in self.places])
        kind = {"format": " and ".join(_FORMATS[name] for name in sorted(self.formats))}
        return result | kind | figures | {"bytes": size, "bytes_per_step": size / figures["steps"]}


def inspect(path: str | Path, note: Note = lambda done, total: None) -> Inspection:
    """Checks all files of a data set.

    Args:
        path: A folder of scenes or NPZ files, a zip file of NPZ files, or a single file.
        note: Told of progress.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} not found")
    found = find_parts(path)
    opener = Opener()
    figures: list[Figures] = []
    note(0, len(found.parts))
    for done, (part, content) in enumerate(_in_threads(lambda part: check_part(part, opener), found.parts)):
        note(done + 1, len(found.parts))
        if isinstance(content, Exception):
            found.problems.append(_name(content, part))
        elif difference := _difference(content.figures, figures):
            found.problems.append(f"{part.member.name}: {difference}")
        else:
            figures.append(content.figures)
            found.formats.add(content.format)
            found.places += [(part, index) for index in range(len(content.figures))]
            found.seeds += [(part.member.name, seed) for seed in content.seeds]
    if figures:
        found.figures = join_figures(figures)
        _check_splits(found)
    elif not found.problems:
        found.problems.append(f"{path}: no trajectories found")
    _check_seeds(found)
    return found


def _name(error: Exception, part: Part) -> str:
    """Errors of the operating system do not always name the file."""
    return str(error) if isinstance(error, DataError) else f"{part.member.name}: {error}"


def _difference(new: Figures, before: list[Figures]) -> str | None:
    """Statistics are of one kind of maze."""
    if not before or (new.layouts[0].shape, new.sums[0].shape) == (
        before[0].layouts[0].shape,
        before[0].sums[0].shape,
    ):
        return None
    kinds = [
        f"{one.layouts.shape[1]}x{one.layouts.shape[1]} with {one.sums.shape[1]}" for one in (new, before[0])
    ]
    return f"a maze of {kinds[0]} objects, and those before are {kinds[1]}: it is not counted"


def _in_threads(
    function: Callable[[Part], Any], parts: Iterable[Part], workers: int = os.cpu_count() or 1
) -> Iterator[tuple[Part, Any]]:
    """Results in order; few wait at a time, for they take memory."""
    waiting: collections.deque[tuple[Part, concurrent.futures.Future]] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for part in parts:
            waiting.append((part, pool.submit(function, part)))
            if len(waiting) > 2 * workers:
                part, future = waiting.popleft()
                yield part, future.result()
        for part, future in waiting:
            yield part, future.result()


def find_parts(path: Path) -> Inspection:
    """What there is to check; what is missing or does not belong here is noted already."""
    found = Inspection(path)
    try:
        found.manifest = read_manifest(path) if path.is_dir() else None
    except DataError as error:
        found.problems.append(str(error))
    if found.manifest is None:
        _find_loose(found)
    else:
        for shard in found.manifest.shards():
            _find_shard(found, found.manifest, shard)
        _find_unexpected(found, found.manifest)
    return found


def _find_loose(found: Inspection) -> None:
    """Files without a manifest."""
    path = found.path
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if not file.name.startswith(".")]
        members = [Member(file) for file in files if file.suffix == ".npz"]
        zips = [file for file in files if file.suffix == ".zip"]
    else:
        members, zips = [], [path]
    for file in zips:
        try:
            inside = find_members(file)
            if not inside:
                raise DataError(f"{file}: no NPZ files found")
            members += inside
        except (DataError, OSError) as error:
            found.problems.append(_name(error, Part(Member(file), ALL)))
    found.parts = [Part(member, _find_split(member, path)) for member in members]


def _find_split(member: Member, path: Path) -> str:
    """By the names of folders and zip files, as `load` does."""
    return next((split for split in SPLITS if is_in_split(member, path, split)), ALL)


def _find_shard(found: Inspection, manifest: Manifest, shard: Shard) -> None:
    path = found.path / shard.file
    if not path.exists():
        found.problems.append(f"{path}: missing: run memory-maze collect again to finish the data set")
        return
    if manifest.format == "scenes":
        found.parts.append(Part(Member(path), shard.split, manifest, len(shard.episodes)))
        return
    names = manifest.trajectory_files(shard)
    try:
        found.seeds += [(str(found.path / name), seed) for name, seed in read_record(path, names).items()]
    except DataError as error:
        found.problems.append(str(error))
    for file in (found.path / name for name in names):
        if file.exists():
            found.parts.append(Part(Member(file), shard.split, manifest))
        else:
            found.problems.append(f"{file}: missing")


def _find_unexpected(found: Inspection, manifest: Manifest) -> None:
    """Data that does not belong to the data set is wrong; other files are remarked."""
    known = {NAME} | {shard.file for shard in manifest.shards()}
    if manifest.format == "npz":
        known |= {name for shard in manifest.shards() for name in manifest.trajectory_files(shard)}
    for file in sorted(found.path.rglob("*")):
        name = file.relative_to(found.path)
        if file.is_dir() or name.as_posix() in known:
            continue
        if is_temporary(file):
            found.remarks.append(f"{file}: left by a collection that was interrupted or is running")
        elif any(place.startswith(".") for place in name.parts):
            continue
        elif file.suffix in (".npz", ".zip"):
            found.problems.append(f"{file}: unexpected: {NAME} does not name it")
        else:
            found.remarks.append(f"{file}: not part of the data set")


@dataclasses.dataclass(frozen=True)
class Content:
    """What a sound file holds."""

    format: str
    figures: Figures
    seeds: list[int]


def check_part(part: Part, opener: Opener) -> Content | Exception:
    """Reads a file completely; what is wrong with it is returned, so that the others are checked."""
    try:
        source = read_part(part, opener)
        seeds = source.seeds.tolist() if isinstance(source, Scenes) else []
        tracks = tracks_of_scenes(source) if isinstance(source, Scenes) else tracks_of_arrays(source)
        _check_manifest(part, tracks)
        return Content("scenes" if isinstance(source, Scenes) else "npz", measure(tracks), seeds)
    except (DataError, OSError) as error:
        return error


def read_part(part: Part, opener: Opener) -> Scenes | dict[str, np.ndarray]:
    """Scenes, or the arrays of a trajectory; `DataError` if there is anything wrong with them."""
    name = part.member.name
    with opener.open(part.member) as archive:
        headers = archive.headers()
        if part.manifest.format == "scenes" if part.manifest else "poses" in headers:
            return read_scenes(opener.find(part.member), name)
        resolution = part.manifest.options.camera_resolution if part.manifest else None
        check_arrays(headers, name, resolution)
        arrays = archive.read_all()
    check_trajectory(arrays, name, resolution)
    return arrays


def _check_manifest(part: Part, tracks: Tracks) -> None:
    if (manifest := part.manifest) is None:
        return
    actual = (
        len(tracks.layouts),
        tracks.layouts.shape[1],
        tracks.objects.shape[1],
        tracks.actions.shape[1],
    )
    expected = (part.count, manifest.task.size, manifest.task.objects, manifest.steps)
    for what, one, other in zip(("trajectories", "cells", "objects", "steps"), actual, expected, strict=True):
        if one != other:
            raise DataError(f"{part.member.name}: {one} {what}: {NAME} says {other}")


def _check_seeds(found: Inspection) -> None:
    owners: dict[int, str] = {}
    for name, seed in found.seeds:
        if seed in owners and seed != UNKNOWN_SEED:
            found.problems.append(f"{name}: the seed {seed} is also in {owners[seed]}")
        owners.setdefault(seed, name)


def _check_splits(found: Inspection) -> None:
    """No layout may be in both splits of our own data sets; others are free to."""
    assert found.figures is not None
    layouts = np.packbits(found.figures.layouts.reshape(len(found.figures), -1), axis=1)
    train = {
        layout.tobytes()
        for layout, (part, _) in zip(layouts, found.places, strict=True)
        if part.split == "train"
    }
    for layout, (part, index) in zip(layouts, found.places, strict=True):
        if part.split == "eval" and layout.tobytes() in train:
            text = f"{part.member.name}: the layout of trajectory {index} is also in the split train"
            ours = found.manifest is not None and CONVERTED not in found.manifest.made_with
            (found.problems if ours else found.remarks).append(text)
