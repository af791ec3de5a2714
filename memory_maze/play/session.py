"""One person plays episodes one after another: what keys do and when steps are made, without a window."""

import concurrent.futures
import dataclasses
import enum
import secrets
from collections.abc import Callable
from pathlib import Path

from memory_maze.options import DEFAULT, Options, check_resolution
from memory_maze.paper import SCORES
from memory_maze.play.game import Game, check_for_people, choose_action
from memory_maze.play.recordings import EPISODES, Played, check_name, save_game
from memory_maze.sampler import MAX_SEED, check_seed
from memory_maze.tasks import PACE, TASKS, Task
from memory_maze.variants import is_usual

MIN_PACE, MAX_PACE = 0.5, 30.0
AGENT_PIXELS = 64
FLASH = 0.4  # seconds
_PACES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0)  # that + and - go through

FORWARD, LEFT, RIGHT = frozenset({"up", "w"}), frozenset({"left", "a"}), frozenset({"right", "d"})
_COMMANDS = {
    "space": "pause",
    "p": "pause",
    "r": "restart",
    "escape": "quit",
    "+": "faster",
    "=": "faster",  # the same key, on a keyboard where + needs shift
    "[+]": "faster",
    "-": "slower",
    "[-]": "slower",
    "h": "picture",
    "m": "map",
}


