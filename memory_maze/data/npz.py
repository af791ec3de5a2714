"""Trajectories as the paper's NPZ files, one each: in a folder, or in zip files as they were published."""

import collections
import concurrent.futures
import dataclasses
import io
import math
import re
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.data.archive import LIMIT, Archive, check_member, naming, open_zip, pack
from memory_maze.data.manifest import SPLITS
from memory_maze.data.schema import KEYS, RESET, RESOLUTION, DataError, Key, check_arrays, find_resolution
from memory_maze.system.cpu import memory_bytes

_THREADS = 8


@dataclasses.dataclass(frozen=True)
class Member:
    """Where a trajectory is: a file, or a file inside a zip file."""

    path: Path
    inner: str | None = None

    @property
    def name(self) -> str:
        return str(self.path) if self.inner is None else f"{self.path}: {self.inner}"


def find_members(path: Path) -> list[Member]:
    """All trajectories in a folder, with those below it, or in a zip file, in the order of their names."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.npz") if not file.name.startswith("."))
        members = [Member(file) for file in found]
        zips = sorted(path.rglob("*.zip"))
        return members + [member for file in zips for member in find_members(file)]
    with naming(str(path)), open_zip(path) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        names = sorted(check_member(info, str(path)) for info in infos)
    if twice := [name for name, count in collections.Counter(names).items() if count > 1]:
        raise DataError(f"{path}: duplicate file {twice[0]}")
    if any(name.endswith(".npy") for name in names):
        return [Member(path)]  # a single trajectory
    return [Member(path, name) for name in names if name.endswith(".npz")]


def is_in_split(member: Member, root: Path, split: str) -> bool:
    """Whether the nearest of file, folders and zip file with a split for a word in its name names this."""
    places = [*member.path.relative_to(root).parts, *(member.inner or "").split("/")]
    for place in reversed(places):
        if named := {split, *SPLITS} & set(re.findall("[a-z]+", place.lower())):
            return named == {split}
    return False


def pack_trajectory(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a trajectory's file."""
    return pack({key: arrays[key].astype(rule.dtype) for key, rule in KEYS.items()}, compress=True)


class Opener:
    """Opens trajectories; zip files stay open. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zips: dict[Path, zipfile.ZipFile] = {}

    def open(self, member: Member) -> Archive:
        """A trajectory's file."""
        source = self.find(member)
        return Archive(io.BytesIO(source) if isinstance(source, bytes) else source, member.name)

    def find(self, member: Member) -> Path | bytes:
        """A file, or the content of one that is inside a zip file."""
        if member.inner is None:
            return member.path
        with naming(member.name):
            return self._unpack(member.path, member.inner)

    def _unpack(self, path: Path, inner: str) -> bytes:
        with self._lock:
            if path not in self._zips:
                self._zips[path] = open_zip(path)
            outer = self._zips[path]
        size = outer.getinfo(inner).file_size
        if size > LIMIT:
            raise ValueError(f"{size:,} bytes uncompressed: the limit is {LIMIT:,}")
        with outer.open(inner) as handle:
            data = handle.read(size + 1)
        if len(data) != size:
            raise EOFError(f"{len(data):,} bytes instead of {size:,}")
        return data


