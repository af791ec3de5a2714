"""Draw a random scenario, or read one; print its map, and save it with --out."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from memory_maze.sampler import Sampler
from memory_maze.scenario import Scenario
from memory_maze.system.limits import check_between
from memory_maze.tasks import parse_task

console = Console()
MAX_EPISODE = 10_000  # those before are drawn too


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    read: Annotated[Path | None, tyro.conf.Positional] = None
    """A scenario or text map to read and check instead of drawing one."""
    task: str = "9x9"
    """Task to draw from."""
    seed: int = 0
    """Seed to draw with."""
    episode: int = 0
    """Which episode of the seed, if no target is reached in those before."""
    out: Path | None = None
    """File to save the scenario to, as JSON."""

    def run(self) -> None:
        if self.read is not None:
            scenario = Scenario.load(self.read)
        else:
            check_between(0, MAX_EPISODE, episode=self.episode)
            sampler = Sampler(parse_task(self.task), self.seed)
            for _ in range(self.episode + 1):
                scenario = sampler.sample()
        print(scenario.to_text())
        if self.out is not None:
            scenario.save(self.out)
            console.print(f"saved: {self.out}", soft_wrap=True)