class Stage(enum.Enum):
    """What the player has before him."""

    START = "start"
    PLAYING = "playing"
    PAUSED = "paused"
    OVER = "over"
    ENDED = "ended"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Who plays what, and where it is recorded."""

    task: Task
    player: str
    seed: int | None = None
    """Of the first maze, the next ones have the next seeds; None: fresh ones."""
    pace: float = PACE
    """Actions a second at first."""
    engine: str = "jax"
    out: Path = Path("recordings")
    resolution: int = 384
    """Of the HD picture."""
    practice: bool = False
    episodes: int | None = None
    """End after so many; None: play until the player quits."""
    options: Options = DEFAULT

    def __post_init__(self) -> None:
        check_for_people(self.task, self.options)
        check_name(self.player)
        if not MIN_PACE <= self.pace <= MAX_PACE:
            raise ValueError(
                f"pace must be from {MIN_PACE:g} to {MAX_PACE:g} steps a second: got {self.pace}"
            )
        check_seed(self.seed)
        check_resolution("resolution", self.resolution)
        if self.episodes is not None and self.episodes < 1:
            raise ValueError(f"episodes must be at least 1: got {self.episodes}")


class Sitting:
    """Turns keys and time into episodes; a window only has to pass them on and to draw.

    Mazes are loaded and episodes are saved by a thread of their own: both take seconds, and what is being
    saved is not lost when the window is closed.

    Args:
        settings: Who plays what.
        say: Is told what was recorded and what was not, for the terminal.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None] = print) -> None:
        self.settings, self._say = settings, say
        self.stage = Stage.START
        self.game: Game | None = None
        self.pace = settings.pace
        self.hd, self.map = True, False
        self.practice = settings.practice
        self.question: str | None = None
        """"restart" or "quit", if the player has asked for that once and would lose an episode."""
        self.failure: str | None = None
        """Why the last episode could not be saved."""
        self.played: list[Played] = []
        self._held: set[str] = set()
        self._tapped: set[str] = set()
        self._begin_at_once = False
        self._due = self._left = self._flash_end = self._seconds = 0.0
        self._saving: concurrent.futures.Future[Played] | None = None
        self._worker = concurrent.futures.ThreadPoolExecutor(1)
        self._mazes = 0
        self._load()

    @property
    def saving(self) -> bool:
        """Whether the last episode is still being written."""
        return self._saving is not None

    @property
    def last(self) -> bool:
        """Whether no more episodes follow after those that were finished."""
        return self.settings.episodes is not None and len(self.played) >= self.settings.episodes

    @property
    def seconds_left(self) -> float:
        """Of the episode, at this pace."""
        steps = self.settings.task.episode_steps(self.settings.options.control_freq)
        return self.part_left * steps / self.pace

    @property
    def part_left(self) -> float:
        """Of the episode, from 1 to 0."""
        return self.game.steps_left / (self.game.steps + self.game.steps_left) if self.game else 1.0

    @property
    def rivals(self) -> dict[str, float]:
        """Scores of the paper in this task, if it has it."""
        task = self.settings.task
        if task.name not in TASKS or not is_usual(task, self.settings.options):
            return {}
        return {name: SCORES[name][task.name].mean for name in ("Human", "Oracle")}

    def flashing(self, now: float) -> bool:
        """Whether an object was reached just now."""
        return now < self._flash_end

    def wait(self, now: float) -> float:
        """Seconds until the next step, or infinity."""
        return max(self._due - now, 0.0) if self.stage is Stage.PLAYING else float("inf")

    def press(self, key: str, now: float) -> None:
        """A key goes down; `now` in seconds of any clock."""
        if key in FORWARD | LEFT | RIGHT:
            self._held.add(key)
            self._tapped.add(key)
        command = _COMMANDS.get(key)
        running = self.stage in (Stage.PLAYING, Stage.PAUSED)
        if command in ("restart", "quit") and running and self.question != command:
            self.pause(now)
            self.question = command
        elif command == "quit":
            self.quit()
        elif command == "restart" and self.stage is not Stage.OVER:
            self._restart()
        elif command in ("pause", "restart"):
            self._go_on(now)
        elif command in ("faster", "slower"):
            self._change_pace(command == "faster")
        elif command == "picture":
            self.hd = not self.hd
        elif command == "map":
            self.map = not self.map
            self.practice |= self.map and running

    def release(self, key: str) -> None:
        """A key goes up."""
        self._held.discard(key)

    def pause(self, now: float) -> None:
        """Stops the clock, if it runs."""
        if self.stage is Stage.PLAYING:
            self.stage, self._left = Stage.PAUSED, max(self._due - now, 0.0)

    def quit(self) -> None:
        """Ends it; what is being saved is still saved by `finish`."""
        self._drop_unfinished()
        self.stage = Stage.ENDED

    def tick(self, now: float) -> bool:
        """Takes over what was loaded or saved, and makes the step that is due; returns whether there was any.

        Steps are due at equal distances whenever they are made, so one that is late makes none of the others
        late. One that is late by a whole step starts the clock anew: nobody can steer steps made at once.
        """
        changed = self._take_loaded(now) or self._take_saved()
        if self.stage is not Stage.PLAYING or now < self._due:
            return changed
        period = 1 / self.pace
        self._due += period
        if self._due <= now:
            self._due = now + period
        self._step(now)
        return True

    def finish(self) -> None:
        """Waits until everything is saved."""
        if self._saving is not None:
            self._say("saving the episode ...")
            concurrent.futures.wait([self._saving])
            self._take_saved()
        if self._loading is not None:
            self._say("loading a maze takes some seconds ...")
        self._worker.shutdown(cancel_futures=True)
        if self.game is not None:
            self.game.close()
        if self.failure is not None:
            raise OSError(f"the last episode is not recorded: {self.failure}")

    def _step(self, now: float) -> None:
        game = self.game
        assert game is not None
        keys = self._held | self._tapped
        self._tapped.clear()
        self._seconds += 1 / self.pace
        if game.step(choose_action(*(bool(keys & names) for names in (FORWARD, LEFT, RIGHT)))):
            self._flash_end = now + FLASH
        if game.over:
            self.stage = Stage.OVER
            self._save()

    def _go_on(self, now: float) -> None:
        """What space does."""
        if self.stage is Stage.START and self.game is not None:
            self._begin(now)
        elif self.stage is Stage.PLAYING:
            self.pause(now)
        elif self.stage is Stage.PAUSED:
            self.question = None
            self._tapped.clear()
            self.stage, self._due = Stage.PLAYING, now + self._left
        elif self.stage is Stage.OVER and not self.saving:
            if self.failure is not None:
                self._save()
            elif self.last:
                self.quit()
            else:
                self._restart()

    def _begin(self, now: float) -> None:
        self.stage, self._due = Stage.PLAYING, now + 1 / self.pace
        self.practice = self.settings.practice or self.map
        self._seconds = self._flash_end = 0.0
        self._tapped.clear()

    def _restart(self) -> None:
        """Goes to the next maze; it begins as soon as it is loaded, except for the first."""
        if self.game is None:
            return
        self._drop_unfinished()
        self._begin_at_once = self.stage is not Stage.START
        self.stage, self.question = Stage.START, None
        self._load()

    def _drop_unfinished(self) -> None:
        if self.stage in (Stage.PLAYING, Stage.PAUSED):
            self._say("the episode was not finished and is not recorded")

    def _change_pace(self, faster: bool) -> None:
        others = [pace for pace in _PACES if (pace > self.pace if faster else pace < self.pace)]
        if others:
            self.pace = min(others) if faster else max(others)

    def _load(self) -> None:
        first, old, self.game = self.settings.seed, self.game, None
        seed = secrets.randbelow(2**31) if first is None else (first + self._mazes) % (MAX_SEED + 1)
        self._mazes += 1
        self._loading: concurrent.futures.Future[Game] | None = self._worker.submit(
            _make_game, self.settings, seed, old
        )

    def _take_loaded(self, now: float) -> bool:
        if self._loading is None or not self._loading.done():
            return False
        loading, self._loading = self._loading, None
        self.game = loading.result()
        if self._begin_at_once:
            self._begin(now)
        return True

    def _save(self) -> None:
        game, settings = self.game, self.settings
        assert game is not None
        pace = round(game.steps / self._seconds, 3)
        self.failure = None
        self._saving = self._worker.submit(
            save_game, settings.out, game, settings.player, pace=pace, practice=self.practice
        )

    def _take_saved(self) -> bool:
        if self._saving is None or not self._saving.done():
            return False
        saving, self._saving = self._saving, None
        try:
            played = saving.result()
        except OSError as error:  # a full disk: the player can make room and try again
            self.failure = str(error)
            return True
        self.played.append(played)
        practice = ", as practice" if played.practice else ""
        self._say(f"score {played.score} in {played.task.name}, recorded{practice}: {self.place(played)}")
        return True

    def place(self, played: Played) -> Path:
        """Where an episode was recorded."""
        return self.settings.out / EPISODES / f"{played.id}.json"


def _make_game(settings: Settings, seed: int, old: Game | None) -> Game:
    if old is not None:
        old.close()
    game = Game(
        settings.task,
        seed,
        engine=settings.engine,
        resolution=settings.resolution,
        options=settings.options,
    )
    game.picture(AGENT_PIXELS)  # compiled now, not in the middle of the episode
    return game
