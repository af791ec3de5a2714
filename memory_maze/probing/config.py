"""What a run of probing is told. Needs no extra."""

import dataclasses

from memory_maze.system.limits import check_above, check_least

INTERLEAVE = 32  # batches of different trajectories that are learned from in turn


@dataclasses.dataclass(frozen=True)
class ProbeConfig:
    """The paper's table of the probe; other values are for comparison."""

    layers: int = 4
    """Hidden layers; 0 is a linear probe."""
    units: int = 1024
    """Of each."""
    norm_epsilon: float = 1e-3
    """Of the layer norms."""
    learning_rate: float = 3e-4
    """Adam's step size."""
    epsilon: float = 1e-5
    """Adam's epsilon."""
    told: tuple[str, ...] = ("walls",)
    """Targets whose probes are told the agent's position and direction. Objects are asked for in the agent's
    frame; whoever is told where the maze's centre is knows more of them than the paper's VAE does."""

    def __post_init__(self) -> None:
        check_least(0, layers=self.layers)
        check_least(1, units=self.units)
        check_above(0, norm_epsilon=self.norm_epsilon, learning_rate=self.learning_rate, epsilon=self.epsilon)
