"""Runs and agents on disk: orbax for everything that a run needs to go on, safetensors for the weights."""

import hashlib
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from rich.console import Console
from safetensors.numpy import load_file, save_file

from memory_maze.files import check_regular, read_small, replacing
from memory_maze.training.devices import is_first, on_first
from memory_maze.training.names import CONFIG, WEIGHTS

_KEPT = 2  # checkpoints
_CHECKSUMS = "checksums.json"


class Checkpoints:
    """The checkpoints of a run, the last ones of which are kept. Of several hosts all do the same.

    Each has checksums of its files, for orbax restores damaged ones with other numbers. The last ones are
    removed if they are not as they were written.
    """

    def __init__(self, folder: Path) -> None:
        on_first(lambda: _remove_damaged(folder))
        self._folder = folder
        options = ocp.CheckpointManagerOptions(max_to_keep=_KEPT)
        self._manager = ocp.CheckpointManager(folder.resolve(), options=options)

    @property
    def latest(self) -> int | None:
        """The step of the last one, if there is one."""
        return self._manager.latest_step()

    def save(self, step: int, tree: Any, *beside: Path) -> None:
        """Writes all arrays, whole or not at all. Files beside them that belong to them are checked too."""
        if step != self.latest:
            self._manager.save(step, args=ocp.args.StandardSave(to_arrays(tree)))
            self._manager.wait_until_finished()
            if is_first():
                _write_checksums(self._folder / str(step), beside)

    def restore(self, template: Any) -> Any:
        """The last one, as a tree like the template, on the devices that it names."""
        wanted = to_arrays(template)
        arrays = self._manager.restore(self.latest, args=ocp.args.StandardRestore(wanted))
        return from_arrays(dict(arrays), template)

    def close(self) -> None:
        self._manager.close()


def _write_checksums(checkpoint: Path, beside: tuple[Path, ...]) -> None:
    within = [path for path in checkpoint.rglob("*") if path.is_file()]
    checksums = {}
    for path in (*within, *beside):
        with path.open("rb") as file:
            os.fsync(file.fileno())  # orbax does so with arrays alone
        checksums[os.path.relpath(path, checkpoint)] = _hash(path)
    with replacing(checkpoint / _CHECKSUMS) as path:
        path.write_text(json.dumps(checksums, indent=1) + "\n")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_damaged(folder: Path) -> None:
    """Removes the last checkpoints as far as they are not whole."""
    found = sorted(
        (path for path in folder.glob("*") if path.name.isdigit()), key=lambda path: int(path.name)
    )
    damaged = []
    while found and not _is_whole(found[-1], found[:-1]):
        damaged.append(found.pop())
    if damaged and not found:
        raise ValueError(f"{folder}: its checkpoints are damaged: choose another folder, or remove this run")
    for path in damaged:
        shutil.rmtree(path)
        Console(stderr=True).print(
            f"{path}: this checkpoint is damaged and was removed: the run goes on from the one before",
            soft_wrap=True,
        )


def _is_whole(checkpoint: Path, before: list[Path]) -> bool:
    if not (checkpoint / _CHECKSUMS).exists():  # of an older version, unless the ones before have them
        return not any((path / _CHECKSUMS).exists() for path in before)
    try:
        checksums = json.loads((checkpoint / _CHECKSUMS).read_bytes())
        return all(_hash(checkpoint / name) == checksum for name, checksum in checksums.items())
    except (OSError, ValueError, AttributeError):
        return False


def to_arrays(tree: Any) -> dict[str, Any]:
    """The arrays of a tree, or their descriptions, by name; keys as the numbers that they are.

    Empty ones are left out: orbax does not take them.
    """
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    return {_name(path): _plain(leaf) for path, leaf in leaves if math.prod(leaf.shape)}


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def from_arrays(arrays: dict[str, Any], template: Any) -> Any:
    """A tree like the template with these arrays."""
    dynamic, static = eqx.partition(template, _is_array)

    def take(path: Any, leaf: Any) -> jax.Array:
        name = _name(path)
        if not math.prod(leaf.shape):
            return jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding)
        if name not in arrays:
            raise ValueError(f"the file lacks {name}: it is of another network")
        array = jnp.asarray(arrays[name])
        if _is_key(leaf):
            return jax.random.wrap_key_data(array)
        if array.shape != leaf.shape:
            raise ValueError(f"{name} has shape {array.shape} and not {leaf.shape}: it is of another network")
        return array.astype(leaf.dtype)

    return eqx.combine(jax.tree_util.tree_map_with_path(take, dynamic), static)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    if not _is_key(leaf):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        data = jax.eval_shape(jax.random.key_data, leaf)
        return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=leaf.sharding)
    return jax.random.key_data(leaf)


def save_agent(folder: Path, network: Any, config: dict[str, Any]) -> None:
    """The weights and what is needed to use them."""
    arrays = {name: np.asarray(array) for name, array in to_arrays(network).items()}
    with replacing(folder / WEIGHTS) as path:
        save_file(arrays, path)
    with replacing(folder / CONFIG) as path:
        path.write_text(json.dumps(config, indent=2) + "\n")


def read_config(folder: Path) -> dict[str, Any]:
    """What `save_agent` wrote beside the weights."""
    try:
        return json.loads(read_small(folder / CONFIG))
    except FileNotFoundError as error:
        raise ValueError(
            f"{folder}: no run or agent: there is no {CONFIG} in it, as memory-maze train writes it"
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: no run or agent: {error}") from error


def load_weights(folder: Path, template: Any) -> Any:
    """A network like the template with the weights of a folder."""
    check_regular(folder / WEIGHTS)
    return from_arrays(load_file(folder / WEIGHTS), template)
