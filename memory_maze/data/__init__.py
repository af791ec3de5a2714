"""Data sets: collect them, load them, train on them.

>>> from memory_maze import data
>>> data.collect("data/9x9", "9x9", episodes=30_000)
>>> dataset = data.load("data/9x9", "train")
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_maze.data.collection import collect
    from memory_maze.data.dataset import Batches, Dataset, load
    from memory_maze.data.schema import KEYS, DataError

__all__ = ["KEYS", "Batches", "DataError", "Dataset", "collect", "load"]

_MODULES = {
    "collect": "collection",
    "Batches": "dataset",
    "Dataset": "dataset",
    "load": "dataset",
    "KEYS": "schema",
    "DataError": "schema",
}


def __getattr__(name: str) -> Any:
    """Imports what is used: the command line starts without JAX."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
