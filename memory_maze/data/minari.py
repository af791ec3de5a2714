"""Data sets as Minari's, for the libraries that read those.

A trajectory of T actions becomes an episode of T + 1 observations and T actions; it is truncated at its last
step, and never terminates.
"""

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Generator, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from memory_maze.adapters.spaces import action_space, observation_space
from memory_maze.data.dataset import Dataset
from memory_maze.data.schema import KEYS
from memory_maze.options import Options
from memory_maze.registration import VARIANTS, env_id
from memory_maze.system.extras import missing
from memory_maze.system.files import sync_all
from memory_maze.system.locks import lock
from memory_maze.tasks import TASKS, make_task
from memory_maze.variants import name_options, record_options

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector.episode_buffer import EpisodeBuffer

Observations = Literal["image", "all"]
_VARIANTS = {"image": "", "all": "ExtraObs"}
_LOCK = "lock"


def export(
    dataset: Dataset,
    name: str,
    *,
    observations: Observations = "image",
    jpeg: bool = False,
    advance: Callable[[int], None] = lambda steps: None,
) -> "MinariDataset":
    """Writes a data set where Minari keeps its own; one trajectory is in memory at a time.

    Args:
        dataset: What to write.
        name: How Minari is to call it, such as "memory-maze/9x9-explorer-v0".
        observations: The image alone, or a dictionary of all observations.
        jpeg: Write pictures as JPEG, which is smaller and not exact.
        advance: Told of progress, in steps.
    """
    if observations not in _VARIANTS:
        raise ValueError(f"observations must be {' or '.join(_VARIANTS)}: got {observations!r}")
    final = _find_place(name)
    from minari import MinariDataset
    from minari.dataset.minari_storage import MinariStorage

    options = dataclasses.replace(
        Options(**VARIANTS[_VARIANTS[observations]]), camera_resolution=dataset.options.camera_resolution
    )
    with _finishing(final, name) as folder:
        storage = MinariStorage.new(
            folder,
            observation_space=observation_space(
                make_task(dataset.size, dataset.objects), options, np.float32
            ),
            action_space=action_space(options),
            env_spec=_find_spec(dataset, observations),
            jpeg_encoding=jpeg,
        )
        storage.update_metadata(_describe(dataset, name))
        storage.update_episodes(_make_episodes(dataset, observations, advance))
    return MinariDataset(final / "data")


def _find_place(name: str) -> Path:
    """The folder of a data set that is not there yet."""
    try:
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.storage import get_dataset_path
    except ModuleNotFoundError as error:
        raise missing("exporting needs minari", error.name, "minari") from error

    try:
        parse_dataset_id(name)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name!r} is not a valid Minari id: it should be like memory-maze/9x9-explorer-v0, "
            "with letters, digits, - and _, and a version"
        ) from error
    place = get_dataset_path(name)
    if place.exists():
        raise FileExistsError(
            f"{name} already exists in {place}: choose another name or version, "
            f"or remove it with: minari delete {name}"
        )
    return place


@contextlib.contextmanager
def _finishing(final: Path, name: str) -> Generator[Path]:
    """A folder for the data, which gets its name if the block succeeds and is removed if not."""
    from minari.storage import get_dataset_path

    folder = get_dataset_path() / f".{name.replace('/', '--')}-partial"  # Minari skips hidden folders
    folder.mkdir(exist_ok=True)
    with (folder / _LOCK).open("a") as file:
        try:
            lock(file.fileno(), wait=False)
        except OSError as error:
            raise RuntimeError(f"{folder}: another process is writing {name}") from error
        try:
            shutil.rmtree(folder / "data", ignore_errors=True)  # of a process that was killed
            yield folder / "data"
            _make_namespace(name)
            (folder / _LOCK).unlink()
            sync_all(folder)
            folder.rename(final)
        except BaseException:
            shutil.rmtree(folder)
            raise


def _make_namespace(name: str) -> None:
    from minari.namespace import create_namespace, list_local_namespaces

    namespace = name.rpartition("/")[0]
    if namespace and namespace not in list_local_namespaces():
        create_namespace(namespace)


def _find_spec(dataset: Dataset, observations: Observations) -> EnvSpec | None:
    """The environment, for tasks of the benchmark; others have no id with these observations."""
    task = f"{dataset.size}x{dataset.size}"
    if record_options(dataset.options) or task not in TASKS or TASKS[task].objects != dataset.objects:
        return None
    return gymnasium.spec(env_id(task, _VARIANTS[observations]))


def _describe(dataset: Dataset, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"dataset_id": name, "minari_version": metadata.version("minari")}
    task, manifest = f"{dataset.size}x{dataset.size}", dataset.manifest
    kind = ", ".join(filter(None, [task, name_options(dataset.options)]))
    description = (
        f"Memory Maze {kind} with {dataset.objects} objects: {len(dataset):,} trajectories, "
        f"{int((dataset.lengths - 1).sum()):,} steps."
    )
    if manifest is None:
        return facts | {"description": description}
    makers = ", ".join(f"{key} {value}" for key, value in manifest.made_with.items())
    made = f" Policy {manifest.policy}, engine {manifest.engine}, made with {makers}."
    return facts | {"algorithm_name": manifest.policy, "description": description + made}


def _make_episodes(
    dataset: Dataset, observations: Observations, advance: Callable[[int], None]
) -> Iterator["EpisodeBuffer"]:
    for index in range(len(dataset)):
        keys = ("image", "action", "reward") if observations == "image" else tuple(KEYS)
        yield _make_episode(dataset.read(index, keys=keys), dataset.seeds[index])
        advance(int(dataset.lengths[index]) - 1)


def _make_episode(arrays: dict[str, Any], seed: int | None) -> "EpisodeBuffer":
    from minari.data_collector.episode_buffer import EpisodeBuffer

    # Our element t holds the action that led to it, so element 0 has none.
    actions, rewards = arrays.pop("action")[1:].argmax(axis=1), arrays.pop("reward")[1:]
    truncations: Any = np.zeros(len(rewards), bool)
    truncations[-1] = True
    return EpisodeBuffer(
        seed=seed,
        observations=arrays if len(arrays) > 1 else arrays["image"],
        actions=actions,
        rewards=rewards,
        terminations=np.zeros_like(truncations),
        truncations=truncations,
    )
