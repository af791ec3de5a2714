"""The options that tell which environment is played, the same for all commands."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from memory_maze.options import Options
    from memory_maze.tasks import Task


@dataclasses.dataclass(frozen=True)
class Variant:
    """Which variant of the task. A trained agent's is by default the one that it was trained in."""

    objects: int | None = None
    """Objects in each maze, 1 to 6; by default those of the task, and 3 in other sizes."""
    seconds: float | None = None
    """Length of an episode in simulated seconds; by default that of the task."""
    variant: str | None = None
    """Part of the environment's id, such as Vis, HD, Top, 6CL, HiFreq or Oracle; "" for none."""
    options: tuple[str, ...] = ()
    """Other keywords of the environment as name=value: --options control_freq=8 good_visibility=true."""

    def task(self, name: str) -> "Task":
        """The task of that name, with these objects and seconds."""
        from memory_maze.tasks import parse_task

        return parse_task(name, self.objects, self.seconds)

    def parse(self) -> "Options":
        """The options of the variant."""
        from memory_maze.variants import parse_options

        return parse_options(self.variant or "", self.options)

    def choose(self, name: str | None, own: "tuple[Task, Options] | None") -> "tuple[Task, Options]":
        """What is played, of a task's name if one was given; what was not given is as the agent's own."""
        from memory_maze.variants import choose_variant

        return choose_variant(own, name, self.objects, self.seconds, self.parse() if self.is_given else None)

    @property
    def is_given(self) -> bool:
        """Whether the options were named, rather than left to the agent."""
        return self.variant is not None or bool(self.options)


Environment = Annotated[Variant, tyro.conf.arg(name="")]
DEFAULT = Variant()
