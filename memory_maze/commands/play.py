"""Play in a window with the arrow keys; each finished episode is recorded."""

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
    """Which task: a published one, or any odd size like 7x7."""
    seed: int | None = None
    """Seed of the first maze, the next ones have the next seeds; by default mazes are fresh."""
    player: str | None = None
    """Name of the player, for the recordings; by default the login name."""
    pace: float = PACE
    """Steps a second at first; + and - change it."""
    engine: Literal["jax", "mujoco"] = "jax"
    """What simulates and draws; MuJoCo needs the extra [mujoco] and OpenGL."""
    out: Path = Path("recordings")
    """Folder for the recordings."""
    resolution: int = 384
    """Pixels along each side of the large picture."""
    full_screen: bool = False
    """Begin with the full screen; F or F11 changes it."""
    practice: bool = False
    """Record the episodes as practice, which is not counted."""
    episodes: int | None = None
    """End after so many episodes; by default when you quit."""
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
        raise PermissionError(f"{path}: recordings cannot be written there: choose another folder with --out")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # some containers have none
        return "player"
