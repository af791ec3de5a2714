"""Files are written whole: under a temporary name, then renamed."""

import contextlib
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

_ENDING = "-partial"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """A temporary path beside `path` that takes its place if the block succeeds, and is removed if not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=_ENDING + path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_temporary(path: Path) -> bool:
    """Whether `replacing` made the file, and was killed before it took its place."""
    return path.name.startswith(".") and path.stem.endswith(_ENDING)


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
