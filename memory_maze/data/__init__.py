"""Data sets: collect them, load them, train on them."""

from memory_maze.data.collect import collect, make_manifest
from memory_maze.data.load import Batches, Dataset, load
from memory_maze.data.schema import KEYS, DataError

__all__ = ["KEYS", "Batches", "DataError", "Dataset", "collect", "load", "make_manifest"]
