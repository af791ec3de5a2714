"""Render the predictions of a model's probes along a held-out trajectory."""

import dataclasses
from pathlib import Path

import tyro

from memory_maze.system.extras import missing
from memory_maze.system.limits import check_between


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    run_folder: tyro.conf.Positional[Path]
    """Run directory of `memory-maze probe`."""
    data: str
    """Data set with evaluation trajectories."""
    out: Path
    """Output file: a strip of frames (.png) or a video (.mp4)."""
    trajectory: int = 0
    """Index of the evaluation trajectory."""
    columns: int = 6
    """Number of frames on the strip, evenly spaced over the trajectory."""

    def run(self) -> None:
        from rich.console import Console

        from memory_maze import data
        from memory_maze.system.video import import_pictures, import_video

        if self.out.suffix not in (".png", ".mp4"):
            raise ValueError(f"{self.out}: the file must end in .png or .mp4")
        check_between(1, 100, columns=self.columns)
        check_extra = import_pictures if self.out.suffix == ".png" else import_video
        check_extra()
        try:
            from memory_maze.probing.pictures import write_predictions, write_strip
            from memory_maze.probing.predictions import load_run, predict
        except ModuleNotFoundError as error:
            raise missing(f"probing needs {error.name}", error.name, "train") from error
        dataset = data.load(self.data, "eval")
        predictions = predict(*load_run(self.run_folder, dataset), dataset, self.trajectory)
        if self.out.suffix == ".png":
            write_strip(self.out, predictions, self.columns)
        else:
            write_predictions(self.out, predictions)
        Console().print(f"written: {self.out}", soft_wrap=True)
