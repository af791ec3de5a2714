"""Games that are being played: each goes on at its pace while its player's page is there to see it."""

import asyncio
import contextlib
import dataclasses
import io
import json
import logging
import struct
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import numpy as np

from memory_maze.play.game import Game, choose_action
from memory_maze.system.cpu import num_cores
from memory_maze.web.store import DONE, Episode, Store
from memory_maze.world import COLOR_NAMES

RESOLUTIONS = (64, 256)  # the agent's own picture, and one for people
PATIENCE = 2.0  # seconds that a page may lag behind, before its game waits for it
ABSENCE = 30.0  # seconds without a page, after which a game gives its place to one that needs it
MOVED = 4409, "the game is open on another page"
SLOW = 1013, "the page takes no pictures: it may connect again"
FAILED = 1011, "the game has failed: it goes on from what is stored"
FORWARD, LEFT, RIGHT = 1, 2, 4  # bits of the keys that are held

log = logging.getLogger("memory_maze.web")
Send = Callable[[bytes], Awaitable[None]]
Close = Callable[[int, str], Awaitable[None]]
Finish = Callable[["Live"], Awaitable[None]]


@dataclasses.dataclass
class Page:
    """Where a game is shown."""

    send: Send
    close: Close
    """Called with a code and a reason when it will be sent no more."""
    resolution: int = RESOLUTIONS[-1]
    seen: int = 0
    """The newest picture that it has shown."""


