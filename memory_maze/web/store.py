"""Who plays what, in an SQLite file: it outlives reloads and restarts.

Every action is stored when it is made, and an episode can be made again from its actions. Players are known
by a key that their browser keeps; the file holds hashes of keys alone.
"""

import dataclasses
import datetime
import hashlib
import json
import secrets
import sqlite3
import threading
from pathlib import Path
from typing import Any

from memory_maze.options import Options
from memory_maze.play.recordings import make_id
from memory_maze.tasks import Task
from memory_maze.variants import name_task, read_options, record_options

OPEN, DONE, SAVED, LEFT = "open", "done", "saved", "left"  # states of episodes
_VERSION = 2
_OLDER = (0, 1)  # 0: a file that is new
_SCHEMA = """
CREATE TABLE IF NOT EXISTS players (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, name TEXT NOT NULL, created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS episodes (
    id TEXT PRIMARY KEY, player INTEGER NOT NULL REFERENCES players, task TEXT NOT NULL,
    seed INTEGER NOT NULL, practice INTEGER NOT NULL, pace REAL NOT NULL, started TEXT NOT NULL,
    finished TEXT, state TEXT NOT NULL, score INTEGER NOT NULL, actions BLOB NOT NULL,
    options TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX IF NOT EXISTS episodes_of_players ON episodes (player, state);
CREATE INDEX IF NOT EXISTS scores ON episodes (task, options, player, score, practice, state)
    WHERE practice = 0 AND state IN ('done', 'saved');
"""
# In version 1 there was but one variant of each task.
_ADD_OPTIONS = """
BEGIN IMMEDIATE;
ALTER TABLE episodes ADD COLUMN options TEXT NOT NULL DEFAULT '{}';
DROP INDEX IF EXISTS scores;
COMMIT;
"""


@dataclasses.dataclass(frozen=True)
class Player:
    """Someone who plays."""

    id: int
    name: str


@dataclasses.dataclass(frozen=True)
class Episode:
    """What is stored of an episode."""

    id: str
    player: int
    task: Task
    options: Options
    """Which variant of the task."""
    seed: int
    practice: bool
    pace: float
    started: str
    finished: str | None
    state: str
    """open, done (not yet written to the recordings), saved, or left by the player."""
    score: int
    steps: int
    """Actions so far; `Store.actions` has them."""

    @property
    def title(self) -> str:
        """Task and variant, like "9x9, Vis"."""
        return name_task(self.task, self.options)


@dataclasses.dataclass(frozen=True)
class Standing:
    """What a player has reached in one variant of a task."""

    player: int
    name: str
    task: Task
    options: Options
    episodes: int
    total: int
    best: int


