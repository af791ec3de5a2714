"""The hyperparameters of the three Dreamers, and their presets. Needs no extra."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from memory_maze.agents.config import OffPolicyConfig
from memory_maze.system.limits import check_above, check_between, check_least


@dataclasses.dataclass(frozen=True)
class Config(OffPolicyConfig):
    """Dreamer: every window of training begins with an empty memory.

    The defaults are those of the preset `paper`, but for what only the paper's program does.
    """

    title: ClassVar = "Dreamer"
    module: ClassVar = "memory_maze.agents.dreamer.agent"

    deter: int = 2048
    """Size of the recurrent state."""
    hidden: int = 1000
    """Units of the RSSM's hidden layers."""
    groups: int = 32
    """Number of one-hot vectors in the stochastic state."""
    classes: int = 32
    """Size of each."""
    cell: Literal["plain", "normed"] = "plain"
    """The recurrent cell: a plain GRU, or DreamerV2's with layer norm."""
    depth: int = 48
    """Channels of the first convolution."""
    vision_units: int = 96
    """Units of the encoder and the decoder of downsampled images, which have no convolutions."""
    head_layers: int = 4
    """Hidden layers of reward and terminal heads, actor and critic."""
    head_units: int = 400
    """Units of each."""
    zero_heads: bool = True
    """Let reward and terminal heads, actor and critic output zeros at first."""
    mixed_precision: bool = True
    """Compute matrix products and convolutions in bfloat16."""

    kl_scale: float = 1.0
    """Coefficient of the KL loss."""
    kl_balance: float = 0.8
    """Share of the KL gradient that trains the prior."""
    reward_scale: float = 1.0
    """Coefficient of the reward loss."""
    discount: float = 0.995
    """Discount factor per action."""
    lambda_: float = 0.95
    """Lambda of the returns."""
    horizon: int = 15
    """Imagined actions per sequence."""
    imagine_every: int = 1
    """Imagine from every Nth record of each sequence."""
    entropy_cost: float = 0.001
    """Coefficient of the entropy bonus."""
    target_interval: int = 100
    """Gradient steps between copies of the critic to the target critic."""

    learning_rate: float = 3e-4
    """AdamW's learning rate of the world model."""
    actor_learning_rate: float = 1e-4
    """AdamW's learning rate of the actor."""
    critic_learning_rate: float = 1e-4
    """AdamW's learning rate of the critic."""
    adam_epsilon: float = 1e-5
    """AdamW's epsilon."""
    weight_decay: float = 1e-2
    """AdamW's weight decay, of all parameters."""
    max_grad_norm: float = 200.0
    """Clip the gradients of world model, actor and critic to this norm, each by itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (
            "deter",
            "hidden",
            "groups",
            "classes",
            "depth",
            "vision_units",
            "head_units",
            "horizon",
        ):
            check_least(1, **{name: getattr(self, name)})
        check_least(0, head_layers=self.head_layers, weight_decay=self.weight_decay)
        check_least(0, entropy_cost=self.entropy_cost, kl_scale=self.kl_scale, reward_scale=self.reward_scale)
        check_least(1, target_interval=self.target_interval, imagine_every=self.imagine_every)
        check_above(0, learning_rate=self.learning_rate, actor_learning_rate=self.actor_learning_rate)
        check_above(0, critic_learning_rate=self.critic_learning_rate, adam_epsilon=self.adam_epsilon)
        check_above(0, max_grad_norm=self.max_grad_norm)
        check_between(0, 1, discount=self.discount, lambda_=self.lambda_, kl_balance=self.kl_balance)


@dataclasses.dataclass(frozen=True)
class TBTTConfig(Config):
    """Dreamer with truncated backpropagation through time: the memory is carried from window to window."""

    title: ClassVar = "Dreamer (TBTT)"
    carries: ClassVar = True


@dataclasses.dataclass(frozen=True)
class ProbeConfig(TBTTConfig):
    """Dreamer (TBTT) whose memory is also trained to predict where the objects are."""

    title: ClassVar = "Dreamer (TBTT + Probe loss)"
    told: ClassVar = "the object positions"
    observations: ClassVar = ("targets_vec", "target_vec")

    probe_layers: int = 4
    """Hidden layers of the probes of all objects and of the target."""
    probe_units: int = 400
    """Units of each."""
    probe_head: Literal["trained", "fixed"] = "trained"
    """Train the probes with the world model, or leave them as initialized, as the paper's program does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(0, probe_layers=self.probe_layers)
        check_least(1, probe_units=self.probe_units)


# The paper's table and its program, where both differ the program, which its scores are of.
_PAPER: dict[str, Any] = {"piece": 1000, "cut_interval": 200, "zero_heads": False}
_FAST: dict[str, Any] = {"num_envs": 64, "steps_per_update": 160}
_SMALL: dict[str, Any] = {
    "num_envs": 32,
    "batch_size": 16,
    "batch_length": 16,
    "turns": 1,
    "replay_steps": 500_000,
    "reward_windows": 1,
    "store_images": True,
    "downsample": 4,
    "deter": 128,
    "hidden": 96,
    "groups": 8,
    "classes": 8,
    "vision_units": 96,
    "head_layers": 2,
    "head_units": 64,
    "horizon": 8,
    "entropy_cost": 3e-3,
    "learning_rate": 1e-3,
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "mixed_precision": False,
}
_DEBUG: dict[str, Any] = _SMALL | {
    "num_envs": 4,
    "unroll_length": 10,
    "steps_per_update": 10,
    "batch_size": 2,
    "batch_length": 6,
    "turns": 2,
    "replay_steps": 20_000,
    "downsample": 8,
    "prefill_steps": 0,
    "deter": 8,
    "hidden": 8,
    "groups": 2,
    "classes": 4,
    "vision_units": 8,
    "head_units": 8,
    "horizon": 3,
}
_PRESETS = {"paper": _PAPER, "fast": _FAST, "small": _SMALL, "debug": _DEBUG}


def _make_presets(config: type[Config], **small: Any) -> Mapping[str, Config]:
    """Those of an agent; `small` is what networks for CPUs have beside."""
    more: dict[str, Any] = {"small": small, "debug": {name: min(value, 8) for name, value in small.items()}}
    return {name: config(**values | more.get(name, {})) for name, values in _PRESETS.items()}


Config.presets = _make_presets(Config)
TBTTConfig.presets = _make_presets(TBTTConfig)
ProbeConfig.presets = _make_presets(ProbeConfig, probe_layers=2, probe_units=64)
