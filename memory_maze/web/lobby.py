"""All games that are being played, and what becomes of those that are over."""

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from memory_maze.options import Options
from memory_maze.play.game import Game
from memory_maze.play.recordings import save_game
from memory_maze.tasks import Task
from memory_maze.web.live import RESOLUTIONS, Live, Page, encode, make_game, make_threads
from memory_maze.web.store import DONE, SAVED, Episode, Store

log = logging.getLogger("memory_maze.web")


class FullError(RuntimeError):
    """As many play as may."""


class NoGameError(LookupError):
    """The player has no open game."""


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
        # What a player asks for on several pages at once is done one after another.
        self._turns: weakref.WeakValueDictionary[int, asyncio.Lock] = weakref.WeakValueDictionary()
        self._threads = make_threads()
        self._saver = ThreadPoolExecutor(1, "saver")  # so that no game waits for it
        self._ending: set[asyncio.Task] = set()  # episodes that are being saved, games that were abandoned
        self._shown: dict[str, str] = {}

    async def start(self, tasks: Sequence[Task], options: Options) -> None:
        """Prepares for games of a variant, and saves what an earlier server finished and did not save."""
        for episode in self._store.episodes(SAVED):
            self._show(episode)
        for episode in self._store.episodes(DONE):
            self._save_soon(episode, None)
        for task in tasks:
            self._threads.submit(_warm_up, task, options)

    async def stop(self) -> None:
        """Stops all clocks, and ends what is being saved."""
        for live in list(self._games.values()):
            await live.stop()
        self._games.clear()
        while self._ending:
            await asyncio.wait(self._ending)
        self._threads.shutdown(cancel_futures=True)
        self._saver.shutdown()

    async def begin(self, player: int, choose: Callable[[], Episode]) -> Episode:
        """The player's new episode, in place of one that is open; nothing changes where there is no room."""
        async with self._turn(player):
            self._make_room(player)
            if (live := self._games.get(player)) is not None:  # whose place is kept meanwhile
                await live.stop()
            episode = choose()
            self._play(episode)
        return episode

    async def join(self, player: int, page: Page) -> Live:
        """The player's open game on a page; it goes on where it was."""
        async with self._turn(player):
            episode = self._store.open_episode(player)
            if episode is None:
                raise NoGameError
            live = self._games.get(player)
            if live is None or live.finished:
                self._make_room(player)
                live = self._play(episode)
            live.attach(page)
        return live

    def _turn(self, player: int) -> asyncio.Lock:
        return self._turns.setdefault(player, asyncio.Lock())

    def _play(self, episode: Episode) -> Live:
        live = Live(episode, self._store, self._threads, self._finish)
        self._games[episode.player] = live
        return live

    def _make_room(self, player: int) -> None:
        """Sees to it that the player may play; a game that no page has shown for a while gives its place."""
        others = {other: live for other, live in self._games.items() if other != player and not live.finished}
        if len(others) < self._most:
            return
        for other, live in others.items():
            if live.abandoned and not self._turn(other).locked():
                del self._games[other]
                self._do_soon(live.stop())
                return
        raise FullError(f"{self._most} people are playing, which is as many as may: try again later")

    async def _finish(self, live: Live) -> None:
        if self._games.get(live.episode.player) is live:
            del self._games[live.episode.player]
        self._save_soon(live.episode, live.game)

    def _save_soon(self, episode: Episode, game: Game | None) -> None:
        self._do_soon(self._save(episode, game))

    def _do_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

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
        game = game or make_game(episode, self._store)
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


def _warm_up(task: Task, options: Options) -> None:
    """Compiles what a first player would wait for."""
    game = Game(task, 0, resolution=RESOLUTIONS[0], options=options, actions=[0])
    for resolution in RESOLUTIONS:
        encode(game.picture(resolution))
