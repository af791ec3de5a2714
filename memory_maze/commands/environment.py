"""The options that select the environment, shared by all commands."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from memory_maze.options import Options
    from memory_maze.tasks import Task


@dataclasses.dataclass(frozen=True)
class Variant:
    """Variant of the task. Trained agents default to the variant they were trained on."""

    objects: int | None = None
    """Objects per maze, 1 to 6; by default those of the task, and 3 for custom sizes."""
    seconds: float | None = None
    """Episode length in simulated seconds; by default that of the task."""
    variant: str | None = None
    """Variant as in the environment id: Vis, HD, Top, 6CL, HiFreq, Oracle, ...; "" for none."""
    options: tuple[str, ...] = ()
    """Environment keywords as name=value: --options control_freq=8 good_visibility=true."""

    def task(self, name: str) -> "Task":
        """The named task, with these objects and seconds."""
        from memory_maze.tasks import parse_task

        return parse_task(name, self.objects, self.seconds)

    def parse(self) -> "Options":
        """The options of the variant."""
        from memory_maze.variants import parse_options

        return parse_options(self.variant or "", self.options)

    def choose(self, name: str | None, own: "tuple[Task, Options] | None") -> "tuple[Task, Options]":
        """The task and options to play; whatever was not given defaults to the agent's own."""
        from memory_maze.variants import choose_variant

        return choose_variant(own, name, self.objects, self.seconds, self.parse() if self.is_given else None)

    @property
    def is_given(self) -> bool:
        """Whether a variant or options were given."""
        return self.variant is not None or bool(self.options)


Environment = Annotated[Variant, tyro.conf.arg(name="")]
DEFAULT = Variant()