class Live:
    """One game with its clock.

    Args:
        episode: What is played.
        store: Where each action goes.
        threads: That compute steps.
        finish: Called at the end of the episode.
    """

    def __init__(self, episode: Episode, store: Store, threads: Executor, finish: Finish) -> None:
        self.episode = episode
        self._store, self._threads, self._finish = store, threads, finish
        self._page: Page | None = None
        self._held, self._tapped = 0, 0
        self._paused = True
        self._changed = asyncio.Event()
        self._game: Game | None = None
        self._count = 0  # of pictures sent, pauses included
        self._step: asyncio.Future[None] | None = None
        self._handed_over = False
        self._closing: set[asyncio.Task] = set()
        self._unseen_since: float | None = time.monotonic()
        self._task = asyncio.create_task(self._play())
        self._task.add_done_callback(self._note_failure)

    @property
    def game(self) -> Game:
        assert self._game is not None
        return self._game

    @property
    def finished(self) -> bool:
        return self._task.done()

    @property
    def abandoned(self) -> bool:
        """Whether no page has shown it for a while."""
        return self._unseen_since is not None and time.monotonic() - self._unseen_since > ABSENCE

    def attach(self, page: Page) -> None:
        """Shows the game on a page, and no longer on another one; it waits for its player."""
        self._dismiss(*MOVED)
        page.seen = self._count
        self._page, self._held, self._tapped, self._paused = page, 0, 0, True
        self._unseen_since = None
        self._changed.set()

    def detach(self, page: Page) -> None:
        """The page is gone."""
        if self._page is page:
            self._page, self._unseen_since = None, time.monotonic()
            self._changed.set()

    def press(self, keys: int) -> None:
        """The keys that are held now. A key counts for the next step even if it is let go before."""
        self._tapped |= keys
        self._held = keys

    def pause(self, paused: bool) -> None:
        self._paused = paused
        self._held = self._tapped = 0
        self._changed.set()

    def choose_resolution(self, resolution: int) -> None:
        if self._page is not None:
            self._page.resolution = resolution
            self._changed.set()

    def see(self, picture: int) -> None:
        """The page has shown a picture."""
        if self._page is not None and picture > self._page.seen:
            self._page.seen = min(picture, self._count)

    async def stop(self) -> None:
        """Ends the clock; the episode can be gone on with later. What was stored is all that will be."""
        self._dismiss(*MOVED)
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._step is not None:
            await asyncio.wait([self._step])
        if self._game is not None and self._game.over:
            await self._hand_over()
        elif self._game is not None:
            self._game.close()

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        episode = self.episode
        self._game = await loop.run_in_executor(self._threads, make_game, episode, self._store)
        while not self.game.over:
            if not await self._wait_for_player():
                continue
            due = loop.time()
            while self._runs and not self.game.over:
                due += 1 / episode.pace
                await asyncio.sleep(due - loop.time())
                if not self._runs:
                    break
                # A step that has begun is stored, whoever stops the clock meanwhile.
                self._step = loop.run_in_executor(self._threads, self._make_step)
                await asyncio.shield(self._step)
                await self._show(due)
                # A step that came late does not make the next ones early.
                due = max(due, loop.time() - 1 / episode.pace)
                if not self._keeps_up:
                    self.pause(True)
        await self._hand_over()

    async def _hand_over(self) -> None:
        if not self._handed_over:
            self._handed_over = True
            self._store.set_state(self.episode.id, DONE)
            await self._finish(self)

    @property
    def _runs(self) -> bool:
        return self._page is not None and not self._paused

    @property
    def _keeps_up(self) -> bool:
        lag = self._count - (self._page.seen if self._page else 0)
        return lag <= PATIENCE * self.episode.pace + 1

    async def _wait_for_player(self) -> bool:
        """Shows the game as it stands until it can go on; false if it must be looked at again."""
        self._changed.clear()
        await self._show(asyncio.get_running_loop().time())
        if not self._runs:
            await self._changed.wait()
        return self._runs

    def _make_step(self) -> None:
        keys = self._held | self._tapped
        self._tapped = 0
        action = choose_action(bool(keys & FORWARD), bool(keys & LEFT), bool(keys & RIGHT))
        self.game.step(action)
        self._store.add_action(self.episode.id, action, self.game.score, self.game.over)

    async def _show(self, due: float) -> None:
        """Sends the picture of now; a page that is gone is noticed by who reads from it."""
        page = self._page
        if page is None:
            return
        self._count += 1
        loop = asyncio.get_running_loop()
        header = {"picture": self._count, "paused": self._paused, "due": time.time() + due - loop.time()}
        message = await loop.run_in_executor(self._threads, self._draw, page.resolution, header)
        try:
            # Python 3.11's `wait_for` forgets that it was cancelled, when that is as the page has answered.
            async with asyncio.timeout(PATIENCE):
                await page.send(message)
        except Exception:  # whatever a broken connection raises; the game waits for the next page
            if self._page is page:
                self._dismiss(*SLOW)

    def _dismiss(self, code: int, reason: str) -> None:
        """Tells the page that it will be sent no more."""
        if self._page is not None:
            closing = asyncio.create_task(_close(self._page, code, reason))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            self.detach(self._page)

    def _note_failure(self, task: asyncio.Task) -> None:
        """The episode is stored as far as it got, and is built again when its page comes back."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a game has failed", exc_info=error)
            self._dismiss(*FAILED)

    def _draw(self, resolution: int, header: dict[str, Any]) -> bytes:
        return pack(describe(self.game, self.episode) | header, encode(self.game.picture(resolution)))


def describe(game: Game, episode: Episode) -> dict[str, Any]:
    """What a page is told beside the picture; the map only in practice."""
    told = {
        "episode": episode.id,
        "task": episode.title,
        "practice": episode.practice,
        "pixels": episode.options.camera_resolution,
        "step": game.steps,
        "left": game.steps_left,
        "pace": episode.pace,
        "score": game.score,
        "color": game.color,
        "target": COLOR_NAMES[game.scenario.colors[game.target]],
        "over": game.over,
    }
    return told | ({"map": describe_map(game)} if episode.practice else {})


def describe_map(game: Game) -> dict[str, Any]:
    """The maze from above, in cells from the bottom left."""
    seen = game.observe()
    return {
        "layout": ["".join(map(str, row)) for row in seen["maze_layout"].tolist()],
        "position": seen["agent_pos"].round(3).tolist(),
        "direction": seen["agent_dir"].round(3).tolist(),
        "objects": seen["targets_pos"].round(1).tolist(),
        "colors": [COLOR_NAMES[color] for color in game.scenario.colors],
    }


def encode(image: np.ndarray) -> bytes:
    """Small pictures without a loss, as agents see them; large ones in few bytes."""
    from PIL import Image

    file = io.BytesIO()
    if len(image) <= RESOLUTIONS[0]:
        Image.fromarray(image).save(file, "PNG", compress_level=1)
    else:
        Image.fromarray(image).save(file, "JPEG", quality=92, subsampling=0)
    return file.getvalue()


def pack(header: dict[str, Any], picture: bytes) -> bytes:
    """A message: the length of the header in four bytes, the header as JSON, the picture."""
    text = json.dumps(header).encode()
    return struct.pack(">I", len(text)) + text + picture


def make_game(episode: Episode, store: Store) -> Game:
    """The game of an episode, as far as it was played."""
    return Game(
        episode.task,
        episode.seed,
        resolution=RESOLUTIONS[0],
        options=episode.options,
        actions=store.actions(episode.id),
    )


async def _close(page: Page, code: int, reason: str) -> None:
    with contextlib.suppress(Exception):  # it may be gone already
        async with asyncio.timeout(PATIENCE):
            await page.close(code, reason)


def make_threads() -> ThreadPoolExecutor:
    """For steps and pictures of all games."""
    return ThreadPoolExecutor(num_cores(), "game")
