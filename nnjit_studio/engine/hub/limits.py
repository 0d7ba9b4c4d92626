"""What a program of this machine can cost the hub before it shows a token: a few sockets for
seconds, and a line a second in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

MAX_CONNECTIONS = 64
"""Sockets at a time; a browser opens six to one address, and a few WebSockets."""
HEADER_S = 5.0
"""Seconds from a connection, and from the first byte of a later request, to the end of headers."""


class BoundedHttp(H11Protocol):
    """HTTP with a deadline for headers, on so many connections; one more is closed at once."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self.connections.discard(self)
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._watch()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._deadline = self.loop.call_later(HEADER_S, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class CalmWebSocket(WebSocketsSansIOProtocol):
    """A socket that ends with its server, also where the other side is just closing it.

    uvicorn 0.54 then raises in the middle of its shutdown, and further sockets stay open.
    """

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except InvalidState:
            self.transport.close()


class Seldom(logging.Filter):
    """Lets a message pass once a second, with how many were like it."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        last, dropped = self._seen.get(str(record.msg), (-1.0, 0))
        if now - last < 1.0:
            self._seen[str(record.msg)] = last, dropped + 1
            return False
        if len(self._seen) > 1000:
            self._seen.clear()
        self._seen[str(record.msg)] = now, 0
        if dropped:
            record.msg = f"{record.getMessage()} ({dropped} more like this)"
            record.args = ()
        return True


def calm_logs() -> None:
    """Let the server's loggers repeat nothing; may be called again."""
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        if not any(isinstance(f, Seldom) for f in logger.filters):
            logger.addFilter(Seldom())
