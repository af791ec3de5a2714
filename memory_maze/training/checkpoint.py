"""Checkpoints: everything that a run needs to go on, written by orbax."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp
from rich.console import Console

from memory_maze.agents.weights import from_arrays, to_arrays
from memory_maze.system.files import replacing
from memory_maze.training.devices import is_first, on_first

_KEPT = 2  # checkpoints
_CHECKSUMS = "checksums.json"


class Checkpoints:
    """The checkpoints of a run, the last ones of which are kept. Of several hosts all do the same.

    Each has checksums of its files, for orbax restores damaged ones with other numbers. The last ones are
    removed if they are not as they were written.
    """

    def __init__(self, folder: Path) -> None:
        on_first(lambda: _remove_damaged(folder))
        self._folder = folder
        options = ocp.CheckpointManagerOptions(max_to_keep=_KEPT)
        self._manager = ocp.CheckpointManager(folder.resolve(), options=options)

    @property
    def latest(self) -> int | None:
        """The step of the last one, if there is one."""
        return self._manager.latest_step()

    def save(self, step: int, tree: Any, *beside: Path) -> None:
        """Writes all arrays, whole or not at all. Files beside them that belong to them are checked too."""
        if step != self.latest:
            self._manager.save(step, args=ocp.args.StandardSave(to_arrays(tree)))
            self._manager.wait_until_finished()
            if is_first():
                _write_checksums(self._folder / str(step), beside)

    def restore(self, template: Any) -> Any:
        """The last one, as a tree like the template, on the devices that it names."""
        wanted = to_arrays(template)
        arrays = self._manager.restore(self.latest, args=ocp.args.StandardRestore(wanted))
        return from_arrays(dict(arrays), template)

    def close(self) -> None:
        self._manager.close()


def _write_checksums(checkpoint: Path, beside: tuple[Path, ...]) -> None:
    within = [path for path in checkpoint.rglob("*") if path.is_file()]
    checksums = {}
    for path in (*within, *beside):
        with path.open("rb") as file:
            os.fsync(file.fileno())  # orbax does so with arrays alone
        checksums[os.path.relpath(path, checkpoint)] = _hash(path)
    with replacing(checkpoint / _CHECKSUMS) as path:
        path.write_text(json.dumps(checksums, indent=1) + "\n")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_damaged(folder: Path) -> None:
    """Removes the last checkpoints as far as they are not whole."""
    found = sorted(
        (path for path in folder.glob("*") if path.name.isdigit()), key=lambda path: int(path.name)
    )
    damaged = []
    while found and not _is_whole(found[-1], found[:-1]):
        damaged.append(found.pop())
    if damaged and not found:
        raise ValueError(
            f"{folder}: its checkpoints are damaged: choose another directory, or remove this run"
        )
    for path in damaged:
        shutil.rmtree(path)
        Console(stderr=True).print(
            f"{path}: this checkpoint is damaged and was removed: resuming from the previous one",
            soft_wrap=True,
        )


def _is_whole(checkpoint: Path, before: list[Path]) -> bool:
    if not (checkpoint / _CHECKSUMS).exists():  # of an older version, unless the ones before have them
        return not any((path / _CHECKSUMS).exists() for path in before)
    try:
        checksums = json.loads((checkpoint / _CHECKSUMS).read_bytes())
        return all(_hash(checkpoint / name) == checksum for name, checksum in checksums.items())
    except (OSError, ValueError, AttributeError):
        return False
