"""The agent interface: a config class with hyperparameters, and a module named by the class.

The config class needs no extra, so that reports can read it anywhere. The module has

    init(key, config) -> network
    make_optimizer(config) -> optax optimizer
    update(network, optimizer_state, sequence, config, axis) -> network, optimizer_state, metrics

where `update` is a gradient step on a `Sequence`, averaged over devices if a mapped axis is given. See
`memory_maze.agents.protocol` for networks. Your own agent is one file: `memory-maze train my_agent:Config`.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar, Self

from memory_maze.system.choices import describe_fields, flatten, nest, read_fields


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """The hyperparameters of an agent. Subclasses add fields, all with defaults."""

    title: ClassVar[str]
    """The agent's name in reports."""
    module: ClassVar[str]
    """The module with `init`, `make_optimizer` and `update`."""
    presets: ClassVar[Mapping[str, Any]] = {}
    """Configs by name, for `memory-maze train --preset`: `fast` for GPUs, `small` for CPUs, ..."""
    learns_from: ClassVar[str] = "sequences"
    """Type of training data: "sequences", on-policy, trained on for one or a few epochs."""
    former_names: ClassVar[Mapping[str, str]] = {}
    """Current names of renamed hyperparameters by former name. Those of a core are like `core.size`."""

    num_envs: int = 128
    """Number of environments."""
    batch_size: int = 32
    """Sequences per gradient step."""
    unroll_length: int = 100
    """Actions per sequence."""
    epochs: int = 1
    """Number of times that each sequence is trained on."""

    loss_version: ClassVar[int] = 1
    """Incremented when a change of the loss makes results incomparable with earlier ones."""
    former_note: ClassVar[str] = ""
    """Note in reports below results of an earlier version."""
    without_default: ClassVar[frozenset[str]] = frozenset()
    """Fields whose default differs from the behaviour of runs before the field existed."""

    @property
    def steps_per_update(self) -> int:
        """Total number of actions in all environments per update."""
        return self.num_envs * self.unroll_length

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
