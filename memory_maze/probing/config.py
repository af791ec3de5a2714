"""The hyperparameters of probes. Needs no extra."""

import dataclasses

from memory_maze.system.limits import check_above, check_least

INTERLEAVE = 32  # batches of different trajectories that alternate in training


@dataclasses.dataclass(frozen=True)
class ProbeConfig:
    """The hyperparameters of a probe; the defaults are those of the paper."""

    layers: int = 4
    """Hidden layers; 0 is a linear probe."""
    units: int = 1024
    """Units per hidden layer."""
    norm_epsilon: float = 1e-3
    """Epsilon of the layer norms."""
    learning_rate: float = 3e-4
    """Adam's learning rate."""
    epsilon: float = 1e-5
    """Adam's epsilon."""
    told: tuple[str, ...] = ("walls",)
    """Targets whose probes receive the agent's position and direction. Object positions are in the agent's
    frame, so a probe with the position can predict the maze's centre, which beats the paper's VAE."""

    def __post_init__(self) -> None:
        check_least(0, layers=self.layers)
        check_least(1, units=self.units)
        check_above(0, norm_epsilon=self.norm_epsilon, learning_rate=self.learning_rate, epsilon=self.epsilon)
