"""The connection to one page: requests over its WebSocket, and their replies."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from nnjit_studio.engine.messages.frames import Blob, Frame, decode_frame, encode_frame
from nnjit_studio.errors import PageError

LOGGER = logging.getLogger("nnjit.page")
PROTOCOL_VERSION = 1
HELLO_TIMEOUT_S = 10.0

CLOSE_PROTOCOL_ERROR = 1002
CLOSE_ANOTHER_PAGE = 4001

LOST_HINT = "Start again: what was measured until then is in the kernel database."

PartCallback = Callable[[dict[str, Any]], None]


class RequestError(PageError):
    """The page answered a request with ``error``; the page itself is well.

    ``code`` names the kind of a GPU's failure (docs/webgpu.md), empty for all others.
    """

    def __init__(self, error: str, hint: str = "", code: str = "") -> None:
        super().__init__(error, hint)
        self.code = code


class PageLost(PageError):
    """The page that a request was for is gone, and with it what it held."""


class PageConnection:
    """Requests and replies over one WebSocket; lives on the hub's loop alone.

    Attributes
    ----------
    hello
        The header of the page's first frame, empty before it.
    lost
        Why the page is gone, empty while it is there.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self.hello: dict[str, Any] = {}
        self.lost = ""
        self._websocket = websocket
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Frame]] = {}
        self._on_part: dict[int, PartCallback] = {}

    async def greet(self) -> None:
        """Accept the socket and wait for ``hello``.

        Raises
        ------
        PageError
            When the first frame is another one, or none comes in time.
        """
        await self._websocket.accept()
        try:
            header, _ = await asyncio.wait_for(self._receive(), HELLO_TIMEOUT_S)
        except asyncio.TimeoutError as error:
            raise PageError(
                "The page connected but did not say hello.", "Reload it; it may be an old copy."
            ) from error
        if header["type"] != "hello" or header.get("protocol") != PROTOCOL_VERSION:
            raise PageError(
                f"The page speaks another protocol: {header}.", "Reload it; it may be an old copy."
            )
        self.hello = header

    async def listen(self) -> None:
        """Deliver replies, their parts and log messages until the page goes.

        Raises
        ------
        PageError
            Always, with the reason why the page is gone.
        """
        while True:
            header, blobs = await self._receive()
            if header["type"] == "log":
                level = logging.getLevelName(str(header.get("level")).upper())
                known = isinstance(level, int)
                LOGGER.log(level if known else logging.WARNING, "%s", header.get("text"))
                continue
            of = header.get("of")
            if isinstance(of, int):
                if on_part := self._on_part.get(of):
                    on_part(header)
                continue
            number = header.get("id")
            reply = self._pending.get(number) if isinstance(number, int) else None
            # A reply without its request is late: the caller gave up waiting.
            if reply is None or reply.done():
                continue
            if header["type"] == "error":
                said = (str(header.get(name) or "") for name in ("error", "hint", "code"))
                reply.set_exception(RequestError(*said))
            else:
                reply.set_result((header, blobs))

    async def request(
        self,
        header: Mapping[str, Any],
        blobs: Sequence[Blob] = (),
        on_part: PartCallback | None = None,
    ) -> Frame:
        """Send one request and wait for its reply.

        ``on_part`` gets the header of each message ``of`` the request, until then.

        Raises
        ------
        RequestError
            When the page answers with an error.
        PageError
            When the page is gone, or goes while it works.
        """
        if self.lost:
            raise PageLost(self.lost, LOST_HINT)
        number = next(self._ids)
        frame = encode_frame({**header, "id": number}, blobs)
        reply = asyncio.get_running_loop().create_future()
        self._pending[number] = reply
        if on_part is not None:
            self._on_part[number] = on_part
        try:
            try:
                await self._websocket.send_bytes(frame)
            except (WebSocketDisconnect, RuntimeError) as error:
                reason = self.lost or "The page closed its connection."
                raise PageLost(reason, LOST_HINT) from error
            result: Frame = await reply
            return result
        finally:
            del self._pending[number]
            self._on_part.pop(number, None)
            if reply.done() and not reply.cancelled():
                reply.exception()  # seen, also where the send failed first

    def fail(self, reason: str) -> None:
        """End all pending requests with ``reason``; later ones fail at once."""
        self.lost = self.lost or reason
        for reply in self._pending.values():
            if not reply.done():
                reply.set_exception(PageLost(self.lost, LOST_HINT))

    async def close(self, code: int, reason: str) -> None:
        """Close the socket if the page has not; a close frame holds 123 bytes of reason."""
        state = (self._websocket.client_state, self._websocket.application_state)
        if state == (WebSocketState.CONNECTED, WebSocketState.CONNECTED):
            await self._websocket.close(code, reason.encode()[:123].decode(errors="ignore"))

    async def _receive(self) -> Frame:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise PageError("The page closed its connection.", LOST_HINT)
        data = message.get("bytes")
        if data is None:
            raise PageError("A frame is malformed: it is text, not binary.", "Reload the page.")
        return decode_frame(data)
