"""Runs the command line: `python -m memory_maze`."""

from memory_maze.cli import main

main()
