"""Where and when a benchmark ran: what every file in `results/` says beside its figures."""

import ctypes
import datetime
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_GL_RENDERER = 0x1F01


def describe_run(graphics: bool = True) -> dict[str, Any]:
    """Command, date, commit and hardware of the benchmark that is running."""
    # A copy of the tree on another machine is told its commit: git there may know another one, or none.
    told = os.environ.get("GIT_COMMIT")
    # Results are what benchmarks write, so those of another run leave the tree clean.
    changes = None if told else run_git("status", "--porcelain", "--", ".", ":!results")
    return {
        "command": command_line(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": told or run_git("rev-parse", "HEAD"),
        "dirty": None if changes is None else changes != "",
        "hardware": describe_hardware(graphics),
    }


def command_line() -> str:
    script = Path(sys.argv[0]).resolve()
    name = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    # Folders outside of the project say nothing to others.
    arguments = [Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:]]
    return shlex.join(["python", str(name), *arguments])


def run_git(*arguments: str) -> str | None:
    """What git prints about this checkout; None without git or outside a checkout."""
    try:
        result = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def describe_hardware(graphics: bool) -> dict[str, Any]:
    backend, renderer = describe_gl() if graphics else (None, None)
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gl_backend": backend,
        "gl_renderer": renderer,
        "system": f"{platform.system()} {platform.machine()}",
    }


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


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
