"""Connections before anything is asked for: how many one address may hold, and how long they may wait."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 5.0  # seconds for a whole request, and for the next one
_FULL = b"""HTTP/1.1 429 Too Many Requests\r
Connection: close\r
Content-Type: text/plain\r
\r
too many connections from your address: close some pages"""


def limit_connections(most: int) -> type[H11Protocol]:
    """uvicorn's protocol, with at most so many connections of one address, those of games included."""
    return type("Limited", (_Limited,), {"most": most})


class _Limited(H11Protocol):
    most: int
    _timer: asyncio.TimerHandle | None = None
    _asking = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.client is not None and self._count(self.client[0]) > self.most:
            transport.write(_FULL)
            transport.close()
        self._wait()

    def data_received(self, data: bytes) -> None:
        if not self._asking:
            self._asking = True
            self._wait()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._asking = False
        self._wait()
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _count(self, address: str) -> int:
        clients = [getattr(one, "client", None) for one in self.connections]
        return sum(client is not None and client[0] == address for client in clients)

    def _wait(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(PATIENCE, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        """Ends the connection, except where the server is the one that is slow."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self.transport.close()
