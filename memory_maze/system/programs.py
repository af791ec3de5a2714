"""Compiled programs, kept for the next process."""

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import jax

from memory_maze.system.files import cache_folder, replacing

_DIGEST = hashlib.sha256().digest_size


def cache_programs() -> None:
    """Keeps compiled programs on disk, unless the user has chosen how: the next process starts at once."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    folder = cache_folder("programs") / "checked"  # beside those that JAX wrote by itself
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(folder, os.W_OK) and _check_programs(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _check_programs(folder: Path) -> bool:
    """Tells JAX to keep the programs of a folder with checksums; whether this version of JAX can be told."""
    try:
        from jax._src import compilation_cache  # there is no public way

        open_cache: Any = compilation_cache.get_file_cache
    except (ImportError, AttributeError):
        return False

    def open_checked(path: str) -> Any:
        return (Programs(folder), path) if path == str(folder) else open_cache(path)

    vars(compilation_cache)["get_file_cache"] = open_checked
    return True


class Programs:
    """Programs by key, each with a checksum, written whole.

    JAX's own cache writes them in place, runs what it reads, and never writes a damaged one again.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder

    def get(self, key: str) -> bytes | None:
        """The program, unless it is damaged: then it is compiled again."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        digest, program = content[:_DIGEST], content[_DIGEST:]
        return program if hashlib.sha256(program).digest() == digest else None

    def put(self, key: str, program: bytes) -> None:
        """Keeps a program, where that is possible: otherwise it only costs the time to compile it."""
        with contextlib.suppress(OSError), replacing(self._file(key)) as path:
            path.write_bytes(hashlib.sha256(program).digest() + program)

    def _file(self, key: str) -> Path:
        return self._path / key
