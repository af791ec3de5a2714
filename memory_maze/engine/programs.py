"""Compiled programs, kept for the next process."""

import os

import jax

from memory_maze.files import cache_folder


def cache_programs() -> None:
    """Keeps compiled programs on disk, unless the user has chosen how: the next process starts at once."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    folder = cache_folder("programs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(folder, os.W_OK):  # JAX would warn of every program that it cannot keep
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
