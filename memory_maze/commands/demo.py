"""Take a random walk in all four sizes. Writes a contact sheet, images of all variants, and a video."""

import dataclasses
from pathlib import Path
from typing import Literal

from rich.console import Console

from memory_maze.sampler import check_seed
from memory_maze.system.files import check_writable
from memory_maze.system.limits import check_between

console = Console()


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    out: Path = Path("demo")
    """Output directory."""
    steps: int = 120
    """Steps per walk."""
    seed: int = 12
    """Seed for mazes and walks."""
    fps: int = 8
    """Frames per second of the video; the benchmark itself runs at 4 steps per second."""
    engine: Literal["jax", "mujoco"] = "jax"
    """Engine that simulates and renders; mujoco needs the extra [mujoco] and OpenGL."""

    def run(self) -> None:
        from memory_maze.watch.demo import run_demo

        check_between(1, 1000, steps=self.steps)  # an episode of 9x9
        check_between(1, 100, fps=self.fps)
        check_seed(self.seed)
        check_writable(self.out / "walk.mp4")
        for what, path in run_demo(self.out, self.steps, self.seed, self.fps, self.engine).items():
            console.print(f"{what}: {path}", soft_wrap=True)
