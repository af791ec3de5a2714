"""Where and when a benchmark ran: what every file in `results/` says beside its figures."""

import ctypes
import os
from typing import Any

from memory_maze.system.provenance import ROOT, command_line, describe_hardware, find_commit, now, run_git

__all__ = ["ROOT", "describe_run"]

_GL_RENDERER = 0x1F01


def describe_run(graphics: bool = True) -> dict[str, Any]:
    """Command, date, commit and hardware of the benchmark that is running."""
    # Results are what benchmarks write, so those of another run leave the tree clean.
    told = bool(os.environ.get("GIT_COMMIT"))
    changes = None if told else run_git("status", "--porcelain", "--", ".", ":!results")
    backend, renderer = describe_gl() if graphics else (None, None)
    return {
        "command": command_line(),
        "date": now(),
        "commit": find_commit(),
        "dirty": None if changes is None else changes != "",
        "hardware": describe_hardware() | {"gl_backend": backend, "gl_renderer": renderer},
    }


def describe_gl() -> tuple[str, str | None]:
    """The GL backend that the package chooses here, and the name of what draws with it."""
    # Opening a context sets variables, which the benchmark's own processes must not inherit.
    from memory_maze.reference import gl

    environment = dict(os.environ)
    context, _ = gl.create_context(resolution=64)
    try:
        context.make_current()
        return context.backend, _renderer_name()
    finally:
        context.free()
        os.environ.clear()
        os.environ.update(environment)


def _renderer_name() -> str | None:
    get_string = getattr(ctypes.CDLL(None), "glGetString", None)
    if get_string is None:
        return None
    get_string.restype = ctypes.c_char_p
    name = get_string(_GL_RENDERER)
    return name.decode() if name else None
