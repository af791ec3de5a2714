"""All games that are being played, and what becomes of those that are over."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from memory_maze.play.game import Game
from memory_maze.play.recordings import save_game
from memory_maze.tasks import Task
from memory_maze.web.live import RESOLUTIONS, Live, encode, make_threads
from memory_maze.web.store import DONE, SAVED, Episode, Store

log = logging.getLogger("memory_maze.web")


class FullError(RuntimeError):
    """As many play as may."""


class Lobby:
    """Games by their players.

    Args:
        store: What was begun.
        recordings: Folder for what was finished.
        most: How many may play at once.
        library: Where finished episodes can be watched, each by its player.
    """

    def __init__(self, store: Store, recordings: Path, most: int, library: Any) -> None:
        self._store, self._recordings, self._most, self._library = store, recordings, most, library
        self._games: dict[int, Live] = {}
        self._threads = make_threads()
        self._saver = ThreadPoolExecutor(1, "saver")  # so that no game waits for it
        self._saving: set[asyncio.Task] = set()
        self._shown: dict[str, str] = {}

    async def start(self, tasks: Sequence[Task]) -> None:
        """Prepares for games, and saves what an earlier server finished and did not save."""
        for episode in self._store.episodes(SAVED):
            self._show(episode)
        for episode in self._store.episodes(DONE):
            self._save_soon(episode, None)
        for task in tasks:
            self._threads.submit(_warm_up, task)

    async def stop(self) -> None:
        """Stops all clocks, and ends what is being saved."""
        for live in self._games.values():
            await live.stop()
        self._games.clear()
        if self._saving:
            await asyncio.wait(self._saving)
        self._threads.shutdown(cancel_futures=True)
        self._saver.shutdown()

    def join(self, player: int) -> Live:
        """The player's open game, which goes on where it was."""
        live = self._games.get(player)
        if live is not None and not live.finished:
            return live
        if sum(not other.finished for other in self._games.values()) >= self._most:
            raise FullError(f"{self._most} people are playing, which is as many as may: try again later")
        episode = self._store.open_episode(player)
        if episode is None:
            raise LookupError("no game is open")
        self._games[player] = Live(episode, self._store, self._threads, self._finish)
        return self._games[player]

    async def leave(self, player: int) -> None:
        """Ends the player's game without a result, if there is one."""
        if (live := self._games.pop(player, None)) is not None:
            await live.stop()

    async def _finish(self, live: Live) -> None:
        self._save_soon(live.episode, live.game)

    def _save_soon(self, episode: Episode, game: Game | None) -> None:
        task = asyncio.create_task(self._save(episode, game))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _save(self, episode: Episode, game: Game | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._saver, self._write, episode, game)
        except Exception:
            # It is tried again when the server starts the next time.
            log.exception("episode %s is not saved yet", episode.id)
            return
        self._store.set_state(episode.id, SAVED)
        self._show(episode)

    def _write(self, episode: Episode, game: Game | None) -> None:
        if game is None:
            actions = self._store.episode(episode.id).actions
            game = Game(episode.task, episode.seed, resolution=RESOLUTIONS[0], actions=actions)
        save_game(
            self._recordings,
            game,
            self._store.name_of(episode.player),
            pace=episode.pace,
            practice=episode.practice,
            id=episode.id,
        )

    def find_shown(self, episode: Episode) -> str | None:
        """The id under which its player can watch an episode, once it is saved."""
        return self._shown.get(episode.id)

    def _show(self, episode: Episode) -> None:
        owner = str(episode.player)
        try:
            self._shown[episode.id] = self._library.add_recording(self._recordings, episode.id, owner=owner)
        except (OSError, ValueError) as error:
            log.warning("an episode cannot be watched: %s", error)  # somebody took its files away


def _warm_up(task: Task) -> None:
    """Compiles what a first player would wait for."""
    game = Game(task, 0, resolution=RESOLUTIONS[0], actions=[0])
    for resolution in RESOLUTIONS:
        encode(game.picture(resolution))
