"""Players who do several things at once, on several pages, while the server is stopped and killed."""

import asyncio
import collections
import contextlib
import http.cookiejar
import json
import random
import sqlite3

import httpx
import pytest
from serving import Server, unpack
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from memory_maze.play.game import Game
from memory_maze.tasks import parse_task

SEED = 314
GONE = (OSError, ConnectionClosed, InvalidHandshake, httpx.TransportError)


async def take(page):
    """What is told with the next picture, and whether that is a small one; without any a page is frozen."""
    try:
        told, picture = unpack(await asyncio.wait_for(page.recv(), 60))
    except TimeoutError as error:
        raise AssertionError("a page waits for ever") from error
    return told | {"small": picture.startswith(b"\x89PNG")}


class Visitor:
    """One player with several pages."""

    def __init__(self, study: "Study", number: int) -> None:
        self.study, self.rng = study, random.Random(number)
        self.cookie = ""
        self.begun: list[str] = []  # that the server has confirmed

    async def enter(self) -> None:
        answer = await self.study.ask("/api/me", {"name": "Anna"})
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    async def begin(self) -> None:
        body = {"task": "7x7", "practice": self.rng.random() < 0.3}
        answer = await self.study.ask("/api/episodes", body, self.cookie)
        assert answer.status_code in (201, 503), answer.text
        if answer.status_code == 201:
            self.begun.append(answer.json()["id"])

    async def play(self) -> None:
        """Some steps; then the page is gone."""
        async with self.page() as page:
            await take(page)
            await page.send('{"resolution": 64}')
            await page.send('{"pause": false}')
            await page.send(json.dumps({"keys": self.rng.randrange(8)}))
            for _ in range(self.rng.randrange(1, 6)):
                told = await take(page)
                await page.send(json.dumps({"seen": told["picture"]}))

    async def leave(self) -> None:
        """The page is gone before it has shown anything."""
        async with self.page():
            await asyncio.sleep(self.rng.random() / 50)

    async def reload(self) -> None:
        """A page takes the place of one that plays."""
        async with self.page() as page:
            await page.send('{"pause": false}')
            await self.play()

    def page(self):
        return connect(
            f"ws://127.0.0.1:{self.study.port}/api/play",
            origin=self.study.origin,
            additional_headers={"Cookie": self.cookie},
            max_size=None,
            close_timeout=5,
        )

    async def act(self, name: str) -> None:
        """One thing of many; the server may be stopped meanwhile, and other pages take the game."""
        await asyncio.sleep(self.rng.random() / 20)
        with contextlib.suppress(*GONE):
            await getattr(self, name)()

    async def interleave(self, rounds: int) -> None:
        for _ in range(rounds):
            things = ("begin", "play", "leave", "reload")
            names = self.rng.choices(things, (4, 3, 1, 2), k=self.rng.randrange(2, 6))
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self.act(name))

    async def check(self) -> str:
        """What was compared: the game that goes on is the one that is stored."""
        stored = await self.ask_open()
        if stored is None:
            return "nothing is open"
        try:
            async with self.page() as page:
                for _ in range(self.rng.randrange(1, 4)):
                    told = await take(page)
                    await page.send('{"pause": false}')
                    await page.send(json.dumps({"seen": told["picture"]}))
                await page.send('{"pause": true}')
                await page.send('{"resolution": 64}')  # what is small was drawn after the pause
                while not told["small"]:
                    told = await take(page)
                assert told["paused"]
        except ConnectionClosed as error:
            if error.rcvd is None or error.rcvd.code != 4503:
                raise
            return "full"
        later = await self.ask_open()
        assert later["id"] == stored["id"] == told["episode"]
        assert (later["steps"], later["score"]) == (told["step"], told["score"])
        assert later["steps"] >= stored["steps"]
        return "agree"

    async def ask_open(self):
        return (await self.study.ask("/api/me", cookie=self.cookie)).json()["open"]


class Study:
    """A server that is restarted in one folder."""

    def __init__(self, folder, client: httpx.AsyncClient, *options: str) -> None:
        self.folder, self.client, self.options = folder, client, options
        self.log: list[str] = []

    @contextlib.asynccontextmanager
    async def running(self, kill=False):
        server = await asyncio.to_thread(Server, self.folder, *self.options)
        self.port, self.origin = server.port, server.origin
        try:
            yield
        finally:
            await asyncio.to_thread(server.stop, kill)
            self.log += server.log

    async def ask(self, path, body=None, cookie=""):
        headers = {"Cookie": cookie, "Origin": self.origin}
        method = "GET" if body is None else "POST"
        return await self.client.request(method, self.origin + path, json=body, headers=headers)


async def run_study(folder, numbers, kill):
    """Each visitor is an interleaving of its own; amid them the server is stopped for all."""
    options = ["--tasks", "7x7", "--pace", "60", "--requests", "100000", "--seed", str(SEED)]
    jar = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    fresh = httpx.Limits(max_keepalive_connections=0)  # the server may be closing one that has been idle
    async with httpx.AsyncClient(timeout=60, cookies=jar, limits=fresh) as client:  # of many players
        study = Study(folder, client, *options, "--players", str(len(numbers) - 2))
        visitors = [Visitor(study, number) for number in numbers]
        async with study.running(kill):
            for visitor in visitors:
                await visitor.enter()
            doing = [asyncio.create_task(visitor.interleave(2)) for visitor in visitors]
            await asyncio.sleep(random.Random(numbers[0]).uniform(1, 3))
        await asyncio.gather(*doing)
        async with study.running():
            await asyncio.gather(*(visitor.interleave(2) for visitor in visitors))
            counts = collections.Counter(await asyncio.gather(*(visitor.check() for visitor in visitors)))
    assert not any("Traceback" in line for line in study.log), "".join(study.log)
    return visitors, counts


def check_store(folder, visitors, replayed):
    base = sqlite3.connect(folder / "players.sqlite")
    base.row_factory = sqlite3.Row
    rows = base.execute("SELECT rowid, * FROM episodes ORDER BY rowid").fetchall()
    base.close()
    states = collections.defaultdict(list)
    seeds = collections.defaultdict(list)
    for row in rows:
        states[row["player"]].append(row["state"])
        if not row["practice"]:
            seeds[row["player"]].append(row["seed"])
    for player, some in states.items():
        assert "open" not in some[:-1], f"player {player}: the newest alone is open"
        given = seeds[player]
        assert given == list(range(SEED, SEED + len(given))), f"no maze of player {player} is skipped"
    ids = {row["id"] for row in rows}
    assert all(id in ids for visitor in visitors for id in visitor.begun)
    for row in random.Random(0).sample(rows, min(replayed, len(rows))):
        game = Game(parse_task("7x7"), row["seed"], resolution=64, actions=row["actions"])
        assert game.score == row["score"]


def check_interleavings(folder, numbers, kill, replayed=5):
    visitors, counts = asyncio.run(run_study(folder, numbers, kill))
    check_store(folder, visitors, replayed)
    assert counts["agree"] > len(numbers) / 2, counts


def test_store_and_game_agree_whatever_is_asked_at_once(tmp_path):
    check_interleavings(tmp_path, range(16), kill=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_store_and_game_agree_in_a_thousand_interleavings(tmp_path):
    for part in range(20):
        check_interleavings(tmp_path / str(part), range(100 + 50 * part, 150 + 50 * part), kill=part % 2 == 0)
