"""What an agent is to the rest of the package: a config class, and a module that the class names.

The class holds the hyperparameters; it needs no extra, so that reports can read it anywhere. The module has

    init(key, config) -> network
    make_optimizer(config) -> optax optimizer
    update(network, optimizer_state, sequence, config, axis) -> network, optimizer_state, metrics

where `update` is a gradient step on a `Sequence`, over all devices if a mapped axis is named; what a network
is, `memory_maze.agents.protocol` says. An agent of your own is one file: `memory-maze train my_agent:Config`.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar, Self

from memory_maze.system.choices import describe_fields, flatten, nest, read_fields


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """The hyperparameters of an agent. A subclass adds fields, and gives all of them defaults."""

    title: ClassVar[str]
    """The agent's name in reports."""
    module: ClassVar[str]
    """The module with `init`, `make_optimizer` and `update`."""
    presets: ClassVar[Mapping[str, Any]] = {}
    """Configs by name, for `memory-maze train --preset`: `fast` is meant for GPUs, `small` for CPUs."""
    learns_from: ClassVar[str] = "sequences"
    """What: "sequences" that it has just played, each learned from once or a few times."""
    former_names: ClassVar[Mapping[str, str]] = {}
    """Hyperparameters that had other names: by the former one. A core's own are named like `core.size`."""

    num_envs: int = 128
    """Mazes played at once."""
    batch_size: int = 32
    """Sequences in a gradient step."""
    unroll_length: int = 100
    """Actions in a sequence."""
    epochs: int = 1
    """How many times each sequence is learned from."""

    loss_version: ClassVar[int] = 1
    """Counted up when the loss changes, so that results are no longer comparable with earlier ones."""
    former_note: ClassVar[str] = ""
    """What reports say below results of an earlier version."""
    without_default: ClassVar[frozenset[str]] = frozenset()
    """Fields whose default is not what runs did before there was a choice."""

    @property
    def steps_per_update(self) -> int:
        """Actions in all mazes together between two updates."""
        return self.num_envs * self.unroll_length

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """A config from plain data, also that of an earlier version."""
        return cls(**read_fields(cls, nest(cls.rename(values))))

    @classmethod
    def rename(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data by the names of today, those within a core as `core.size`."""
        return {cls.former_names.get(key, key): value for key, value in flatten(values).items()}

    @classmethod
    def nearest_preset(cls, values: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """The preset that plain data differs least from, and the values that differ."""
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
        """What an agent trained for comparison lacks, in a few words for reports."""
        return None

    @classmethod
    def former_version(cls, values: Mapping[str, Any]) -> str | None:
        """Which earlier version of the agent a run on file is of, if results are not comparable."""
        return None

    @classmethod
    def _defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Defaults for what the values lack; none of a core's own values if they have another core."""
        defaults = cls().settings()
        others = {key for key in values.keys() & defaults.keys() if values[key] != defaults[key]}
        return {
            key: value
            for key, value in defaults.items()
            if key not in cls.without_default and key.rpartition(".")[0] not in others
        }

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return describe_fields(self)

    def settings(self) -> dict[str, Any]:
        """Plain data by the names that `memory-maze train --set` takes: core=gru, core.size=128."""
        return flatten(self.describe())

    def load(self) -> ModuleType:
        """The agent's module."""
        return importlib.import_module(self.module)
