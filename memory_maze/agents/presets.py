"""The values of IMPALA, and those that go together. Needs no extra."""

import dataclasses
from typing import Literal

from memory_maze.limits import check_above, check_between, check_least


@dataclasses.dataclass(frozen=True)
class Config:
    """Values of the paper's table of hyper-parameters, where it has them."""

    environments: int = 128
    """Mazes that are played at once."""
    sequences: int = 32
    """Sequences in a gradient step."""
    length: int = 100
    """Actions in a sequence."""
    passes: int = 1
    """Times that each sequence is learned from."""
    discount: float = 0.99
    """Of rewards, for each action."""
    decay: float = 0.95
    """Lambda of the value targets."""
    time_limit: Literal["bootstrap", "terminate"] = "bootstrap"
    """What follows an episode's last step: the value of its last state, as if it went on, or nothing."""
    entropy: float = 0.001
    """Scale of the entropy bonus."""
    trust: float | None = None
    """Learn no more from an action once its chance has changed by this share (PPO's clipping)."""
    value_cost: float = 0.5
    """Scale of the value loss."""
    learning_rate: float = 2e-4
    """Adam's step size."""
    decay_steps: int | None = None
    """Let the step size fall over so many actions; by default it stays."""
    last_rate: float = 0.1
    """What is left of it then."""
    epsilon: float = 1e-7
    """Adam's epsilon."""
    momentum: float = 0.9
    """Decay of Adam's mean of gradients."""
    max_gradient: float | None = 40.0
    """Norm at which gradients are clipped, if at all."""
    core: str = "lstm"
    """What remembers: lstm, gru or none."""
    core_size: int = 256
    """Size of its output."""
    horizon: int | None = None
    """Let its units begin with time spans of up to so many steps; by default they soon forget at first."""
    forget_every: int | None = None
    """Empty the memory every so many steps, for comparison."""
    fold: bool = False
    """See squares of four pixels as one with all their colours, in place of the first pooling."""
    shrink: int = 1
    """See squares of so many pixels as one."""
    channels: tuple[int, ...] = (16, 32, 32)
    """Of the ResNet's stages."""
    blocks: int = 2
    """Residual blocks in each stage."""
    normalize: bool = True
    """Normalize the ResNet's output. Unless it starts small, it may grow until the memory's gates close."""
    small_start: bool = False
    """Let convolutions begin as small as those of Keras, in which SEED RL is written."""
    features: int = 256
    """Size of the ResNet's output."""
    mixed_precision: bool = True
    """Convolutions in bfloat16."""

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.environments % self.sequences:
            raise ValueError(
                f"{self.environments} environments do not make whole groups of {self.sequences} sequences"
            )

    def _check_numbers(self) -> None:
        for names in (
            ("environments", "sequences", "length", "passes", "features", "core_size", "shrink"),
            ("horizon", "forget_every", "decay_steps"),
        ):
            check_least(1, **{name: getattr(self, name) for name in names})
        for channels in self.channels:
            check_least(1, channels=channels)
        check_least(0, blocks=self.blocks, entropy=self.entropy, value_cost=self.value_cost)
        check_least(0, last_rate=self.last_rate)
        check_above(0, learning_rate=self.learning_rate, epsilon=self.epsilon, trust=self.trust)
        check_above(0, max_gradient=self.max_gradient)
        check_between(0, 1, discount=self.discount, decay=self.decay, momentum=self.momentum)


PRESETS = {
    # Beside the paper's table: what SEED RL, its program, does by itself.
    "paper": Config(
        time_limit="terminate",
        decay_steps=100_000_000,
        last_rate=0.0,
        momentum=0.0,
        max_gradient=None,
        normalize=False,
        small_start=True,
    ),
    "fast": Config(
        environments=1024,
        sequences=16,
        length=200,
        entropy=0.0003,
        trust=0.2,
        learning_rate=5e-4,
        decay_steps=100_000_000,
        last_rate=0.0,
        momentum=0.0,
        max_gradient=None,
        fold=True,
        blocks=1,
        normalize=False,
        small_start=True,
    ),
    "small": Config(
        environments=64,
        sequences=32,
        length=32,
        learning_rate=5e-4,
        entropy=0.0005,
        shrink=4,
        channels=(),
        features=128,
        core_size=64,
        mixed_precision=False,
    ),
    "debug": Config(
        environments=4,
        sequences=2,
        length=4,
        channels=(4, 4, 4),
        features=8,
        core_size=8,
        mixed_precision=False,
    ),
}
