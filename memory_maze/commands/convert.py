"""Convert scenes to NPZ files, or NPZ files to scenes. Run it again to resume."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    source: tyro.conf.Positional[str]
    """Data set: a directory, a zip file of NPZ files, or hub:owner/name."""
    out: tyro.conf.Positional[Path]
    """Output directory."""
    format: Literal["scenes", "npz"] = "npz"
    """Format to write."""

    def run(self) -> None:
        from rich.console import Console

        from memory_maze.data.progress import run_conversion

        run_conversion(self.source, self.out, self.format, Console())
