"""Episodes to watch in a browser: which there are, who may see them, and their pictures."""

import collections
import dataclasses
import hashlib
import io
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from memory_maze.play.recordings import EPISODES, read_played
from memory_maze.watch.sources import Entry, Settings, find_all, recording_entry
from memory_maze.watch.trace import Trace

STRIP = 64  # pictures in one answer at most
KEPT_TRACES, KEPT_STRIPS = 16, 128  # in memory; strips have about 200 kB each
KEPT_BYTES = 1 << 29  # of pictures of all traces but the newest
_SIDE = 64  # pixels of a picture, as the page has them
_PAGE = Path(__file__).parent / "static" / "watch.html"
_WORKERS = 2  # requests that draw, read or play at once; others wait without a thread
_MAX_STEP = 10**8
_CACHED = {"Cache-Control": "private, max-age=3600"}
log = logging.getLogger("memory_maze.web")

FindViewer = Callable[[Request], str | None]


class UnknownTraceError(LookupError):
    """There is no such episode, or not for this viewer."""


class BadNumberError(ValueError):
    """Steps that are not there."""


@dataclasses.dataclass(frozen=True)
class _Shelved:
    entry: Entry
    owner: str | None
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class Library:
    """Episodes that can be watched. Those with an owner are visible to that viewer alone.

    May be used by several threads.
    """

    def __init__(self) -> None:
        self._shelf: dict[str, _Shelved] = {}
        self._traces: collections.OrderedDict[str, Trace] = collections.OrderedDict()
        self._scores: dict[str, float] = {}
        self._strips: collections.OrderedDict[tuple[str, int, int], bytes] = collections.OrderedDict()
        self._lock = threading.Lock()

    def add(self, entry: Entry, owner: str | None = None) -> str:
        """Puts in an episode and returns its id, which is the same after a restart and tells nothing."""
        text = repr((entry.key, owner))
        id = hashlib.sha256(text.encode()).hexdigest()[:16]
        with self._lock:
            self._shelf.setdefault(id, _Shelved(entry, owner))
        return id

    def add_recording(self, folder: Path, id: str, owner: str | None = None) -> str:
        """Puts in an episode that a person played, by its name in a folder of recordings."""
        return self.add(recording_entry(folder, read_played(folder / EPISODES / f"{id}.json")), owner)

    def add_source(self, word: str, **settings: Any) -> list[str]:
        """Puts in what a word of `watch.sources` names, for everybody; keywords as for its `Settings`."""
        return self.add_sources([word], **settings)

    def add_sources(self, words: Sequence[str], **settings: Any) -> list[str]:
        """Likewise for several words; agents play in the same maze."""
        return [self.add(entry) for entry in find_all(words, Settings(**settings))]

    def contents(self, viewer: str | None) -> list[dict[str, Any]]:
        """What a viewer can choose from; their own come first, the newest of them on top."""
        with self._lock:
            seen = [(id, shelved) for id, shelved in self._shelf.items() if shelved.owner in (None, viewer)]
            scores = dict(self._scores)
        own = [pair for pair in seen if pair[1].owner is not None]
        shared = [pair for pair in seen if pair[1].owner is None]
        return [_describe(id, shelved, scores.get(id)) for id, shelved in [*reversed(own), *shared]]

    def read(self, id: str, viewer: str | None) -> Trace:
        """An episode, which is read or played now if it has not been; `UnknownTraceError` for others' ids."""
        shelved = self._find(id, viewer)
        with shelved.lock:  # two who ask at once need not play it twice
            with self._lock:
                trace = self._traces.get(id)
            trace = trace or shelved.entry.load()
            with self._lock:
                self._scores[id] = float(trace.scores[-1])
                _keep(self._traces, id, trace, KEPT_TRACES)
                while len(self._traces) > 1 and sum(map(_weigh, self._traces.values())) > KEPT_BYTES:
                    self._traces.popitem(last=False)
        return trace

    def strip(self, id: str, viewer: str | None, first: int, count: int) -> bytes:
        """Pictures beside each other, as a PNG file; `BadNumberError` for steps that are not there."""
        self._find(id, viewer)
        key = (id, first, count)
        with self._lock:
            if (kept := self._strips.get(key)) is not None:
                _keep(self._strips, key, kept, KEPT_STRIPS)
                return kept
        trace = self.read(id, viewer)
        if first > trace.steps:
            raise BadNumberError(f"from must be a number from 0 to {trace.steps}")
        made = draw_strip(trace, range(first, min(first + count, trace.steps + 1)))
        with self._lock:
            _keep(self._strips, key, made, KEPT_STRIPS)
        return made

    def _find(self, id: str, viewer: str | None) -> _Shelved:
        with self._lock:
            shelved = self._shelf.get(id)
        if shelved is None or shelved.owner not in (None, viewer):
            raise UnknownTraceError("there is no such episode")
        return shelved


