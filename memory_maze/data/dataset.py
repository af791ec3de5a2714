"""Loading data sets, and iterating over them as random windows or whole trajectories."""

import atexit
import contextlib
import queue
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from memory_maze.data.archive import Archive
from memory_maze.data.frames import Reader
from memory_maze.data.manifest import Manifest, Shard, read_manifest, read_record
from memory_maze.data.npz import Files, Member, find_members, is_in_split
from memory_maze.data.order import ORDERS, Order, check_sizes, split_between
from memory_maze.data.scenes import UNKNOWN_SEED, Scenes, join, read_scenes
from memory_maze.data.schema import KEYS, RESET, DataError, check_keys
from memory_maze.options import DEFAULT
from memory_maze.system.cpu import memory_bytes
from memory_maze.system.files import explain

Arrays = Literal["numpy", "jax", "dlpack"]
SEQUENCE_KEYS = (*KEYS, RESET)


def load(
    path: str | Path, split: str | None = None, *, engine: str | None = None, partial: bool = False
) -> "Dataset":
    """Loads a data set: a directory of scenes or NPZ files, a zip file of NPZ files, or `hub:owner/name`.

    Args:
        path: Path, or name on the Hugging Face hub, which is downloaded once into the cache.
        split: "train" or "eval"; by default both.
        engine: Engine that renders scenes; by default the one that recorded them.
        partial: Allow incomplete data sets, and load the available part.
    """
    from memory_maze.data import hub

    name = str(path)
    if hub.is_name(name):
        path = hub.fetch(name)
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(hub.explain_missing(name))
    manifest = read_manifest(path) if path.is_dir() else None
    if manifest is not None and not partial:
        manifest.check_complete(path, split)
    if manifest is None:
        members = _find_files(path, split)
        evaluation = sum(is_in_split(member, path, "eval") for member in members)
        return Dataset(path, Files(members), evaluation=evaluation)
    shards = manifest.complete(path, split)
    if not shards:
        raise DataError(f"{path}: no trajectories found{f' for {split}' if split else ''}")
    with _advising("load it" if hub.is_name(name) else "run memory-maze collect"):
        return _load_shards(path, manifest, shards, engine)


@contextlib.contextmanager
def _advising(remedy: str) -> Generator[None]:
    """Adds to errors how to recreate the file."""
    try:
        yield
    except TooLargeError:
        raise
    except (DataError, FileNotFoundError) as error:
        raise DataError(f"{explain(error)}: remove this file, and {remedy} again") from error


def _load_shards(path: Path, manifest: Manifest, shards: list[Shard], engine: str | None) -> "Dataset":
    evaluation = sum(len(shard.episodes) for shard in shards if shard.split == "eval")
    if manifest.format == "scenes":
        _check_memory(path, shards)
        scenes = join([_read_shard(path, manifest, shard) for shard in shards])
        return Dataset(path, scenes, manifest, engine=engine or manifest.engine, evaluation=evaluation)
    seeds: dict[str, int] = {}
    for shard in shards:
        seeds |= read_record(path / shard.file, manifest.trajectory_files(shard))
    members = [Member(path / name) for name in seeds]
    files = Files(members, resolution=manifest.options.camera_resolution)
    return Dataset(path, files, manifest, evaluation=evaluation, seeds=[*seeds.values()])


def _check_memory(path: Path, shards: list[Shard]) -> None:
    """Scenes are held in memory, and twice while they are put together."""
    total, memory = 0, memory_bytes()
    for shard in shards:
        with Archive(path / shard.file, str(path / shard.file)) as archive:
            total += archive.unpacked
        if 2 * total > memory:
            raise TooLargeError(
                f"{path}: {total:,} bytes uncompressed up to {shard.file}, and loading takes twice as "
                f"much memory: this machine has {memory:,} bytes; load a single split, or use a larger one"
            )


def _read_shard(path: Path, manifest: Manifest, shard: Shard) -> Scenes:
    scenes = read_scenes(path / shard.file)
    found = len(scenes), scenes.size, scenes.objects.shape[1], scenes.length
    wanted = len(shard.episodes), manifest.task.size, manifest.task.objects, manifest.steps + 1
    if found != wanted:
        raise DataError(
            f"{path / shard.file}: trajectories, size, objects and elements are {found}, not {wanted}"
        )
    return scenes


