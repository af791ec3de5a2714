"""The clock of a game on the server, without a server."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_maze.options import DEFAULT
from memory_maze.tasks import parse_task
from memory_maze.web import live as live_module
from memory_maze.web.live import SLOW, Live, Page
from memory_maze.web.store import Store


class Walk:
    """In place of a game."""

    over, score = False, 0

    def step(self, action):
        pass

    def close(self):
        pass


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begins a game that no page shows yet."""
    monkeypatch.setattr(live_module, "make_game", lambda episode, store: Walk())
    monkeypatch.setattr(Live, "_draw", lambda self, resolution, header: b"picture")

    async def finish(live):
        pass

    with contextlib.closing(Store(tmp_path / "players.sqlite")) as store, ThreadPoolExecutor(1) as threads:
        _, player = store.add_player("Anna")
        episode = store.begin(player.id, parse_task("7x7"), DEFAULT, 0, False, 60.0)
        yield lambda: Live(episode, store, threads, finish)


async def close(code, reason):
    pass


def test_a_game_stops_while_its_page_takes_a_picture(begin):
    async def play():
        live, stopping = begin(), []

        async def send(message):
            stopping.append(asyncio.create_task(live.stop()))

        live.attach(Page(send, close))
        while not stopping:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(asyncio.gather(*stopping), 5)
        assert live.finished

    asyncio.run(play())


def test_a_page_that_takes_no_pictures_is_told_to_connect_again(begin, monkeypatch):
    monkeypatch.setattr(live_module, "PATIENCE", 0.1)

    async def play():
        live, told = begin(), []

        async def hang(message):
            await asyncio.sleep(60)

        async def note(code, reason):
            told.append((code, reason))

        live.attach(Page(hang, note))
        while not told:
            await asyncio.sleep(0.01)
        await live.stop()
        assert told == [SLOW]

    asyncio.run(asyncio.wait_for(play(), 5))
