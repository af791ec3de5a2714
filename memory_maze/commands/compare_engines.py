"""Compare the JAX engine with the MuJoCo reference. Writes metrics, their limits, and images side by side."""

import dataclasses
import importlib.util
from pathlib import Path

from rich.console import Console

from memory_maze.sampler import check_seed
from memory_maze.system.extras import missing
from memory_maze.system.files import check_writable
from memory_maze.tasks import TASKS, parse_task

console = Console()


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    out: Path = Path("comparison")
    """Output directory for figures.json and images."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Tasks to compare on."""
    quick: bool = False
    """Run a shorter comparison of a few minutes; the full one takes about half an hour on two cores."""
    seed: int = 1000
    """Seed for mazes and actions."""

    def run(self) -> None:
        if importlib.util.find_spec("PIL") is None:
            raise missing("this command needs PIL", "PIL", "video")
        from memory_maze.compare import report as comparison

        check_seed(self.seed)
        check_writable(self.out / "figures.json")
        for task in self.tasks:
            parse_task(task)
        effort = comparison.QUICK if self.quick else comparison.FULL
        report = comparison.write_report(self.out, self.tasks, effort, self.seed)
        console.print(comparison.statistics_table(report))
        console.print(comparison.check_table(report))
        console.print(f"written: {self.out}", soft_wrap=True)
        if not report["passed"]:
            raise RuntimeError("the engines differ by more than the limits allow: see the table above")
