"""Where, when and by which command something was made: what result files say beside their figures."""

import collections
import datetime
import os
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from memory_maze.system.cpu import memory_bytes, num_cores

ROOT = Path(__file__).resolve().parents[2]  # of the checkout, if the package lies in one


def describe_origin() -> dict[str, Any]:
    """Command, date, commit, hardware and versions, as plain data without paths of this machine."""
    from memory_maze.version import __version__

    return {
        "command": command_line(),
        "date": now(),
        "commit": find_commit(),
        "hardware": describe_hardware() | {"devices": describe_devices()},
        "versions": {"memory-maze": __version__, "jax": metadata.version("jax")},
    }


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def command_line() -> str:
    """The command that is running."""
    script = Path(sys.argv[0]).resolve()
    if script.name == "memory-maze" or script == ROOT / "memory_maze" / "__main__.py":
        words = ["memory-maze"]
    else:
        words = ["python", str(script.relative_to(ROOT)) if script.is_relative_to(ROOT) else script.name]
    return shlex.join([*words, *map(_without_folders, sys.argv[1:])])


def _without_folders(argument: str) -> str:
    """Folders outside of the project say nothing to others."""
    name, equals, value = argument.rpartition("=")
    return name + equals + short_name(value)


def short_name(path: str) -> str:
    """The last part of an absolute path; others as they are."""
    return Path(path).name if os.path.isabs(path) else path


def find_commit() -> str | None:
    """The commit of this package, if it lies in a checkout."""
    # A copy of the tree on another machine is told its commit: git there may know another one, or none.
    return os.environ.get("GIT_COMMIT") or run_git("rev-parse", "HEAD")


def run_git(*arguments: str) -> str | None:
    """What git prints about this checkout; None without git or outside a checkout."""
    # An environment with the installed package may lie in a checkout of something else.
    if not (ROOT / ".git").exists():
        return None
    try:
        result = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def describe_hardware() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": num_cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def cpu_model() -> str:
    table = Path("/proc/cpuinfo")  # of Linux
    for line in table.read_text().splitlines() if table.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_devices() -> str:
    """What batches run on, like "8 NVIDIA H200"."""
    import jax

    kinds = collections.Counter(device.device_kind for device in jax.devices())
    described = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    # NVIDIA's MPS is for several processes on one GPU, of which each is slower than alone.
    return f"{described}, shared" if "CUDA_MPS_PIPE_DIRECTORY" in os.environ else described


def format_seconds(seconds: float) -> str:
    """Like 12 days, 2.5 h, 12 min, 8 s."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100 * 3600 else f"{seconds / 86400:.0f} days"
