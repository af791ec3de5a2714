"""Mazes in a browser: played by people, watched by anyone; `memory-maze serve`."""
