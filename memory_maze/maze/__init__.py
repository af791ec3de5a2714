"""The maze generator: labmaze's random mazes, to the character, on every system."""

from memory_maze.maze.generator import LayoutGenerator
from memory_maze.maze.layout import Layout
from memory_maze.maze.settings import Settings

__all__ = ["Layout", "LayoutGenerator", "Settings"]
