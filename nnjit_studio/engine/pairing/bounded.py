"""What a device may send over a socket: so many messages a second, until it is cut off."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message, Receive, Send

MAX_MESSAGE_BYTES = 8 << 20
"""A segmenter's output for a photo; larger outputs need another target."""
LINK_PER_S, STATUS_PER_S = 200, 10
CLOSE_REFUSED = 4003
LOGGER = logging.getLogger("nnjit.devices")


class Bounded:
    """One socket of a device; lives on one event loop.

    Attributes
    ----------
    why
        Why it was cut off, one sentence; empty while it was not.
    """

    def __init__(
        self, receive: Receive, per_s: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.why = ""
        self._receive, self._per_s, self._now_s = receive, per_s, now_s
        self._cut = asyncio.Event()
        self._second, self._count = 0, 0

    def cut(self, why: str) -> None:
        """Nothing more is taken from it."""
        self.why = self.why or why
        self._cut.set()

    async def receive(self) -> Message:
        """The next message of the device; once it is cut, that it went away."""
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(w) for w in (self._receive(), self._cut.wait())
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not self._cut.is_set():
                message: Message = waits[0].result()
                self._meter(message)
                if not self.why:
                    return message
        finally:
            for wait in waits:
                wait.cancel()
        return {"type": "websocket.disconnect", "code": CLOSE_REFUSED, "reason": self.why}

    def _meter(self, message: Message) -> None:
        if message["type"] != "websocket.receive":
            return
        now = int(self._now_s())
        self._count = 1 if now != self._second else self._count + 1
        self._second = now
        if self._count > self._per_s:
            self.cut(f"The device sent more than {self._per_s} messages in a second.")

    async def serve(self, serve: Callable[[], Awaitable[None]], send: Send) -> None:
        """Serve the socket to its end; close it where it was cut off."""
        try:
            await serve()
        finally:
            if self.why:
                LOGGER.warning("%s", self.why)
                reason = self.why.encode()[:123].decode(errors="ignore")
                with contextlib.suppress(Exception):  # gone, or closed by who served it
                    await send({"type": "websocket.close", "code": CLOSE_REFUSED, "reason": reason})