class Files:
    """Trajectories in NPZ files.

    Args:
        members: Where they are.
        keep: How many whole trajectories to keep in memory, for orders that come back to them.
        resolution: Of their pictures; by default that of the first file.
    """

    def __init__(self, members: Sequence[Member], keep: int = 0, resolution: int | None = None) -> None:
        self.members = list(members)
        self._keep = keep
        self._kept: collections.OrderedDict[int, dict[str, np.ndarray]] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._opener = Opener()
        self._pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
        self.resolution = resolution
        headers = list(self._pool.map(self._read_headers, range(len(self.members))))
        self.resolution = find_resolution(headers[0]["image"])
        self.lengths = np.array([shapes["image"][0] for shapes in headers])
        self.size, self.objects = headers[0]["maze_layout"][1], headers[0]["targets_pos"][1]
        for member, shapes in zip(self.members, headers, strict=True):
            size, objects = shapes["maze_layout"][1], shapes["targets_pos"][1]
            if (side := find_resolution(shapes["image"])) != self.resolution:
                raise DataError(
                    f"{member.name}: images of {side}x{side}, and the first file has "
                    f"{self.resolution}x{self.resolution}: load one kind at a time"
                )
            if (size, objects) != (self.size, self.objects):
                raise DataError(
                    f"{member.name}: {size}x{size} with {objects} objects, and the first file is "
                    f"{self.size}x{self.size} with {self.objects}: load one kind at a time"
                )

    def __len__(self) -> int:
        return len(self.members)

    def keeping(self, count: int, keys: tuple[str, ...]) -> "Files":
        """The same files, with a memory for so many whole trajectories, if there is room for them."""
        wanted = [KEYS[key] for key in keys if key != RESET]
        numbers = [math.prod(self._sizes(key)) * key.dtype().itemsize for key in wanted]
        if count * int(self.lengths.max()) * sum(numbers) > memory_bytes() // 2:
            return self
        files = object.__new__(Files)
        files.__dict__ |= self.__dict__
        files._keep, files._kept, files._lock = count, collections.OrderedDict(), threading.Lock()
        return files

    def read(self, trajectories: np.ndarray, times: np.ndarray, keys: tuple[str, ...]) -> dict[str, Any]:
        """Arrays of the elements that two (B, T) arrays name."""
        wanted = tuple(key for key in keys if key != RESET)
        jobs = [(row, *run) for row in range(len(times)) for run in _runs(trajectories[row], times[row])]
        parts = self._pool.map(lambda job: self._read_run(*job[2:], wanted), jobs)
        arrays = {key: np.zeros((*times.shape, *self._sizes(KEYS[key])), KEYS[key].dtype) for key in wanted}
        for (row, first, _, start, stop), part in zip(jobs, parts, strict=True):
            for key in wanted:
                arrays[key][row, first : first + stop - start] = part[key]
        return arrays | ({RESET: times == 0} if RESET in keys else {})

    def read_whole(self, index: int, keys: tuple[str, ...] = tuple(KEYS)) -> dict[str, np.ndarray]:
        """A trajectory as it stands in its file."""
        with self._opener.open(self.members[index]) as archive:
            return {key: archive.read(key) for key in keys}

    def _sizes(self, key: Key) -> tuple[int, ...]:
        return key.sizes(self.size, self.objects, self.resolution or RESOLUTION)

    def _read_run(self, index: int, start: int, stop: int, keys: tuple[str, ...]) -> dict[str, np.ndarray]:
        if not self._keep:
            with self._opener.open(self.members[index]) as archive:
                return {key: archive.read(key, start, stop) for key in keys}
        with self._lock:
            kept = self._kept.get(index)
        if kept is None or not kept.keys() >= set(keys):
            kept = self.read_whole(index, keys)
        with self._lock:
            self._kept[index] = kept
            self._kept.move_to_end(index)
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        return {key: kept[key][start:stop] for key in keys}

    def _read_headers(self, index: int) -> dict[str, tuple[int, ...]]:
        with self._opener.open(self.members[index]) as archive:
            headers = archive.headers()
        check_arrays(headers, self.members[index].name, self.resolution)
        return {key: shape for key, (shape, _) in headers.items()}


def _runs(trajectories: np.ndarray, times: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    """The stretches of one trajectory in a row: where it stands in the row, which it is, start and stop."""
    breaks = np.flatnonzero((np.diff(trajectories) != 0) | (np.diff(times) != 1)) + 1
    for first, last in zip([0, *breaks], [*breaks, len(times)], strict=True):
        yield int(first), int(trajectories[first]), int(times[first]), int(times[last - 1]) + 1
