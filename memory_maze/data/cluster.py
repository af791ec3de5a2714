"""Collects on a Ray cluster: shards are made by its workers and written here, the same as without it."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_maze.data.collect import (
    Note,
    begin,
    describe_maker,
    draw_scenarios,
    make_shard,
    note_complete,
    write,
)
from memory_maze.data.manifest import Manifest, Shard
from memory_maze.engine.single import cache_programs
from memory_maze.policies import load_policy
from memory_maze.rollout import Advance

RETRIES = 20  # of a shard, when the worker that makes it dies
AHEAD = 2  # shards that each worker has waiting


def collect_on_ray(out: Path, manifest: Manifest, address: str, *, note: Note, advance: Advance) -> None:
    """Makes what is missing of a data set in a folder of this machine.

    Args:
        out: The folder.
        manifest: What is to be made.
        address: Of the cluster; "auto" for the one that runs here, "local" for one of this process's own.
        note: Told of each shard that is complete, those from before included.
        advance: Told of progress, in steps.
    """
    import ray

    load_policy(manifest.policy)  # a wrong name is noticed before the cluster is asked
    with begin(out, manifest) as todo:
        note_complete(manifest, todo, note)
        # Workers find the policy in the folder that the command is called in, where they share the disk.
        paths = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}}
        ray.init(
            address=address,
            runtime_env=environment,
            logging_level=logging.ERROR,
            log_to_driver=False,
            ignore_reinit_error=True,
        )
        try:
            for shard, files in _make_all(manifest, todo):
                for name, content in files:
                    write(out / name, content)
                advance(len(shard.episodes) * manifest.steps)
                note(shard, True)
        finally:
            ray.shutdown()


def _make_all(manifest: Manifest, shards: list[Shard]) -> Iterator[tuple[Shard, list[tuple[str, bytes]]]]:
    """The shards' files as they are made, in any order."""
    import ray

    resources = ray.cluster_resources()
    gpus = 1 if manifest.made_with["device"] == "gpu" else 0
    make = ray.remote(max_retries=RETRIES, num_cpus=1, num_gpus=gpus)(_make_files)
    workers = int(resources.get("GPU" if gpus else "CPU", 1))
    todo, running = list(shards), {}
    while todo or running:
        while todo and len(running) < AHEAD * workers:
            shard = todo.pop(0)
            running[make.remote(manifest, shard)] = shard
        done, _ = ray.wait(list(running), num_returns=1)
        shard = running.pop(done[0])
        yield shard, _receive(ray.get(done[0]), manifest)


def _make_files(manifest: Manifest, shard: Shard) -> tuple[dict[str, str], list[tuple[str, bytes]]]:
    """Runs on a worker."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    cache_programs()
    files = list(make_shard(manifest, shard, draw_scenarios(manifest, shard)))
    return describe_maker(manifest.engine), files


def _receive(result: tuple[dict[str, str], Any], manifest: Manifest) -> list[tuple[str, bytes]]:
    maker, files = result
    if maker != manifest.made_with:
        raise RuntimeError(
            f"a worker has {maker} and this machine {manifest.made_with}: data sets whose parts are to be the "
            "same everywhere need the same versions and type of device; start the collection on such a machine"
        )
    return files
