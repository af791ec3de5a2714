"""Play in a window with the arrow keys. Finished episodes are recorded."""

import dataclasses
import getpass
import os
from pathlib import Path
from typing import Literal

from rich.console import Console

from memory_maze.commands.environment import DEFAULT, Environment
from memory_maze.tasks import PACE

console = Console()


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    task: str = "9x9"
    """Task, or any odd size like 7x7."""
    seed: int | None = None
    """Seed of the first maze, incremented for each episode; random by default."""
    player: str | None = None
    """Player name for the recordings; by default the login name."""
    pace: float = PACE
    """Initial steps per second; change it with + and -."""
    engine: Literal["jax", "mujoco"] = "jax"
    """Engine that simulates and renders; mujoco needs the extra [mujoco] and OpenGL."""
    out: Path = Path("recordings")
    """Directory for the recordings."""
    resolution: int = 384
    """Side length of the displayed image in pixels."""
    full_screen: bool = False
    """Start in full screen; toggle with F or F11."""
    practice: bool = False
    """Record the episodes as practice, which does not count towards scores."""
    episodes: int | None = None
    """Quit after this many episodes; by default, play until you quit."""
    environment: Environment = DEFAULT

    def run(self) -> None:
        from memory_maze.play.session import Settings
        from memory_maze.play.window import play

        settings = Settings(
            task=self.environment.task(self.task),
            player=_login_name() if self.player is None else self.player,
            seed=self.seed,
            pace=self.pace,
            engine=self.engine,
            out=self.out,
            resolution=self.resolution,
            practice=self.practice,
            episodes=self.episodes,
            options=self.environment.parse(),
        )
        _check_folder(self.out)
        say = lambda text: console.print(text, soft_wrap=True, highlight=False, markup=False)  # noqa: E731
        play(settings, full_screen=self.full_screen, say=say)


def _check_folder(path: Path) -> None:
    """Before minutes of playing, not after."""
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(f"{path}: cannot write recordings there: choose another directory with --out")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # some containers have none
        return "player"
