"""The options of everything that trains: for how long, and what is written meanwhile."""

import dataclasses
from typing import Annotated, Any

import tyro


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long a run trains, and what it writes."""

    steps: int | None = None
    """How many steps; by default those of the preset."""
    minutes: float | None = None
    """Stop training after so long and evaluate what was learned by then; the same command goes on."""
    seed: int = 0
    """Seed of the weights and of what is sampled."""
    save_every: float = 300.0
    """Seconds between two checkpoints."""
    log_every: float = 10.0
    """Seconds between two lines of metrics."""
    wandb: bool = False
    """Log to Weights & Biases too, by its own variables like WANDB_PROJECT; needs the extra [wandb]."""

    def check(self) -> None:
        """Before anything is begun, not after minutes."""
        if self.wandb:
            from memory_maze.training.log import import_wandb

            import_wandb()

    def values(self) -> dict[str, Any]:
        """What a run is given, without what was left out."""
        return {key: value for key, value in vars(self).items() if value is not None}


Scheduled = Annotated[Schedule, tyro.conf.arg(name="")]
DEFAULT = Schedule()
