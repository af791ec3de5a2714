"""Options shared by all training commands: how long to train, and what to write."""

import dataclasses
from typing import Annotated, Any

import tyro


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Duration of the run, and what it writes."""

    steps: int | None = None
    """Number of training steps; by default that of the preset."""
    minutes: float | None = None
    """Stop after this many minutes and evaluate; the same command resumes."""
    seed: int = 0
    """Seed for weights and sampling."""
    save_every: float = 300.0
    """Seconds between checkpoints."""
    log_every: float = 10.0
    """Seconds between lines of metrics."""
    wandb: bool = False
    """Also log to Weights & Biases, with its variables like WANDB_PROJECT; needs the extra [wandb]."""

    def check(self) -> None:
        """Fail before anything starts, not after minutes."""
        if self.wandb:
            from memory_maze.training.log import import_wandb

            import_wandb()

    def values(self) -> dict[str, Any]:
        """The values that were given."""
        return {key: value for key, value in vars(self).items() if value is not None}


Scheduled = Annotated[Schedule, tyro.conf.arg(name="")]
DEFAULT = Schedule()
