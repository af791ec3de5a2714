"""What a collected data set is: `dataset.json` in its folder, and which files it consists of.

scenes/train-00000.npz     many trajectories each, see `scenes.Scenes`
npz/train/000000.npz       one trajectory each, with the paper's keys
npz/train-00000.json       which files are complete, and the seeds of their mazes
"""

import dataclasses
import json
import stat
from pathlib import Path
from typing import Any

from memory_maze.data.schema import DataError
from memory_maze.episodes.rollout import ENGINES
from memory_maze.options import DEFAULT, Options
from memory_maze.sampler import MAX_SEED
from memory_maze.system.files import replacing
from memory_maze.tasks import MAX_SECONDS, Task
from memory_maze.variants import read_options, record_options

NAME = "dataset.json"
FORMAT = "memory-maze-data-1"
FORMATS = ("scenes", "npz")
SPLITS = ("train", "eval")
CONVERTED = "converted from"  # in `made_with`, of data sets that were made elsewhere
MAX_EPISODES = 1 << 20
_MAX_BYTES = 1 << 20  # of the file
_MAX_LINE = 100  # bytes of a trajectory, in the list of a part


@dataclasses.dataclass(frozen=True)
class Shard:
    """Trajectories that are made together."""

    split: str
    index: int
    episodes: range
    """Their numbers, which are different in all splits."""
    file: str
    """Is there when the shard is complete."""


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Everything that a data set depends on."""

    format: str
    task: Task
    episodes: int
    evaluation: int
    """How many of the episodes, the last ones, are the split "eval"."""
    steps: int
    policy: str
    engine: str
    seed: int
    shard: int
    """Trajectories in a shard."""
    made_with: dict[str, str]
    """Versions and the type of device, on which the last bits depend."""
    options: Options = DEFAULT
    """Which variant of the task; the file leaves out what is as by default."""

    def count(self, split: str) -> int:
        return self.evaluation if split == "eval" else self.episodes - self.evaluation

    def first(self, split: str) -> int:
        """The number of the split's first episode."""
        return self.episodes - self.evaluation if split == "eval" else 0

    def shards(self, split: str | None = None) -> list[Shard]:
        """All files that make up the data set, or a split of it."""
        if split not in (None, *SPLITS):
            raise ValueError(f"unknown split {split!r}: choose {' or '.join(SPLITS)}")
        ending = "npz" if self.format == "scenes" else "json"
        shards = []
        for name in SPLITS if split is None else (split,):
            first, count = self.first(name), self.count(name)
            for index, start in enumerate(range(first, first + count, self.shard)):
                episodes = range(start, min(start + self.shard, first + count))
                shards.append(Shard(name, index, episodes, f"{name}-{index:05d}.{ending}"))
        return shards

    def trajectory_files(self, shard: Shard) -> list[str]:
        """The files of the trajectories of the NPZ format."""
        first = self.first(shard.split)
        return [f"{shard.split}/{episode - first:06d}.npz" for episode in shard.episodes]

    def complete(self, folder: Path, split: str | None = None) -> list[Shard]:
        """What is there."""
        return [shard for shard in self.shards(split) if (folder / shard.file).exists()]

    def missing(self, folder: Path, split: str | None = None) -> list[Shard]:
        """What is not yet there."""
        return [shard for shard in self.shards(split) if not (folder / shard.file).exists()]

    def check_complete(self, folder: Path, split: str | None) -> None:
        if missing := self.missing(folder, split):
            raise DataError(
                f"{folder}: {len(missing)} of {len(self.shards(split))} parts are missing, the first is "
                f"{missing[0].file}: run memory-maze collect again to finish it, or load with partial=True"
            )

    def save(self, folder: Path) -> None:
        with replacing(folder / NAME) as path:
            path.write_text(json.dumps({"dataset": FORMAT} | self.to_dict(), indent=2) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """As plain data; without options for the default variant."""
        data = dataclasses.asdict(self)
        del data["options"]
        recorded = record_options(self.options)
        return data | ({"options": recorded} if recorded else {})


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest in a folder, if there is one."""
    path = folder / NAME
    try:
        text = _read(path, _MAX_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    try:
        data = json.loads(text)
        if data.pop("dataset") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        parsed = {"task": Task(**data["task"]), "options": read_options(data.get("options", {}))}
        manifest = Manifest(**data | parsed)
        _check(manifest)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: not the description of a data set: {error}") from error
    return manifest


def _read(path: Path, limit: int) -> str:
    """The text of a file; whoever opened a pipe would wait for ever."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        raise OSError(f"not a file, or one of more than {limit:,} bytes")
    return path.read_text()


def _check(manifest: Manifest) -> None:
    for name, choices in (("format", FORMATS), ("engine", ENGINES)):
        if getattr(manifest, name) not in choices:
            raise ValueError(f"unknown {name} {getattr(manifest, name)!r}")
    numbers: dict[str, tuple[Any, int, int | None]] = {
        "episodes": (manifest.episodes, 1, MAX_EPISODES),
        "evaluation": (manifest.evaluation, 0, MAX_EPISODES),
        "steps": (manifest.steps, 1, int(MAX_SECONDS * manifest.options.control_freq)),
        "shard": (manifest.shard, 1, None),
        "seed": (manifest.seed, 0, MAX_SEED),
    }
    for field in dataclasses.fields(Task):
        if field.type is int:
            numbers[f"task.{field.name}"] = (getattr(manifest.task, field.name), 0, None)
    for name, (value, least, most) in numbers.items():
        if type(value) is not int or value < least or (most is not None and value > most):
            raise ValueError(f"{name} must be an integer from {least} to {most}: got {value!r:.40}")
    if manifest.evaluation > manifest.episodes:
        raise ValueError(f"{manifest.evaluation} evaluation episodes, but only {manifest.episodes} episodes")
    texts = [manifest.policy, *manifest.made_with.keys(), *manifest.made_with.values()]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("policy and made_with must be text")


def read_record(path: Path, names: list[str]) -> dict[str, int]:
    """What completes a shard of NPZ files: the seeds of their mazes."""
    try:
        seeds = json.loads(_read(path, _MAX_BYTES + _MAX_LINE * len(names)))["seeds"]
        if list(seeds) != names:
            raise ValueError(f"it does not name {names[0]} to {names[-1]}")
        if not all(type(seed) is int and 0 <= seed <= MAX_SEED for seed in seeds.values()):
            raise ValueError("seeds are integers")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: not the list of a part's seeds: {error}") from error
    return seeds
