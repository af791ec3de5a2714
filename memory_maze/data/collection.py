"""Makes data sets: episodes of any policy on either engine, in shards that are written whole.

A shard depends on the manifest and its number alone. So a collection can be killed at any moment and run
again, and can be spread over machines: the files are the same.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from memory_maze.agents.load import check_agent, load_policy
from memory_maze.data import scenes as scenes_module
from memory_maze.data.archive import Archive
from memory_maze.data.frames import Reader
from memory_maze.data.manifest import FORMATS, NAME, Manifest, Shard, read_manifest, read_record
from memory_maze.data.npz import pack_trajectory
from memory_maze.data.scenes import Scenes
from memory_maze.data.schema import KEYS, DataError
from memory_maze.episodes.rollout import ENGINES, Advance, play
from memory_maze.options import DEFAULT, Options
from memory_maze.policies.protocol import Policy
from memory_maze.sampler import check_seed
from memory_maze.scenario import Scenario
from memory_maze.splits import SEED_STRIDE, draw_scenario
from memory_maze.system.cpu import num_cores
from memory_maze.system.files import LOCK, is_temporary, replacing, sole_writer
from memory_maze.system.limits import check_between
from memory_maze.system.programs import cache_programs
from memory_maze.system.subprocesses import calling
from memory_maze.tasks import MAX_SECONDS, Task, parse_task
from memory_maze.variants import check_playable, read_options, record_options
from memory_maze.version import __version__

EVALUATION_SHARE = 30  # one in so many, as in the paper
# As many as are made in a minute or less, for no more is lost.
SHARDS = {("scenes", "jax"): 1000, ("npz", "jax"): 100, ("scenes", "mujoco"): 20, ("npz", "mujoco"): 20}
_CHUNK = 64  # mazes that a process draws at a time
SLOWEST = 2.0  # actions a second
GPU_SHARD = 8000  # scenes at most: a GPU plays thousands nearly as fast as hundreds

Note = Callable[[Shard, bool], None]  # called with a complete shard, and whether it was made now
File = tuple[str, bytes]  # name and content
Make = Callable[[list[Shard]], Iterable[tuple[Shard, Iterable[File]]]]


def make_manifest(
    task: Task,
    episodes: int,
    *,
    steps: int = 1000,
    policy: str = "explorer",
    format: str = "scenes",
    engine: str = "jax",
    seed: int = 0,
    evaluation: int | None = None,
    shard: int | None = None,
    options: Options = DEFAULT,
) -> Manifest:
    """What is to be collected; see `memory-maze collect --help`."""
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: choose {' or '.join(FORMATS)}")
    if engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}: choose {' or '.join(ENGINES)}")
    check_seed(seed)
    evaluation = round(episodes / EVALUATION_SHARE) if evaluation is None else evaluation
    check_between(1, MAX_SECONDS * options.control_freq, steps=steps)
    check_playable(task, options)
    check_agent(policy, options)
    if options.control_freq < SLOWEST:
        raise ValueError(
            f"control_freq must be at least {SLOWEST:g} in data sets, so that positions do not jump by a "
            f"cell: got {options.control_freq:g}"
        )
    if not 1 <= episodes <= SEED_STRIDE or not 0 <= evaluation <= episodes:
        raise ValueError(
            f"{episodes} episodes, {evaluation} of them for evaluation: "
            f"episodes must be from 1 to {SEED_STRIDE:,}, and evaluation at most episodes"
        )
    if shard is not None and shard < 1:
        raise ValueError(f"a shard must have at least one episode: got {shard}")
    return Manifest(
        format=format,
        task=dataclasses.replace(task, seconds=steps / options.control_freq),
        episodes=episodes,
        evaluation=evaluation,
        steps=steps,
        policy=policy,
        engine=engine,
        seed=seed,
        shard=shard or choose_shard(format, engine, episodes - evaluation),
        made_with=describe_maker(engine),
        options=options,
    )


def choose_shard(format: str, engine: str, episodes: int) -> int:
    """How many trajectories to make at once, of so many for training."""
    if (format, engine) == ("scenes", "jax") and jax.default_backend() != "cpu":
        shards = max(1, math.ceil(episodes / GPU_SHARD))
        return max(SHARDS[format, engine], math.ceil(episodes / shards))  # all alike, for one program
    return SHARDS[format, engine]


def describe_maker(engine: str) -> dict[str, str]:
    """What the last bits depend on."""
    packages = ("jax", "numpy", *(("mujoco",) if engine == "mujoco" else ()))
    versions = {package: metadata.version(package) for package in packages}
    return {"memory-maze": __version__} | versions | {"device": jax.default_backend()}


def collect(out: str | Path, task: str | Task = "9x9", episodes: int = 30_000, **settings: Any) -> None:
    """Collects a data set into a folder, or finishes one; settings are those of `make_manifest`."""
    task = parse_task(task) if isinstance(task, str) else task
    make_missing(Path(out), make_manifest(task, episodes, **settings))


def make_missing(
    out: Path,
    manifest: Manifest,
    *,
    note: Note = lambda shard, fresh: None,
    advance: Advance = lambda steps: None,
) -> None:
    """Makes what is missing of a data set in a folder.

    Args:
        out: The folder.
        manifest: What is to be made; the folder's own, if it has one already.
        note: Told of each shard that is complete, those from before included.
        advance: Told of progress within shards, in steps.
    """
    cache_programs()
    # Before anything is written, as the name may be wrong; and once, as a program is compiled for it.
    policy = load_policy(manifest.policy)

    def make(todo: list[Shard]) -> Iterator[tuple[Shard, Iterable[File]]]:
        for shard, drawn in _draw_ahead(manifest, todo):
            yield shard, make_shard(manifest, policy, shard, drawn, advance)

    fill(out, manifest, make, note)


def fill(out: Path, manifest: Manifest, make: Make, note: Note) -> None:
    """Writes the shards that are missing in a folder as they are made."""
    with begin(out, manifest) as todo:
        for shard in manifest.shards():
            if shard not in todo:
                note(shard, False)
        for shard, files in make(todo):
            for name, content in files:
                with replacing(out / name) as path:
                    path.write_bytes(content)
            note(shard, True)


@contextlib.contextmanager
def begin(out: Path, manifest: Manifest) -> Generator[list[Shard]]:
    """Takes hold of a folder for this manifest and tells what is missing; nobody else may write to it."""
    with sole_writer(out):
        _check_folder(out, manifest)
        for path in [path for path in out.rglob("*") if is_temporary(path)]:
            path.unlink()
        manifest.save(out)
        yield [shard for shard in manifest.shards() if not _is_there(out, manifest, shard)]


def _is_there(out: Path, manifest: Manifest, shard: Shard) -> bool:
    """Whether all files of a part are there, and none of them cut off."""
    if not (out / shard.file).exists():
        return False
    try:
        names = [shard.file]
        if manifest.format == "npz":
            names = list(read_record(out / shard.file, manifest.trajectory_files(shard)))
        for name in names:
            Archive(out / name, name).close()
    except (DataError, FileNotFoundError):
        return False
    return True


def _check_folder(out: Path, manifest: Manifest) -> None:
    before = read_manifest(out)
    if before is None:
        others = [path.name for path in out.iterdir() if path.name != LOCK and not is_temporary(path)]
        if others:
            raise DataError(f"{out}: not empty, it contains {others[0]}: choose an empty directory")
        return
    old, new = ({"options": {}} | one.to_dict() for one in (before, manifest))
    for key in old:
        if old[key] != new[key]:
            raise DataError(
                f"{out}: it holds a data set with {key} {old[key]}, not {new[key]}: "
                f"finish it with the original options (see {NAME}), or choose another directory"
            )


Drawn = tuple[list[int], list[Scenario]]


def draw_scenarios(manifest: Manifest, shard: Shard) -> Drawn:
    """The mazes of a shard and their seeds.

    One layout in sixteen, chosen by its walls, is kept for evaluation: no layout is in both splits, nor
    in the banks that agents train on.
    """
    held_out = shard.split == "eval"
    pairs = [
        draw_scenario(manifest.task, manifest.seed + number, held_out, manifest.options)
        for number in shard.episodes
    ]
    return [seed for seed, _ in pairs], [scenario for _, scenario in pairs]


def _draw_ahead(manifest: Manifest, shards: list[Shard]) -> Iterator[tuple[Shard, Drawn]]:
    """The mazes of each shard; the next ones are drawn while these are played."""
    with _drawing(manifest, shards) as draw, concurrent.futures.ThreadPoolExecutor(1) as pool:
        ahead = [pool.submit(draw, shard) for shard in shards[:2]]
        for index, shard in enumerate(shards):
            drawn = ahead.pop(0).result()
            if index + 2 < len(shards):
                ahead.append(pool.submit(draw, shards[index + 2]))
            yield shard, drawn


@contextlib.contextmanager
def _drawing(manifest: Manifest, shards: list[Shard]) -> Generator[Callable[[Shard], Drawn]]:
    """Draws the mazes of these shards, one shard after another; many mazes in a process for each core."""
    wanted = [(number, shard.split) for shard in shards for number in shard.episodes]
    chunks = [wanted[first : first + _CHUNK] for first in range(0, len(wanted), _CHUNK)]
    workers = min(num_cores(), len(chunks) // 4)
    if workers < 2:
        yield lambda shard: draw_scenarios(manifest, shard)
        return
    job = {
        "task": dataclasses.asdict(manifest.task),
        "options": record_options(manifest.options),
        "seed": manifest.seed,
        "chunks": chunks,
    }
    with calling("memory_maze.data.collection:draw_chunk", job, workers) as messages:
        drawn = (pair for message in messages for pair in json.loads(message))

        def draw(shard: Shard) -> Drawn:
            pairs = list(itertools.islice(drawn, len(shard.episodes)))
            return [seed for seed, _ in pairs], [Scenario.from_dict(scenario) for _, scenario in pairs]

        yield draw


def draw_chunk(job: dict[str, Any], index: int) -> bytes:
    """What a worker draws: seeds and mazes, as JSON."""
    task, options, chunks = Task(**job["task"]), read_options(job["options"]), job["chunks"]
    wanted = chunks[index] if index < len(chunks) else ()
    drawn = [draw_scenario(task, job["seed"] + number, split == "eval", options) for number, split in wanted]
    return json.dumps([(seed, scenario.to_dict()) for seed, scenario in drawn]).encode()


def make_shard(
    manifest: Manifest,
    policy: Policy,
    shard: Shard,
    drawn: Drawn,
    advance: Advance = lambda steps: None,
) -> Iterator[File]:
    """Names and contents of a shard's files; the one that says that it is complete comes last."""
    seeds, scenarios = drawn
    recording = play(
        policy,
        scenarios,
        manifest.steps,
        engine=manifest.engine,
        seed=manifest.seed,
        episodes=shard.episodes,
        options=manifest.options,
        advance=advance,
    )
    scenes = scenes_module.from_recording(scenarios, seeds, recording)
    if manifest.format == "scenes":
        yield shard.file, scenes_module.to_bytes(scenes)
        return
    names = manifest.trajectory_files(shard)
    yield from zip(names, pack_trajectories(scenes, manifest.engine, manifest.options), strict=True)
    yield shard.file, record_seeds(names, seeds)


def record_seeds(names: list[str], seeds: list[int]) -> bytes:
    """What says that a shard of NPZ files is complete."""
    return (json.dumps({"seeds": dict(zip(names, seeds, strict=True))}, indent=1) + "\n").encode()


def pack_trajectories(scenes: Scenes, engine: str, options: Options = DEFAULT) -> Iterator[bytes]:
    """The NPZ files of scenes, one after another, packed by all cores."""
    reader = Reader(scenes, engine, options)
    times = np.arange(scenes.length)[None]
    cores = num_cores()
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        waiting: list[Any] = []
        for index in range(len(scenes)):
            arrays = jax.device_get(reader.read(np.full_like(times, index), times, tuple(KEYS)))
            waiting.append(pool.submit(pack_trajectory, {key: array[0] for key, array in arrays.items()}))
            if len(waiting) > 2 * cores:
                yield waiting.pop(0).result()
        yield from (future.result() for future in waiting)
