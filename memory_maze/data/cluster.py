"""Collects on a Ray cluster: shards are made by its workers and written here, the same as without it."""

import functools
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_maze.agents.load import load_policy
from memory_maze.data.collection import File, Note, describe_maker, draw_scenarios, fill, make_shard
from memory_maze.data.manifest import Manifest, Shard
from memory_maze.policies.protocol import Policy
from memory_maze.system.programs import cache_programs

RETRIES = 20  # of a shard, when the worker that makes it dies
AHEAD = 2  # shards that each worker has waiting


def collect_on_ray(out: Path, manifest: Manifest, address: str, note: Note) -> None:
    """Makes what is missing of a data set in a folder of this machine.

    Args:
        out: The folder.
        manifest: What is to be made.
        address: Of the cluster; "auto" for the one that runs here, "local" for one of this process's own.
        note: Told of each shard that is complete, those from before included.
    """
    import ray

    load_policy(manifest.policy)  # a wrong name is noticed before the cluster is asked
    # Workers find the policy in the folder that the command is called in, where they share the disk.
    paths = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    ray.init(
        address=address,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}},
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    try:
        fill(out, manifest, functools.partial(_make_all, manifest), note)
    finally:
        ray.shutdown()


def _make_all(manifest: Manifest, shards: list[Shard]) -> Iterator[tuple[Shard, list[File]]]:
    """The shards' files as they are made, in any order."""
    import ray

    gpus = 1 if manifest.made_with["device"] == "gpu" else 0
    make = ray.remote(max_retries=RETRIES, num_cpus=1, num_gpus=gpus)(_make_files)
    workers = int(ray.cluster_resources().get("GPU" if gpus else "CPU", 1))
    todo, running = list(shards), {}
    while todo or running:
        while todo and len(running) < AHEAD * workers:
            shard = todo.pop(0)
            running[make.remote(manifest, shard)] = shard
        done, _ = ray.wait(list(running), num_returns=1)
        shard = running.pop(done[0])
        yield shard, _receive(ray.get(done[0]), manifest)


def _make_files(manifest: Manifest, shard: Shard) -> tuple[dict[str, str], list[File]]:
    """Runs on a worker."""
    cache_programs()
    files = list(make_shard(manifest, _load(manifest.policy), shard, draw_scenarios(manifest, shard)))
    return describe_maker(manifest.engine), files


@functools.cache
def _load(policy: str) -> Policy:
    """The same object each time: a program is compiled for it."""
    return load_policy(policy)


def _receive(result: tuple[dict[str, str], Any], manifest: Manifest) -> list[File]:
    maker, files = result
    if maker != manifest.made_with:
        raise RuntimeError(
            f"a worker has {maker} and this machine {manifest.made_with}: parts made by different versions "
            "or devices would differ in their last bits; start the collection on a machine like the workers"
        )
    return files
