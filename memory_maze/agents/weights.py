"""The weights of a network on disk: a safetensors file, with what is needed to use them beside it."""

import json
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file

from memory_maze.agents.folder import CONFIG, WEIGHTS
from memory_maze.system.files import check_regular, replacing


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
            raise ValueError(f"the file lacks {name}: it belongs to a different network")
        array = jnp.asarray(arrays[name])
        if _is_key(leaf):
            return jax.random.wrap_key_data(array)
        if array.shape != leaf.shape:
            raise ValueError(
                f"{name} has shape {array.shape} not {leaf.shape}: it belongs to a different network"
            )
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


def load_weights(folder: Path, template: Any) -> Any:
    """A network like the template with the weights of a folder."""
    check_regular(folder / WEIGHTS)
    return from_arrays(load_file(folder / WEIGHTS), template)