def _keep(kept: collections.OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    """The last ones used."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


def _weigh(trace: Trace) -> int:
    """Bytes of its pictures, where they are kept and not drawn."""
    return trace.source["image"].nbytes if isinstance(trace.source, dict) else 0


def _describe(id: str, shelved: _Shelved, score: float | None) -> dict[str, Any]:
    entry = shelved.entry
    told = {key: getattr(entry, key) for key in ("name", "kind", "task", "steps")}
    # The name of a maze may hold a path.
    maze = entry.maze and hashlib.sha256(entry.maze.encode()).hexdigest()[:16]
    score = entry.score if entry.score is not None else score
    return {"id": id, **told, "score": score, "maze": maze, "own": shelved.owner is not None}


def draw_strip(trace: Trace, steps: Sequence[int]) -> bytes:
    """Pictures beside each other, 64 pixels high as the page wants them, as a PNG file."""
    from PIL import Image

    pictures = trace.pictures(steps)
    if pictures.shape[1] != _SIDE:
        small = [Image.fromarray(one).resize((_SIDE, _SIDE), Image.Resampling.BOX) for one in pictures]
        pictures = np.stack([np.asarray(one) for one in small])
    strip = pictures.swapaxes(0, 1).reshape(pictures.shape[1], -1, 3)
    file = io.BytesIO()
    Image.fromarray(strip).save(file, "PNG", compress_level=3)
    return file.getvalue()


def watch_routes(library: Library, find_viewer: FindViewer = lambda request: None) -> list[BaseRoute]:
    """The page and what it asks for; `find_viewer` tells who asks."""
    site = _Site(library, find_viewer)
    return [
        Route("/watch", lambda request: FileResponse(_PAGE), methods=["GET"]),
        Route("/api/watch", site.contents, methods=["GET"]),
        Route("/api/watch/{id}", site.describe, methods=["GET"]),
        Route("/api/watch/{id}/pictures", site.draw, methods=["GET"]),
    ]


class _Site:
    def __init__(self, library: Library, find_viewer: FindViewer) -> None:
        self._library, self._find_viewer = library, find_viewer
        self._busy = anyio.CapacityLimiter(_WORKERS)

    async def contents(self, request: Request) -> Response:
        found = self._library.contents(self._find_viewer(request))
        return JSONResponse(found, headers={"Cache-Control": "no-store"})

    async def describe(self, request: Request) -> Response:
        id, viewer = request.path_params["id"], self._find_viewer(request)

        def answer() -> Response:
            told = self._library.read(id, viewer).describe()
            return JSONResponse(told, headers={"Cache-Control": "private, no-cache"})

        return await self._work(answer)

    async def draw(self, request: Request) -> Response:
        id, viewer = request.path_params["id"], self._find_viewer(request)

        def answer() -> Response:
            first = _read_number(request, "from", 0, 0, _MAX_STEP)
            count = _read_number(request, "count", STRIP, 1, STRIP)
            strip = self._library.strip(id, viewer, first, count)
            return Response(strip, media_type="image/png", headers=_CACHED)

        return await self._work(answer)

    async def _work(self, answer: Callable[[], Response]) -> Response:
        """Answers in a thread; what goes wrong is told without details."""
        try:
            async with self._busy:
                return await run_in_threadpool(answer)
        except UnknownTraceError as error:
            return JSONResponse({"error": str(error)}, 404)
        except BadNumberError as error:
            return JSONResponse({"error": str(error)}, 400)
        except Exception:
            log.exception("an episode cannot be shown")
            return JSONResponse({"error": "this episode cannot be shown: the server's log tells why"}, 500)


def _read_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    # Digits alone: int() would also take signs, spaces and other scripts.
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    if not least <= number <= most:
        raise BadNumberError(f"{name} must be a number from {least} to {most}")
    return number
