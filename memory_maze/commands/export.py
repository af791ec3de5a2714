"""Export a data set to Minari."""

import dataclasses
from typing import Literal

import tyro


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    dataset: tyro.conf.Positional[str]
    """Data set: a directory, a zip file, or a name such as hub:owner/name."""
    name: str
    """Minari id, such as memory-maze/9x9-explorer-v0."""
    split: Literal["train", "eval"] | None = None
    """Split to export; by default all trajectories."""
    observations: Literal["image", "all"] = "image"
    """Only the image, or a dictionary of all observations."""
    jpeg: bool = False
    """Store images as JPEG: smaller but lossy."""

    def run(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        from memory_maze.data.dataset import load
        from memory_maze.data.minari import export

        console = Console()
        dataset = load(self.dataset, self.split)
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task(self.name, total=int((dataset.lengths - 1).sum()))
            exported = export(
                dataset,
                self.name,
                observations=self.observations,
                jpeg=self.jpeg,
                advance=lambda steps: progress.advance(bar, steps),
            )
        console.print(
            f"{exported.total_episodes:,} episodes, {exported.total_steps:,} steps: "
            f"{exported.storage.data_path.parent}",
            soft_wrap=True,
        )
        console.print(f'load it with minari.load_dataset("{self.name}")', soft_wrap=True)
