"""Turn scenes into NPZ files, or NPZ files into scenes; run it again to finish."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    source: tyro.conf.Positional[str]
    """The data set: a folder, a zip file of NPZ files, or hub:owner/name."""
    out: tyro.conf.Positional[Path]
    """Folder for the other format."""
    format: Literal["scenes", "npz"] = "npz"
    """The format to write."""

    def run(self) -> None:
        from rich.console import Console

        from memory_maze.data.progress import run_conversion

        run_conversion(self.source, self.out, self.format, Console())
