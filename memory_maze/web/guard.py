"""Who may ask for what, and how often: around everything that the server answers."""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ACCESS = "memory_maze_access"  # the cookie
MAX_BODY = 4096  # bytes
TOO_LARGE = f"at most {MAX_BODY} bytes"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob: data:; connect-src 'self'; frame-ancestors 'none'; "
        "base-uri 'none'; form-action 'self'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_MAX_SOURCES = 10_000  # that are remembered


class Bucket:
    """So many in a second on average, and so many at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        self._level, self._time = burst, clock()

    def take(self) -> bool:
        """Whether there is one left, which is taken."""
        now = self._clock()
        self._level = min(self.burst, self._level + (now - self._time) * self.rate)
        self._time = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class Buckets:
    """One for each source; those that were not asked for longest are forgotten."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[Any, Bucket] = OrderedDict()

    def take(self, source: Any) -> bool:
        bucket = self._buckets.setdefault(source, Bucket(self._rate, self._burst))
        self._buckets.move_to_end(source)
        while len(self._buckets) > _MAX_SOURCES:
            self._buckets.popitem(last=False)
        return bucket.take()


class Guard:
    """Asks for the token, counts requests, checks hosts and origins, and adds headers.

    Args:
        app: What it guards.
        token: That opens the door; None where only this machine can ask.
        hosts: Names that this server goes by; None for any.
        requests: A second from one address, and ten times as many at once.
    """

    def __init__(
        self, app: ASGIApp, token: str | None = None, hosts: set[str] | None = None, requests: float = 20
    ) -> None:
        self._app, self._token, self._hosts = app, token, hosts
        self._requests = Buckets(requests, 10 * requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refuse(scope)
        if refusal is None:
            await self._app(scope, _limit(receive), _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "not allowed"})
        else:
            await refusal(scope, receive, _with_headers(send))

    def _refuse(self, scope: Scope) -> Response | None:
        connection, headers = HTTPConnection(scope), Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return JSONResponse({"error": "this server does not go by that name"}, 400)
        if not self._requests.take(connection.client.host if connection.client else None):
            return JSONResponse({"error": "too many requests: wait a moment"}, 429)
        # A page of another server may not act for a player who has this one open.
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        origin = headers.get("origin")
        if changes and (origin is None or origin.partition("://")[2] != host):
            return JSONResponse({"error": "only pages of this server may do that"}, 403)
        if (length := headers.get("content-length", "0")) != "0" and not _is_small(length):
            return JSONResponse({"error": TOO_LARGE}, 413)
        return self._ask_token(connection, scope)

    def _ask_token(self, connection: HTTPConnection, scope: Scope) -> Response | None:
        if self._token is None:
            return None
        if scope["type"] == "http" and self._is_token(connection.query_params.get("token")):
            answer = RedirectResponse("/" + scope["path"].lstrip("/"), 303)  # of this server
            answer.set_cookie(ACCESS, self._token, max_age=30 * 86400, httponly=True, samesite="lax")
            return answer
        if self._is_token(connection.cookies.get(ACCESS)):
            return None
        return PlainTextResponse("Please open the address that ends in ?token=..., as it was given.", 401)

    def _is_token(self, text: str | None) -> bool:
        return self._token is not None and hmac.compare_digest((text or "").encode(), self._token.encode())


def make_token() -> str:
    """A new token."""
    return secrets.token_urlsafe(16)


def _name(host: str) -> str:
    """Without the port."""
    return host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host


def _is_small(length: str) -> bool:
    return length.isascii() and length.isdecimal() and len(length) < 10 and int(length) <= MAX_BODY


def _limit(receive: Receive) -> Receive:
    """Refuses a request that sends more than it may, whatever its headers say."""
    count = 0

    async def limited() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b"")) if message["type"] == "http.request" else 0
        if count > MAX_BODY:
            raise HTTPException(413, TOO_LARGE)
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
