"""The hyperparameters of IMPALA, and its presets. Needs no extra."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from memory_maze.agents.config import OnPolicyConfig
from memory_maze.models.cores.config import CoreConfig, LSTMConfig
from memory_maze.system.limits import check_above, check_between, check_least


@dataclasses.dataclass(frozen=True)
class Config(OnPolicyConfig):
    """The hyperparameters, named as in the paper's table where they are in it."""

    title: ClassVar = "IMPALA"
    module: ClassVar = "memory_maze.agents.impala.agent"
    former_names: ClassVar = {
        "environments": "num_envs",
        "sequences": "batch_size",
        "length": "unroll_length",
        "passes": "epochs",
        "decay": "lambda_",
        "entropy": "entropy_cost",
        "trust": "clip_ratio",
        "decay_steps": "lr_decay_steps",
        "last_rate": "lr_end_fraction",
        "epsilon": "adam_epsilon",
        "momentum": "adam_b1",
        "max_gradient": "max_grad_norm",
        "fold": "space_to_depth",
        "shrink": "downsample",
        "small_start": "keras_init",
        "core_size": "core.size",
        "horizon": "core.horizon",
    }

    loss_version: ClassVar = 2
    former_note: ClassVar = (
        "Former V-trace: trained before 19 November 2026, with a loss in which the TD error of an episode's "
        "last state leaked into the targets of its last steps."
    )
    without_default: ClassVar = frozenset({"time_limit"})

    discount: float = 0.99
    """Discount factor per action."""
    lambda_: float = 0.95
    """Lambda of the value targets."""
    time_limit: Literal["bootstrap", "terminate"] = "bootstrap"
    """At the time limit, bootstrap from the value of the last state, or treat it as terminal."""
    entropy_cost: float = 0.001
    """Coefficient of the entropy bonus."""
    clip_ratio: float | None = None
    """Clip the policy's probability ratios to 1 +- this value, as PPO does; no clipping by default."""
    value_cost: float = 0.5
    """Coefficient of the value loss."""
    learning_rate: float = 2e-4
    """Adam's learning rate."""
    lr_decay_steps: int | None = None
    """Decay the learning rate linearly over this many actions; by default it is constant."""
    lr_end_fraction: float = 0.1
    """Fraction of the learning rate left at the end of the decay."""
    adam_epsilon: float = 1e-7
    """Adam's epsilon."""
    adam_b1: float = 0.9
    """Adam's decay rate of the first moment."""
    max_grad_norm: float | None = 40.0
    """Clip gradients to this norm; null for no clipping."""
    core: CoreConfig = dataclasses.field(default=LSTMConfig())
    """The memory: lstm, gru, none, or your own config class as package.module:Name."""
    forget_every: int | None = None
    """Reset the memory every N steps, as an ablation."""
    space_to_depth: bool = False
    """Turn blocks of 2x2 pixels into channels instead of the first pooling."""
    downsample: int = 1
    """Average the image over NxN blocks of pixels."""
    channels: tuple[int, ...] = (16, 32, 32)
    """Channels of each ResNet stage."""
    blocks: int = 2
    """Residual blocks per stage."""
    normalize: bool = True
    """Layer norm on the ResNet's output; without it the output may grow until the memory's gates saturate."""
    keras_init: bool = False
    """Initialize convolutions as Keras does (used by SEED RL), with smaller weights."""
    features: int = 256
    """Size of the ResNet's output."""
    mixed_precision: bool = True
    """Compute convolutions in bfloat16."""

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.num_envs % self.batch_size:
            raise ValueError(f"num_envs={self.num_envs} is not a multiple of batch_size={self.batch_size}")

    @classmethod
    def rename(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        renamed = super().rename(values)
        if renamed.get("core") == "none":
            renamed.pop("core.horizon", None)  # null in former runs, in which every core had one
        return renamed

    @classmethod
    def ablation(cls, values: Mapping[str, Any]) -> str | None:
        if cls.rename(values).get("core") == "none":
            return "no memory"
        if values.get("forget_every"):
            return f"forgets every {values['forget_every']} steps"
        return None

    @classmethod
    def former_version(cls, values: Mapping[str, Any]) -> str | None:
        return None if "time_limit" in values else "former V-trace"

    def _check_numbers(self) -> None:
        for names in (
            ("num_envs", "batch_size", "unroll_length", "epochs", "features", "downsample"),
            ("forget_every", "lr_decay_steps"),
        ):
            check_least(1, **{name: getattr(self, name) for name in names})
        for channels in self.channels:
            check_least(1, channels=channels)
        check_least(0, blocks=self.blocks, entropy_cost=self.entropy_cost, value_cost=self.value_cost)
        check_least(0, lr_end_fraction=self.lr_end_fraction)
        check_above(
            0, learning_rate=self.learning_rate, adam_epsilon=self.adam_epsilon, clip_ratio=self.clip_ratio
        )
        check_above(0, max_grad_norm=self.max_grad_norm)
        check_between(0, 1, discount=self.discount, lambda_=self.lambda_, adam_b1=self.adam_b1)


PRESETS = {
    # Beside the paper's table: what SEED RL, its program, does by itself.
    "paper": Config(
        time_limit="terminate",
        lr_decay_steps=100_000_000,
        lr_end_fraction=0.0,
        adam_b1=0.0,
        max_grad_norm=None,
        normalize=False,
        keras_init=True,
    ),
    "fast": Config(
        num_envs=1024,
        batch_size=16,
        unroll_length=200,
        entropy_cost=0.0003,
        clip_ratio=0.2,
        learning_rate=5e-4,
        lr_decay_steps=100_000_000,
        lr_end_fraction=0.0,
        adam_b1=0.0,
        max_grad_norm=None,
        space_to_depth=True,
        blocks=1,
        normalize=False,
        keras_init=True,
    ),
    "small": Config(
        num_envs=64,
        batch_size=32,
        unroll_length=32,
        learning_rate=5e-4,
        entropy_cost=0.0005,
        downsample=4,
        channels=(),
        features=128,
        core=LSTMConfig(size=64),
        mixed_precision=False,
    ),
    "debug": Config(
        num_envs=4,
        batch_size=2,
        unroll_length=4,
        channels=(4, 4, 4),
        features=8,
        core=LSTMConfig(size=8),
        mixed_precision=False,
    ),
}

Config.presets = PRESETS
