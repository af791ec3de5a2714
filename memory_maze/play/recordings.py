"""Episodes that people finished, in a folder:

    episodes/ID.json     who played what, and how it went; written last
    npz/9x9/ID.npz       the paper's arrays, pictures included
    scenes/9x9/ID.npz    the same as a scene, of which everything can be drawn again

Episodes of a variant are in folders of its own, like npz/9x9-Vis.

`memory_maze.data.load("recordings/npz/9x9")` reads them as any other data set.
"""

import dataclasses
import datetime
import json
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_maze.options import DEFAULT, Options
from memory_maze.play.game import Game
from memory_maze.results.find import EPISODES
from memory_maze.system.files import is_temporary, replacing
from memory_maze.tasks import Task
from memory_maze.variants import name_options, read_options, record_options
from memory_maze.version import __version__

MAX_NAME = 40
_FORMAT = 1
_ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}")
_MAX_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Played:
    """What is known of a finished episode."""

    id: str
    player: str
    task: Task
    seed: int
    engine: str
    score: int
    steps: int
    reward_steps: tuple[int, ...]
    """Numbers of the actions that were rewarded, from 1."""
    date: str
    pace: float
    """Actions a second."""
    practice: bool = False
    """Not to be counted: to learn the game, or with the map shown."""
    made_with: str = __version__
    options: Options = DEFAULT
    """Which variant of the task; the file leaves out what is as by default."""

    @property
    def places(self) -> dict[str, str]:
        """Its files within the folder."""
        variant = name_options(self.options).replace(", ", "-")
        folder = "-".join(filter(None, [self.task.name, variant]))
        return {kind: f"{kind}/{folder}/{self.id}.npz" for kind in ("npz", "scenes")}


class RecordingError(ValueError):
    """A recording that cannot be read; the message names the file."""


def make_id() -> str:
    """A new name for an episode; in the order of time."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def check_name(name: Any) -> str:
    """A player's name without spaces around it, or an error that says what is wrong."""
    name = " ".join(name.split()) if isinstance(name, str) else ""
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(f"a name has 1 to {MAX_NAME} letters, digits or signs")
    return name


def save_game(
    folder: Path, game: Game, player: str, *, pace: float, practice: bool = False, id: str | None = None
) -> Played:
    """Writes a finished episode; what is there under the same id is replaced."""
    import jax

    from memory_maze.data.collection import pack_trajectories
    from memory_maze.data.scenes import to_bytes

    if not game.over:
        raise ValueError(f"the episode is not over: {game.steps_left} steps are left")
    played = Played(
        id=id or make_id(),
        player=check_name(player),
        task=game.task,
        seed=game.seed,
        engine=game.engine,
        score=int(game.score),  # scenes hold whole rewards alone
        steps=game.steps,
        reward_steps=tuple(game.reward_steps),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        pace=float(pace),
        practice=practice,
        options=game.options,
    )
    scenes = game.scenes()
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        (arrays,) = pack_trajectories(scenes, game.engine, game.options)
    contents = {"npz": arrays, "scenes": to_bytes(scenes)}
    for kind, place in played.places.items():
        with replacing(folder / place) as path:
            path.write_bytes(contents[kind])
    data = {"format": _FORMAT} | dataclasses.asdict(played)
    del data["options"]
    if recorded := record_options(played.options):
        data["options"] = recorded
    with replacing(folder / EPISODES / f"{played.id}.json") as path:
        path.write_text(json.dumps(data, indent=1) + "\n")
    return played


def read_recordings(folder: Path, damaged: dict[Path, str] | None = None) -> list[Played]:
    """All episodes, the oldest first; what is wrong with damaged files is put in `damaged`, or raised."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} not found: memory-maze play --out {folder} records episodes")
    found = []
    for path in find_episodes(folder):
        try:
            found.append(read_played(path))
        except FileNotFoundError:
            continue  # it was taken away in the meantime
        except RecordingError as error:
            if damaged is None:
                raise
            damaged[path] = str(error)
    return found


def find_episodes(folder: Path) -> Iterator[Path]:
    """The files that tell of episodes."""
    for path in sorted((folder / EPISODES).glob("*.json")):
        if not is_temporary(path):
            yield path


def read_played(path: Path) -> Played:
    """What a file tells of an episode."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:  # one would wait for a pipe
            raise ValueError(f"not a file, or one of more than {_MAX_BYTES:,} bytes")
        data = json.loads(path.read_text())
        if data.pop("format") != _FORMAT:
            raise ValueError("written by another version of the package")
        parsed = {
            "task": Task(**data["task"]),
            "reward_steps": tuple(data["reward_steps"]),
            "options": read_options(data.get("options", {})),
        }
        played = Played(**data | parsed)
        _check(played)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordingError(f"{path}: not the record of an episode: {error}") from error
    return played


def _check(played: Played) -> None:
    if not isinstance(played.id, str) or not _ID.fullmatch(played.id):
        raise ValueError(f"invalid id {played.id!r:.40}")
    check_name(played.player)
    number = int | float
    kinds: dict[str, Any] = {"seed": int, "score": int, "steps": int, "practice": bool, "pace": number}
    kinds |= dict.fromkeys(("engine", "date", "made_with"), str)
    values = [(name, getattr(played, name), kind) for name, kind in kinds.items()]
    for name, value in dataclasses.asdict(played.task).items():
        values.append((name, value, number if name == "seconds" else int))
    for name, value, kind in values:
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise ValueError(f"{name} is {value!r:.40}")
    if played.steps != played.task.episode_steps(played.options.control_freq) or played.score != len(
        played.reward_steps
    ):
        raise ValueError(f"{played.steps} steps with score {played.score}: not a complete episode")
    if not all(type(step) is int and 1 <= step <= played.steps for step in played.reward_steps):
        raise ValueError("rewards must be at steps of the episode")
