"""Files are written whole: under a temporary name, then renamed. Folders are written to by one process."""

import contextlib
import os
import socket
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.system.locks import lock

LOCK = ".lock"
_ENDING = "-partial"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """A temporary path beside `path` that takes its place if the block succeeds, and is removed if not.

    When the block has ended, what was written survives a power failure.
    """
    path = Path(path)
    temporary = _make_temporary(path)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        _sync(temporary)  # or after a power failure there would be the new name without its content
        os.replace(temporary, path)
        with contextlib.suppress(OSError):  # not all file systems can
            _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuses a file that cannot be written: rather now than after the work that it is for."""
    _make_temporary(Path(path)).unlink()


def _make_temporary(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ending = _ENDING + path.suffix
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=ending)
    except OSError as error:
        raise OSError(f"{path}: cannot write to it ({error.strerror}): choose another path") from error
    os.close(handle)
    return Path(name)


def _sync(path: Path) -> None:
    """Waits until a file or a folder's list of names is on the disk."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # so Windows wants it
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_temporary(path: Path) -> bool:
    """Whether `replacing` made the file, and was killed before it took its place."""
    return path.name.startswith(".") and path.stem.endswith(_ENDING)


@contextlib.contextmanager
def sole_writer(folder: str | os.PathLike[str]) -> Generator[None]:
    """No other process may write to the folder meanwhile; reading is free.

    The folder is made if there is none. The kernel lets go of it when this process dies, in whatever way.
    """
    path = Path(folder) / LOCK
    made = not path.parent.exists()
    try:
        handle = _take(path)
    except BlockingIOError as error:
        raise RuntimeError(
            f"{folder}: {_read_holder(path)} is writing to it: wait for it, or choose another directory"
        ) from error
    except OSError as error:
        raise OSError(f"{folder}: cannot write to it ({error.strerror}): choose another directory") from error
    try:
        yield
    finally:
        if _is_open_as(handle, path):
            with contextlib.suppress(PermissionError):  # Windows removes no file that is open
                path.unlink()
        os.close(handle)
        if made:
            with contextlib.suppress(OSError):  # there is something in it
                path.parent.rmdir()


def _take(path: Path) -> int:
    """The lock's file, open and locked; it tells whose it is."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock(handle, wait=False)
        except OSError:
            os.close(handle)
            raise
        if _is_open_as(handle, path):  # and not removed by the holder before, after it was opened here
            os.truncate(handle, 0)
            os.write(handle, f"{os.getpid()} {socket.gethostname()}".encode())
            return handle
        os.close(handle)


def _is_open_as(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _read_holder(path: Path) -> str:
    try:
        process, host = path.read_text().split()
    except (OSError, ValueError):
        return "another process"  # which has not told yet, or just ended
    return f"process {process}" + ("" if host == socket.gethostname() else f" on {host}")


def explain(error: BaseException) -> str:
    """An error in words: one of the operating system begins with a number and ends with the file."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    file = "" if error.filename is None else f"{error.filename}: "
    return f"{file}{error.strerror[0].lower()}{error.strerror[1:]}"


def check_regular(path: Path) -> None:
    """Refuses what is no file: whoever opened a pipe would wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is not a file")


def read_small(path: Path, limit: int = 1 << 20) -> str:
    """The text of a file that anybody may have made, which has so many bytes at most."""
    check_regular(path)
    if (size := path.stat().st_size) > limit:
        raise OSError(f"{path} has {size:,} bytes: the limit is {limit:,}")
    return path.read_text()


def sync_all(folder: Path) -> None:
    """Waits until all files of a folder are on the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            _sync(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def cache_folder(name: str) -> Path:
    """A folder for what can be made again, below MEMORY_MAZE_CACHE or the user's cache."""
    base = os.environ.get("MEMORY_MAZE_CACHE")
    if base is None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-maze"
    return Path(base) / name


def read_cached(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a cache's file; None if there is none or it is damaged: then they are made again."""
    try:
        with path.open("rb") as stream, np.load(stream) as file:
            return {key: file[key] for key in file}
    except Exception:  # of damaged bytes zipfile, zlib and NumPy raise many kinds
        return None


def write_cached(path: Path, arrays: dict[str, np.ndarray], *, compress: bool = False) -> None:
    """Keeps arrays for the next time where that is possible; elsewhere they are made again."""
    write: Any = np.savez_compressed if compress else np.savez
    with contextlib.suppress(OSError), replacing(path) as temporary:
        write(temporary, **arrays)
