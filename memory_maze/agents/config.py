"""The agent interface: a config class with hyperparameters, and a module named by the class.

The config class needs no extra, so that reports can read it anywhere. It is an `OnPolicyConfig` or an
`OffPolicyConfig`. The module has `init(key, config) -> network`, and on-policy

    make_optimizer(config) -> optax optimizer
    update(network, optimizer_state, sequence, config, axis) -> network, optimizer_state, metrics

where `update` is a gradient step on a `Sequence`, or off-policy

    begin(network, config) -> learner
    update(network, learner, carry, window, key, config, axis) -> network, learner, carry, metrics

where `learner` is what else is trained or counted, such as optimizer states and target networks, and `update`
is a gradient step on a `Window` of a replay, whose memory before is `carry`. Both average over devices if a
mapped axis is given. The module of a world model also has

    predict(network, window, seen, key) -> (T, B, S, S, 3) uint8 images

for strips of images, of which it sees the first ones. See `memory_maze.agents.protocol` for networks,
sequences and windows. Your own agent is one file: `memory-maze train my_agent:Config`.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar, Literal, Self

from memory_maze.system.choices import describe_fields, flatten, nest, read_fields
from memory_maze.system.limits import check_between, check_least


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """The hyperparameters of an agent. Subclasses add fields, all with defaults."""

    title: ClassVar[str]
    """The agent's name in reports."""
    module: ClassVar[str]
    """The module with `init`, `update` and more."""
    presets: ClassVar[Mapping[str, Any]] = {}
    """Configs by name, for `memory-maze train --preset`: `fast` for GPUs, `small` for CPUs, ..."""
    learns_from: ClassVar[str]
    """Type of training data: "sequences", on-policy, or "replay", off-policy."""
    told: ClassVar[str | None] = None
    """What the agent is given during training beside images and rewards, for reports; None if nothing."""
    former_names: ClassVar[Mapping[str, str]] = {}
    """Current names of renamed hyperparameters by former name. Those of a core are like `core.size`."""

    num_envs: int = 128
    """Number of environments."""
    batch_size: int = 32
    """Sequences per gradient step."""

    loss_version: ClassVar[int] = 1
    """Incremented when a change of the loss makes results incomparable with earlier ones."""
    former_note: ClassVar[str] = ""
    """Note in reports below results of an earlier version."""
    without_default: ClassVar[frozenset[str]] = frozenset()
    """Fields whose default differs from the behaviour of runs before the field existed."""

    @property
    def steps_per_iteration(self) -> int:
        """Total number of steps in all environments per call of the training program."""
        raise NotImplementedError(
            f"{type(self).__name__} is neither an OnPolicyConfig nor an OffPolicyConfig"
        )

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Creates a config from plain data, also from earlier versions."""
        return cls(**read_fields(cls, nest(cls.rename(values))))

    @classmethod
    def rename(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Converts plain data to current names, with those of a core as `core.size`."""
        return {cls.former_names.get(key, key): value for key, value in flatten(values).items()}

    @classmethod
    def nearest_preset(cls, values: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """Returns the preset with the fewest differences from plain data, and the differences."""
        values = cls.rename(values)
        values = cls._defaults(values) | values
        presets = {name: preset.settings() for name, preset in cls.presets.items()}
        differences = {
            name: {key: value for key, value in values.items() if key not in preset or preset[key] != value}
            for name, preset in presets.items()
        }
        if not differences:
            return None, {}
        nearest = min(differences, key=lambda name: len(differences[name]))
        return nearest, differences[nearest]

    @classmethod
    def ablation(cls, values: Mapping[str, Any]) -> str | None:
        """Returns a short description of an ablation for reports, or None."""
        return None

    @classmethod
    def former_version(cls, values: Mapping[str, Any]) -> str | None:
        """Returns the name of the earlier, incomparable version of a run, or None."""
        return None

    @classmethod
    def _defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns defaults for missing values, without those of the default core if another one is chosen."""
        defaults = cls().settings()
        others = {key for key in values.keys() & defaults.keys() if values[key] != defaults[key]}
        return {
            key: value
            for key, value in defaults.items()
            if key not in cls.without_default and key.rpartition(".")[0] not in others
        }

    def describe(self) -> dict[str, Any]:
        """Returns the config as plain data."""
        return describe_fields(self)

    def settings(self) -> dict[str, Any]:
        """Returns plain data with the names of `memory-maze train --set`: core=gru, core.size=128."""
        return flatten(self.describe())

    def load(self) -> ModuleType:
        """Imports the agent's module."""
        return importlib.import_module(self.module)


@dataclasses.dataclass(frozen=True)
class OnPolicyConfig(AgentConfig):
    """Of agents that learn from what they have just done."""

    learns_from: ClassVar = "sequences"

    unroll_length: int = 100
    """Actions per sequence."""
    epochs: int = 1
    """Number of times that each sequence is trained on."""

    @property
    def steps_per_iteration(self) -> int:
        return self.num_envs * self.unroll_length


@dataclasses.dataclass(frozen=True)
class OffPolicyConfig(AgentConfig):
    """Of agents that learn from a replay of whole episodes.

    In each iteration every environment makes `unroll_length` steps, and the agent as many updates as
    `steps_per_update` allows.
    """

    learns_from: ClassVar = "replay"
    carries: ClassVar[bool] = False
    """Whether a window's memory is that at the end of the window before, rather than a new one."""
    observations: ClassVar[tuple[str, ...]] = ()
    """Observations in windows beside the image. They are for learning alone: acting never has them."""

    num_envs: int = 8
    unroll_length: int = 25
    """Steps of each environment per iteration."""
    steps_per_update: int = 25
    """Environment steps per gradient step."""
    batch_length: int = 48
    """Records per sequence."""
    replay_steps: int = 10_000_000
    """Size of the replay in environment steps."""
    prefill_steps: int = 50_000
    """Steps of whole episodes with random actions before the first gradient step."""
    windows: Literal["streams", "random"] = "streams"
    """Read episodes from their start to their end, window by window, or windows at random."""
    reward_windows: int = 0
    """Sequences per batch that are windows in which a reward was paid: where rewards are rare, they are soon
    predicted."""
    turns: int = 4
    """Number of batches of different episodes that alternate."""
    piece: int | None = None
    """Cut episodes into pieces of so many steps, which are read independently."""
    cut_interval: int | None = None
    """Reset the memory at random points, up to once in so many records."""
    store_images: bool = False
    """Keep downsampled images in the replay instead of rendering them again: faster on CPUs, but larger."""
    downsample: int = 1
    """Average the image over NxN blocks of pixels."""

    def __post_init__(self) -> None:
        names = ("num_envs", "batch_size", "unroll_length", "steps_per_update", "batch_length", "turns")
        for group in (names, ("replay_steps", "piece", "cut_interval", "downsample")):
            check_least(1, **{name: getattr(self, name) for name in group})
        check_least(0, prefill_steps=self.prefill_steps)
        check_between(0, self.batch_size, reward_windows=self.reward_windows)
        if self.steps_per_iteration % self.steps_per_update:
            raise ValueError(
                f"num_envs={self.num_envs} times unroll_length={self.unroll_length} is not a multiple of "
                f"steps_per_update={self.steps_per_update}"
            )
        if self.prefill_steps > self.replay_steps:
            raise ValueError(
                f"prefill_steps={self.prefill_steps} is more than replay_steps={self.replay_steps}"
            )

    @property
    def steps_per_iteration(self) -> int:
        return self.num_envs * self.unroll_length

    @property
    def updates_per_iteration(self) -> int:
        """Gradient steps per call of the training program."""
        return self.steps_per_iteration // self.steps_per_update
