"""How much can be done at once, and what memory there is for it."""

import contextlib
import ctypes
import gc
import os
from pathlib import Path


def num_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """How much memory this machine has."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kilobytes = ctypes.c_ulonglong()
    ctypes.__dict__["windll"].kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value * 1024


def memory_free() -> int:
    """How much memory can still be taken: of the machine's, and of what a container may have."""
    left = [memory_bytes()]
    if (table := Path("/proc/meminfo")).exists():
        lines = dict(line.split(":") for line in table.read_text().splitlines())
        left.append(int(lines["MemAvailable"].split()[0]) * 1024)
    group = Path("/sys/fs/cgroup")
    limit = group / "memory.max"
    if limit.exists() and (most := limit.read_text().strip()).isdigit():
        left.append(int(most) - int((group / "memory.current").read_text()))
    return min(left)


def return_memory() -> None:
    """Gives what is free back to the system: compiling a program leaves a gigabyte."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # of the GNU C library alone
        ctypes.CDLL(None).malloc_trim(0)