class Store:
    """The file; may be used by several threads, not by several servers."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._base.row_factory = sqlite3.Row
        try:
            # Nothing is lost when the server is killed; a power cut may take the last second.
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            version = self._base.execute("PRAGMA user_version").fetchone()[0]
            if version not in (*_OLDER, _VERSION):
                raise ValueError(f"{path}: made by another version of the package: choose another folder")
            columns = [row["name"] for row in self._base.execute("PRAGMA table_info(episodes)")]
            if columns and "options" not in columns:
                self._base.executescript(_ADD_OPTIONS)
            self._base.executescript(_SCHEMA)
            self._base.execute(f"PRAGMA user_version={_VERSION}")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path}: {error}: choose another folder, or restore the file") from error

    def close(self) -> None:
        with self._lock:
            self._base.close()

    def _run(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._base.execute(statement, values).fetchall()

    def add_player(self, name: str) -> tuple[str, Player]:
        """A new player and the key that their browser keeps."""
        key = secrets.token_hex(16)
        (row,) = self._run(
            "INSERT INTO players (key, name, created) VALUES (?, ?, ?) RETURNING id", _hash(key), name, _now()
        )
        return key, Player(row["id"], name)

    def find_player(self, key: str | None) -> Player | None:
        """Whose key it is."""
        rows = self._run("SELECT id, name FROM players WHERE key = ?", _hash(key)) if key else []
        return Player(*rows[0]) if rows else None

    def rename(self, player: int, name: str) -> None:
        self._run("UPDATE players SET name = ? WHERE id = ?", name, player)

    def name_of(self, player: int) -> str:
        return self._run("SELECT name FROM players WHERE id = ?", player)[0]["name"]

    def begin(
        self, player: int, task: Task, options: Options, seed: int, practice: bool, pace: float
    ) -> Episode:
        """A new episode; one that the player has open is left."""
        id = make_id()
        kind = json.dumps(dataclasses.asdict(task)), json.dumps(record_options(options))
        values = (id, player, *kind, seed, practice, pace, _now(), OPEN)
        with self._lock:
            self._run("BEGIN IMMEDIATE")
            try:
                self._run("UPDATE episodes SET state = ? WHERE player = ? AND state = ?", LEFT, player, OPEN)
                self._run(
                    "INSERT INTO episodes (id, player, task, options, seed, practice, pace, started, state, "
                    "score, actions) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, X'')",
                    *values,
                )
                self._run("COMMIT")
            except BaseException:
                self._run("ROLLBACK")
                raise
            return self._find("id = ?", id)[0]

    def open_episode(self, player: int) -> Episode | None:
        """What the player has begun and not finished."""
        found = self._find("player = ? AND state = ?", player, OPEN)
        return found[0] if found else None

    def actions(self, id: str) -> bytes:
        """Of an episode, a number each."""
        return self._run("SELECT actions FROM episodes WHERE id = ?", id)[0]["actions"]

    def add_action(self, id: str, action: int, score: float, over: bool = False) -> None:
        """Of an episode that is open; the last one makes it done."""
        state, finished = (DONE, _now()) if over else (OPEN, None)
        self._run(
            "UPDATE episodes SET actions = CAST(actions || ? AS BLOB), score = ?, state = ?, finished = ? "
            "WHERE id = ?",
            *(bytes([action]), score, state, finished, id),
        )

    def set_state(self, id: str, state: str) -> None:
        finished = _now() if state == DONE else None
        self._run(
            "UPDATE episodes SET state = ?, finished = coalesce(finished, ?) WHERE id = ?",
            state,
            finished,
            id,
        )

    def episodes(self, *states: str, player: int | None = None) -> list[Episode]:
        """Those in some states, of one player or of all, the oldest first."""
        marks = ", ".join("?" * len(states))
        whose, values = ("", ()) if player is None else (" AND player = ?", (player,))
        return self._find(f"state IN ({marks}){whose}", *states, *values)

    def _find(self, condition: str, *values: Any) -> list[Episode]:
        """Without their actions, which are most of the file."""
        rows = self._run(
            "SELECT id, player, task, options, seed, practice, pace, started, finished, state, score, "
            f"length(actions) AS steps FROM episodes WHERE {condition} ORDER BY id",
            *values,
        )
        return [_read(row) for row in rows]

    def count(self, player: int, task: Task, practice: bool) -> int:
        """How many episodes the player has begun in mazes of this size, of whatever variant."""
        rows = self._run("SELECT task FROM episodes WHERE player = ? AND practice = ?", player, practice)
        return sum(json.loads(row["task"])["size"] == task.size for row in rows)

    def standings(self) -> list[Standing]:
        """Of all players who have finished an episode that counts; read from an index alone."""
        rows = self._run(
            "SELECT player, name, task, options, count(*), sum(score), max(score) FROM episodes "
            "JOIN players ON players.id = episodes.player "
            "WHERE practice = 0 AND state IN ('done', 'saved') GROUP BY task, options, player"
        )
        return [
            Standing(id, name, _read_task(task), _read_options(options), *rest)
            for id, name, task, options, *rest in rows
        ]


def _read(row: sqlite3.Row) -> Episode:
    values: dict[str, Any] = dict(row)
    values["task"], values["options"] = _read_task(row["task"]), _read_options(row["options"])
    values["practice"] = bool(row["practice"])
    return Episode(**values)


def _read_task(text: str) -> Task:
    return Task(**json.loads(text))


def _read_options(text: str) -> Options:
    return read_options(json.loads(text))


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
