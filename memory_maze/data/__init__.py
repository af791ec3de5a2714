"""Data sets: collect them, load them, train on them.

>>> from memory_maze import data
>>> dataset = data.load("folder", "train")
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_maze.data.collect import collect, make_manifest
    from memory_maze.data.load import Batches, Dataset, load
    from memory_maze.data.schema import KEYS, DataError

__all__ = ["KEYS", "Batches", "DataError", "Dataset", "collect", "load", "make_manifest"]

_MODULES = {
    "collect": "collect",
    "make_manifest": "collect",
    "Batches": "load",
    "Dataset": "load",
    "load": "load",
    "KEYS": "schema",
    "DataError": "schema",
}


def __getattr__(name: str) -> Any:
    """Imports what is used: the command line starts without JAX."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value  # a submodule of the same name would take its place
    return value
