"""What the server answers: pages, players, episodes, and the socket over which a game is played."""

import contextlib
import dataclasses
import json
import logging
import random
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from memory_maze.options import DEFAULT, Options
from memory_maze.play.game import check_for_people
from memory_maze.play.recordings import check_name
from memory_maze.sampler import MAX_SEED
from memory_maze.tasks import PACE, TASKS, Task
from memory_maze.variants import name_task
from memory_maze.web.board import list_paper, make_board
from memory_maze.web.guard import Bucket, Buckets, Guard
from memory_maze.web.live import RESOLUTIONS, Page
from memory_maze.web.lobby import FullError, Lobby, NoGameError
from memory_maze.web.store import DONE, SAVED, Episode, Player, Store
from memory_maze.web.watching import Library, watch_routes

STATIC = Path(__file__).parent / "static"
PLAYER = "memory_maze_player"  # the cookie
MAX_MESSAGE = 256  # characters that a page may send at once
MESSAGES = 60  # a second from a page
_YEAR = 365 * 86400
log = logging.getLogger("memory_maze.web")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a study is run."""

    folder: Path
    """For the SQLite file and the recordings."""
    tasks: tuple[Task, ...] = tuple(TASKS.values())
    """What can be played."""
    options: Options = DEFAULT
    """Which variant of them; games that were begun in another one go on in theirs."""
    pace: float = PACE
    """Actions a second."""
    seed: int | None = None
    """Of the first maze: then all players get the same mazes in the same order; None: each their own."""
    players: int = 50
    """How many may play at once."""
    token: str | None = None
    """That opens the door; None where only this machine can ask."""
    hosts: tuple[str, ...] | None = ("localhost", "127.0.0.1", "[::1]")
    """Names that the server goes by; None for any."""
    requests: float = 20
    """A second from one address."""

    def __post_init__(self) -> None:
        for task in self.tasks:
            check_for_people(task, self.options)

    @property
    def titles(self) -> dict[str, Task]:
        """The tasks by what pages call them, like "9x9, Vis"."""
        return {name_task(task, self.options): task for task in self.tasks}


class BadRequestError(ValueError):
    """What a page asked for makes no sense."""


def make_app(settings: Settings, library: Library | None = None) -> Starlette:
    """The whole server; `library` holds what everybody may watch."""
    library = library or Library()
    store = Store(settings.folder / "players.sqlite")
    lobby = Lobby(store, settings.folder / "recordings", settings.players, library)
    site = Site(settings, store, lobby)

    @contextlib.asynccontextmanager
    async def live(app: Starlette) -> AsyncGenerator[None]:
        await lobby.start(settings.tasks, settings.options)
        yield
        await lobby.stop()
        store.close()

    hosts = None if settings.hosts is None else set(settings.hosts)
    guard = Middleware(Guard, token=settings.token, hosts=hosts, requests=settings.requests)
    routes: list[BaseRoute] = [
        *site.routes(),
        *watch_routes(library, site.find_viewer),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: Any = {HTTPException: _tell_http, BadRequestError: _tell_bad, Exception: _tell_nothing}
    return Starlette(routes=routes, middleware=[guard], lifespan=live, exception_handlers=handlers)


class Site:
    """Players and their episodes."""

    def __init__(self, settings: Settings, store: Store, lobby: Lobby) -> None:
        self._settings, self._store, self._lobby = settings, store, lobby
        self._tasks = settings.titles
        self._arrivals = Buckets(100 / 3600, 100)  # new players from one address
        self._starts = Buckets(60 / 3600, 60)  # new episodes of one player

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", lambda request: FileResponse(STATIC / "index.html")),
            Route("/api/me", self.tell_me, methods=["GET"]),
            Route("/api/me", self.name_me, methods=["POST"]),
            Route("/api/episodes", self.begin, methods=["POST"]),
            Route("/api/board", self.board, methods=["GET"]),
            WebSocketRoute("/api/play", self.play),
        ]

    def find_player(self, connection: HTTPConnection) -> Player | None:
        return self._store.find_player(connection.cookies.get(PLAYER))

    def find_viewer(self, request: Request) -> str | None:
        """Whose own recordings may be watched."""
        player = self.find_player(request)
        return None if player is None else str(player.id)

    async def tell_me(self, request: Request) -> Response:
        """Who I am, what I have begun, and what I have done."""
        player = self.find_player(request)
        told: dict[str, Any] = {"name": player and player.name, "pace": self._settings.pace}
        told["tasks"] = [_describe_task(name, task, self._settings) for name, task in self._tasks.items()]
        if player is not None:
            current = self._store.open_episode(player.id)
            told["open"] = current and _describe_episode(current)
            done = self._store.episodes(DONE, SAVED, player=player.id)
            told["done"] = [
                _describe_episode(episode) | {"watch": self._lobby.find_shown(episode)}
                for episode in reversed(done)
            ]
        return JSONResponse(told)

    async def name_me(self, request: Request) -> Response:
        """A new player, or another name for one."""
        asked = await _read_json(request, {"name": str})
        try:
            name = check_name(asked["name"])
        except ValueError as error:
            raise BadRequestError(str(error)) from error
        player = self.find_player(request)
        answer = JSONResponse({"name": name})
        if player is not None:
            self._store.rename(player.id, name)
            return answer
        if not self._arrivals.take(request.client.host if request.client else None):
            raise HTTPException(429, "too many new players from here: wait some minutes")
        key, _ = self._store.add_player(name)
        answer.set_cookie(PLAYER, key, max_age=_YEAR, httponly=True, samesite="strict")
        return answer

    async def begin(self, request: Request) -> Response:
        """A new episode, in place of one that is open."""
        asked = await _read_json(request, {"task": str, "practice": bool})
        player = self.find_player(request)
        if player is None:
            raise HTTPException(401, "tell your name first")
        if asked["task"] not in self._tasks:
            raise BadRequestError(f"the tasks are {'; '.join(self._tasks)}")
        if not self._starts.take(player.id):
            raise HTTPException(429, "too many episodes begun: wait some minutes")
        task, practice = self._tasks[asked["task"]], asked["practice"]

        def choose() -> Episode:
            seed = self._choose_seed(player, task, practice)
            settings = self._settings
            return self._store.begin(player.id, task, settings.options, seed, practice, settings.pace)

        try:
            episode = await self._lobby.begin(player.id, choose)
        except FullError as error:
            raise HTTPException(503, str(error)) from error
        return JSONResponse(_describe_episode(episode), 201)

    def _choose_seed(self, player: Player, task: Task, practice: bool) -> int:
        if self._settings.seed is None or practice:
            return random.SystemRandom().randrange(MAX_SEED)
        return (self._settings.seed + self._store.count(player.id, task, practice)) % (MAX_SEED + 1)

    async def board(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(make_board, self._store, list(self._tasks)))

    async def play(self, socket: WebSocket) -> None:
        """The player's open game, over a socket."""
        player = self.find_player(socket)
        await socket.accept()
        page = Page(socket.send_bytes, socket.close)
        try:
            if player is None:
                raise NoGameError
            live = await self._lobby.join(player.id, page)
        except NoGameError:
            await socket.close(4404, "there is no game: begin one")
            return
        except FullError as error:
            await socket.close(4503, str(error))
            return
        messages = Bucket(MESSAGES, 2 * MESSAGES)
        try:
            while True:
                text = await socket.receive_text()
                if not messages.take():
                    raise BadRequestError("too many messages")
                _obey(live, parse_message(text))
        except BadRequestError as error:
            with contextlib.suppress(RuntimeError):  # it was closed already
                await socket.close(1008, str(error)[:120])
        except (WebSocketDisconnect, KeyError, RuntimeError):
            pass  # it is gone, or it sent what is no text
        finally:
            live.detach(page)


