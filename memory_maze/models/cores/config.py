"""The hyperparameters of memory cores.

Needs no extra, so that reports can read it anywhere. Your own core is one file, with its config:

    @dataclasses.dataclass(frozen=True)
    class Config(CoreConfig):
        size: int = 64

        def make(self, key, inputs):
            return MyCore(key, inputs, self.size)  # a subclass of memory_maze.models.cores.core.Core

Train it with `memory-maze train impala --set core=my_core:Config core.size=128`.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar

from memory_maze.models.cores.registry import CORES
from memory_maze.system.choices import Choice
from memory_maze.system.limits import check_least

if TYPE_CHECKING:
    import jax

    from memory_maze.models.cores.core import Core


@dataclasses.dataclass(frozen=True)
class CoreConfig(Choice, abc.ABC):
    """The hyperparameters of a memory core. Subclasses add fields, all hashable and with defaults."""

    kind: ClassVar = "core"
    places: ClassVar = CORES

    @abc.abstractmethod
    def make(self, key: "jax.Array", inputs: int) -> "Core":
        """Makes a core with new weights.

        Args:
            key: Random key for the weights.
            inputs: Number of input features per step.
        """


@dataclasses.dataclass(frozen=True)
class SizedConfig(CoreConfig):
    """A core with a configurable size."""

    size: int = 256
    """Size of the output."""

    def __post_init__(self) -> None:
        check_least(1, size=self.size)


@dataclasses.dataclass(frozen=True)
class GatedConfig(SizedConfig):
    """A core whose gates control how long it remembers."""

    horizon: int | None = None
    """Chrono initialization of the gates (Tallec and Ollivier 2018) for time spans of up to N steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(3, horizon=self.horizon)


@dataclasses.dataclass(frozen=True)
class LSTMConfig(GatedConfig):
    """Long short-term memory."""

    def make(self, key: "jax.Array", inputs: int) -> "Core":
        from memory_maze.models.cores.lstm import LSTM

        return LSTM(key, inputs, self.size, self.horizon)


@dataclasses.dataclass(frozen=True)
class GRUConfig(GatedConfig):
    """Gated recurrent unit."""

    def make(self, key: "jax.Array", inputs: int) -> "Core":
        from memory_maze.models.cores.gru import GRU

        return GRU(key, inputs, self.size, horizon=self.horizon)


@dataclasses.dataclass(frozen=True)
class MemorylessConfig(SizedConfig):
    """No memory, for comparison."""

    def make(self, key: "jax.Array", inputs: int) -> "Core":
        from memory_maze.models.cores.memoryless import Memoryless

        return Memoryless(key, inputs, self.size)