def _find_files(path: Path, split: str | None) -> list[Member]:
    """With a split, the files whose folder or zip file is named after it; those of "eval" are the last."""
    members = find_members(path)
    if split is not None:
        members = [member for member in members if is_in_split(member, path, split)]
    members.sort(key=lambda member: is_in_split(member, path, "eval"))
    if not members:
        raise DataError(f"{path}: no NPZ files found{f' for {split}' if split else ''}")
    return members


class TooLargeError(DataError):
    """The data set does not fit into memory."""


class Dataset:
    """Trajectories of one maze size. `dataset[i]` is a dictionary of arrays with the paper's keys."""

    def __init__(
        self,
        path: Path,
        source: Scenes | Files,
        manifest: Manifest | None = None,
        *,
        engine: str = "jax",
        evaluation: int = 0,
        seeds: Sequence[int | None] | None = None,
    ) -> None:
        self.path, self.manifest = path, manifest
        self.evaluation = evaluation
        """Number of evaluation trajectories, which are the last ones."""
        self.scenes = source if isinstance(source, Scenes) else None
        """All scenes, in memory; None for NPZ files."""
        self.options = manifest.options if manifest else DEFAULT
        """Options of the recorded variant, if known."""
        self._kept: tuple[int, Files] | None = None
        self._source: Reader | Files = (
            source if isinstance(source, Files) else Reader(source, engine, self.options)
        )
        if isinstance(source, Scenes):
            self.lengths = np.full(len(source), source.length)
            self.size, self.objects = source.size, source.objects.shape[1]
            seeds = [None if seed == UNKNOWN_SEED else seed for seed in source.seeds.tolist()]
        else:
            self.lengths, self.size, self.objects = source.lengths, source.size, source.objects
        self.seeds = list(seeds or [None] * len(self.lengths))
        """Seeds of the mazes, for `reset(seed=...)`; None if unknown."""

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        kind = "NPZ files" if self.scenes is None else "scenes"
        steps = int((self.lengths - 1).sum())
        return (
            f"<{len(self)} trajectories of {self.size}x{self.size}, {steps:,} steps, {kind} in {self.path}>"
        )

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return self.read(index)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return (self.read(index) for index in range(len(self)))

    def read(
        self, index: int, start: int = 0, stop: int | None = None, keys: tuple[str, ...] = tuple(KEYS)
    ) -> dict[str, np.ndarray]:
        """Returns a trajectory, or a slice of it; element 0 is before the first action."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"trajectory {index} is out of range: there are {len(self)}")
        index %= len(self)
        times = np.arange(self.lengths[index])[start:stop]
        arrays = self._source.read(np.full((1, len(times)), index), times[None], check_keys(keys))
        return {key: np.array(array[0]) for key, array in jax.device_get(arrays).items()}

    def take(
        self, trajectories: np.ndarray, times: np.ndarray, keys: tuple[str, ...] = SEQUENCE_KEYS
    ) -> dict[str, Any]:
        """Gathers elements by two (B, T) arrays of trajectory and time indices.

        Scenes return arrays on the device. NPZ files are decompressed whole; those of the last call are kept
        for the next one.
        """
        keys = check_keys(keys)
        if isinstance(self._source, Files):
            count = len(np.unique(trajectories))
            if self._kept is None or self._kept[0] < count:
                self._kept = count, self._source.keeping(count, keys)
            return self._kept[1].read(trajectories, times, keys)
        return self._source.read(trajectories, times, keys)

    def windows(self, batch: int = 32, time: int = 48, **keywords: Any) -> "Batches":
        """Iterates endlessly over random windows: dictionaries of (batch, time) arrays. See `batches`."""
        return self.batches("windows", batch, time, **keywords)

    def replay(self, batch: int = 32, time: int = 48, **keywords: Any) -> "Batches":
        """Iterates endlessly over whole trajectories in order, for truncated backpropagation through time.

        Each row continues where it stopped in the previous batch (with `interleave=n`, n batches before).
        `reset` is true at the start of a trajectory: reset the carry there. See `batches` for keywords.
        """
        return self.batches("replay", batch, time, **keywords)

    def batches(
        self,
        order: Literal["windows", "replay"],
        batch: int,
        time: int,
        *,
        keys: tuple[str, ...] = SEQUENCE_KEYS,
        arrays: Arrays = "numpy",
        seed: int = 0,
        position: dict[str, Any] | None = None,
        part: tuple[int, int] = (0, 1),
        interleave: int = 1,
        prefetch: int = 2,
    ) -> "Batches":
        """Returns an endless iterator over training sequences.

        Args:
            order: "windows" or "replay".
            batch: Batch size.
            time: Sequence length.
            keys: Keys of the arrays; "reset" marks the start of a trajectory.
            arrays: "numpy", "jax" on the default device, or "dlpack" for other libraries, without a transfer.
            seed: Seed of the order.
            position: Position of an iterator with the same arguments, to resume from.
            part: (index, count) of this process, to shard the data over several.
            interleave: For "replay": this many batches of different trajectories alternate, and a row
                continues where it stopped that many batches before. Keep a carry for each of them. With few,
                models may overfit to the mazes of consecutive batches.
            prefetch: Number of batches to prepare in advance.
        """
        check_sizes(batch=batch, time=time, interleave=interleave)
        if arrays not in ("numpy", "jax", "dlpack"):
            raise ValueError(f"arrays must be numpy, jax or dlpack: got {arrays!r}")
        trajectories = split_between(len(self), part)
        lengths = self.lengths[trajectories]
        chosen = ORDERS[order](trajectories, lengths, batch, time, seed, position, interleave)
        source, keys = self._source, check_keys(tuple(keys))
        if isinstance(source, Files) and order == "replay":
            source = source.keeping(interleave * batch + 2, keys)
        return Batches(chosen, source.read, keys, _CONVERT[arrays], prefetch)


def _to_numpy(arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    return {key: np.array(array) for key, array in jax.device_get(arrays).items()}


def _to_dlpack(arrays: dict[str, Any]) -> dict[str, Any]:
    """Converts booleans, which not every library supports."""
    return {key: array.astype(np.uint8) if array.dtype == bool else array for key, array in arrays.items()}


_CONVERT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "numpy": _to_numpy,
    "jax": jax.device_put,
    "dlpack": _to_dlpack,
}


_RUNNING: weakref.WeakKeyDictionary[threading.Thread, threading.Event] = weakref.WeakKeyDictionary()


@atexit.register
def _end_threads() -> None:
    """JAX aborts the process if a thread is in it when Python ends."""
    for thread, stop in list(_RUNNING.items()):
        stop.set()
        thread.join()


_CLOSED = object()  # in place of a batch: there are no more


class Batches:
    """An endless iterator that prefetches in a thread. `position` is that of the consumer, as plain data."""

    def __init__(
        self,
        order: Order,
        read: Callable[..., dict[str, Any]],
        keys: tuple[str, ...],
        convert: Callable[[dict[str, Any]], dict[str, Any]],
        prefetch: int,
    ) -> None:
        self.position = order.position
        self._made: queue.Queue = queue.Queue(max(prefetch, 1))
        self._stop = threading.Event()
        # The thread must not hold this object, or it would never end.
        job = (order, read, keys, convert, self._made, self._stop)
        self._thread = threading.Thread(target=_make_batches, args=job, daemon=True)
        _RUNNING[self._thread] = self._stop
        self._thread.start()

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> dict[str, Any]:
        if self._stop.is_set():
            raise RuntimeError("the iterator is closed")
        made, position = self._made.get()
        if made is _CLOSED:
            self._made.put((_CLOSED, position))  # for others who wait
            raise RuntimeError("the iterator is closed")
        if isinstance(made, BaseException):
            self.close()
            raise made
        self.position = position
        return made

    def close(self) -> None:
        """Stops the thread and wakes waiting consumers; may be called twice."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> "Batches":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._stop.set()


def _make_batches(
    order: Order,
    read: Callable[..., dict[str, Any]],
    keys: tuple[str, ...],
    convert: Callable[[dict[str, Any]], dict[str, Any]],
    made: queue.Queue,
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        try:
            item: Any = convert(read(*order.draw(), keys))
        except BaseException as error:  # the consumer raises it
            item = error
        item = item, order.position
        while not stop.is_set():
            try:
                made.put(item, timeout=0.2)
                break
            except queue.Full:
                continue
    with contextlib.suppress(queue.Full):  # then nobody waits for one
        made.put_nowait((_CLOSED, order.position))