def parse_message(text: str) -> tuple[str, Any]:
    """A command of a page and its value, or an error that says what is wrong."""
    rules: dict[str, Callable[[Any], bool]] = {
        "keys": lambda value: type(value) is int and 0 <= value < 8,
        "pause": lambda value: type(value) is bool,
        "resolution": lambda value: type(value) is int and value in RESOLUTIONS,
        "seen": lambda value: type(value) is int and 0 <= value < 1 << 31,
    }
    try:
        if len(text) > MAX_MESSAGE:
            raise ValueError("too long")
        ((name, value),) = json.loads(text).items()
        if not rules[name](value):
            raise ValueError("wrong value")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadRequestError(f"a message is one of {', '.join(rules)} with its value") from error
    return name, value


def _obey(live: Any, message: tuple[str, Any]) -> None:
    name, value = message
    {"keys": live.press, "pause": live.pause, "resolution": live.choose_resolution, "seen": live.see}[name](
        value
    )


async def _read_json(request: Request, kinds: dict[str, type]) -> dict[str, Any]:
    """The body: an object with exactly these values."""
    try:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise ValueError("no JSON")
        data = json.loads(await request.body())
        if data.keys() != kinds.keys() or any(type(data[key]) is not kind for key, kind in kinds.items()):
            raise ValueError("other values")
    except (ValueError, AttributeError, RecursionError, ClientDisconnect) as error:
        raise BadRequestError(f"send JSON with {', '.join(kinds)}") from error
    return data


def _describe_task(name: str, task: Task, settings: Settings) -> dict[str, Any]:
    steps = task.episode_steps(settings.options.control_freq)
    return {
        "name": name,
        "objects": task.objects,
        "steps": steps,
        "seconds": steps / settings.pace,
        "paper": list_paper(name),
    }


def _describe_episode(episode: Episode) -> dict[str, Any]:
    return {
        "id": episode.id,
        "task": episode.title,
        "practice": episode.practice,
        "score": episode.score,
        "steps": episode.steps,
        "started": episode.started,
    }


async def _tell_http(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code)


async def _tell_bad(request: Request, error: BadRequestError) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _tell_nothing(request: Request, error: Exception) -> Response:
    log.error("a request failed: %s", request.url.path, exc_info=error)
    return JSONResponse({"error": "something went wrong on the server"}, 500)
