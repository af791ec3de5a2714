"""Locks on open files, which the system takes from a process that dies, in whatever way."""

import contextlib
import errno
import os
import time
from typing import Any

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # some file systems of clusters have none
_FAR = 1 << 30  # behind everything that a file holds: Windows lets nobody read what is locked
_POLL = 0.1  # seconds


def lock(handle: int, *, wait: bool = True) -> None:
    """Locks an open file. Raises `BlockingIOError` if another process has it and is not to be waited for."""
    if fcntl is None:
        _lock_on_windows(handle, wait)
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _lock_on_windows(handle: int, wait: bool) -> None:
    import msvcrt

    windows: Any = msvcrt
    position = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, _FAR, os.SEEK_SET)
    try:
        while True:
            with contextlib.suppress(OSError):
                windows.locking(handle, windows.LK_NBLCK, 1)
                return
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "another process has locked it")
            time.sleep(_POLL)
    finally:
        os.lseek(handle, position, os.SEEK_SET)
