"""How to add the extras that parts of this package need, from where the package was installed."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def missing(needs: str, module: str | None, extras: str) -> ModuleNotFoundError:
    """The error that says what needs which module, as in "figures need matplotlib", and the remedy."""
    return ModuleNotFoundError(f"{needs}: {install_command(extras)}", name=module)


def install_command(extras: str) -> str:
    """What adds extras, like "video,plots", and leaves the package as it is."""
    record = _read_record()
    url = record.get("url", "")
    place = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
    if "vcs_info" in record:
        origin = record["vcs_info"]
        folder = f"#subdirectory={record['subdirectory']}" if "subdirectory" in record else ""
        return f'pip install "memory-maze[{extras}] @ {origin["vcs"]}+{url}@{origin["commit_id"]}{folder}"'
    if "archive_info" in record and (place is None or place.exists()):
        return f'pip install "memory-maze[{extras}] @ {url}"'
    if "dir_info" in record and place is not None and place.exists():
        option = "-e " if record["dir_info"].get("editable") else ""
        return f'pip install {option}"{place}[{extras}]"'
    from memory_maze.version import __version__

    # Without a version, an index that has not this one gives the package of 2022.
    return f'pip install "memory-maze[{extras}]>={__version__}"'


def _read_record() -> dict[str, Any]:
    """What the installer noted (PEP 610); nothing if the package came from an index."""
    try:
        return json.loads(metadata.distribution("memory-maze").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return {}
