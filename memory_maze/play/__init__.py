"""Mazes for people: episodes played in a window or a browser, and what is recorded of them."""
