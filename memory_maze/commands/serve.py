"""Open a page on which people play and watch: on this machine, or on the lab's network with a token.

Players, scores and episodes are kept in a folder; games go on after a reload or a restart. The token is
made up, or taken from the variable MEMORY_MAZE_TOKEN.
"""

import contextlib
import dataclasses
import ipaddress
import math
import os
from pathlib import Path
from typing import Any

from rich.console import Console

from memory_maze.commands.environment import DEFAULT, Environment
from memory_maze.sampler import check_seed
from memory_maze.system.extras import missing
from memory_maze.system.files import sole_writer
from memory_maze.tasks import PACE, TASKS

console = Console()
TOKEN = "MEMORY_MAZE_TOKEN"  # of the environment


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    out: Path = Path("study")
    """Folder for players.sqlite and recordings/."""
    host: str = "127.0.0.1"
    """Address to listen on: 0.0.0.0 opens the page to the network, for those who know the token."""
    port: int = 8080
    """Port to listen on; 0 for any that is free."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Sizes that can be played; any odd size like 7x7."""
    pace: float = PACE
    """Actions a second in every variant: HiFreq is slow motion at 6, and at 60 as fast as others at 6."""
    seed: int | None = None
    """Give all players the same mazes in the same order, from this seed on; by default each their own."""
    players: int = 50
    """How many may play at once."""
    requests: float = 20
    """Requests a second that one address may make; people behind one router share theirs."""
    show: tuple[str, ...] = ()
    """What everybody may watch: folders of recordings, data sets, agents like impala-9x9, probing runs."""
    show_task: str | None = None
    """Where shown agents play; by default where they were trained, and 9x9 for other policies."""
    show_seed: int = 0
    """Of the maze of shown agents."""
    show_data: str | None = None
    """The data set that shown runs of probing answer about."""
    environment: Environment = DEFAULT

    def run(self) -> None:
        try:
            import uvicorn  # noqa: F401
            import websockets  # noqa: F401
            from PIL import Image  # noqa: F401

            from memory_maze.web.app import Settings
        except ModuleNotFoundError as error:
            raise missing(f"the page needs {error.name}", error.name, "serve") from error
        self._check()
        local = _is_local(self.host)
        settings = Settings(
            folder=self.out,
            tasks=tuple(map(self.environment.task, self.tasks)),
            options=self.environment.parse(),
            pace=self.pace,
            seed=self.seed,
            players=self.players,
            requests=self.requests,
            token=None if local else _choose_token(),
            hosts=Settings.hosts if local else None,
        )
        with sole_writer(self.out):
            self._serve(settings)

    def _check(self) -> None:
        if not 0.1 <= self.pace <= 60:
            raise ValueError(f"pace must be from 0.1 to 60 actions a second: got {self.pace}")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535: got {self.port}")
        if self.players < 1:
            raise ValueError(f"players must be at least 1: got {self.players}")
        if not 0 < self.requests < math.inf:
            raise ValueError(f"requests must be a number above 0: got {self.requests}")
        check_seed(self.seed)

    def _serve(self, settings: Any) -> None:
        import uvicorn

        from memory_maze.web.app import make_app
        from memory_maze.web.connections import limit_connections

        app = make_app(settings, self._fill_library())
        config = uvicorn.Config(
            app,
            host=self.host,
            port=self.port,
            log_level="warning",
            # A page holds one for the game and up to six for the rest; people behind one router share theirs.
            http=limit_connections(100 + 4 * self.players),
            ws="websockets-sansio",
            ws_max_size=4096,
            ws_per_message_deflate=False,
            limit_concurrency=1000,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        with contextlib.suppress(KeyboardInterrupt):  # which ends it in order
            make_server(config, settings.token).run()

    def _fill_library(self) -> Any:
        from memory_maze.web.watching import Library

        library = Library()
        library.add_sources(self.show, task=self.show_task, seed=self.show_seed, data=self.show_data)
        return library


def make_server(config: Any, token: str | None) -> Any:
    """A server that tells its address once it listens."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            try:
                await super().startup(sockets)
            except SystemExit as error:
                if self.lifespan.should_exit:
                    raise
                raise OSError(
                    f"{config.host}:{config.port} is not free to listen on: choose another --port; "
                    "--port 0 takes any that is free"
                ) from error
            for server in self.servers:
                host, port = server.sockets[0].getsockname()[:2]
                end = "/" if token is None else f"/?token={token}"
                console.print(f"open http://{_shown(host)}:{port}{end}", soft_wrap=True, highlight=False)
            console.print("Ctrl-C ends it; nothing is lost")

    return Server(config)


def _shown(host: str) -> str:
    """What to type in a browser: all addresses of this machine go by its name."""
    if host in ("0.0.0.0", "::"):
        import socket

        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _choose_token() -> str:
    from memory_maze.web.guard import make_token

    token = os.environ.get(TOKEN) or make_token()
    if len(token) < 8:
        raise ValueError(f"{TOKEN} is too short to be secret: at least 8 letters")
    return token
