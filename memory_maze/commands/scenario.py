"""Sample a random scenario or load one, print its map, and optionally save it."""

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
MAX_EPISODE = 10_000  # earlier ones are sampled too


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    read: Annotated[Path | None, tyro.conf.Positional] = None
    """Scenario or text map to load and check instead of sampling one."""
    task: str = "9x9"
    """Task to sample from."""
    seed: int = 0
    """Seed of the sequence of episodes."""
    episode: int = 0
    """Index of the episode in the sequence, assuming that no target is reached in earlier ones."""
    out: Path | None = None
    """File to save the scenario to (.json)."""

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
