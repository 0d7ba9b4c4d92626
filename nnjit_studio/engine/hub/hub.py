"""The hub: the one server on this machine, and the page that it talks to."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from nnjit_studio.engine.gpu_bridge.bridge import GpuBridge
from nnjit_studio.engine.hub.limits import BoundedHttp, CalmWebSocket, calm_logs
from nnjit_studio.engine.hub.web import make_app
from nnjit_studio.engine.messages.connection import (
    CLOSE_ANOTHER_PAGE,
    CLOSE_PROTOCOL_ERROR,
    LOGGER,
    LOST_HINT,
    PageConnection,
    PageLost,
    PartCallback,
)
from nnjit_studio.engine.messages.frames import MAX_FRAME_BYTES, Blob, Frame
from nnjit_studio.errors import PageError, TargetError

T = TypeVar("T")


class Hub:
    """Serves the page on 127.0.0.1 and carries requests to it.

    All methods may be called from any thread but the hub's own, so not from
    the callbacks; those run on the hub's thread and must not block.

    Attributes
    ----------
    gpu
        The bridge to wgpu-native, for pages without a GPU of their own.
    on_page, on_lost
        For who opens pages: called when one said hello, and with the reason when it went away.
    pages
        How many said hello until now.
    """

    def __init__(self) -> None:
        self.on_lost: Callable[[str], None] | None = None
        self.on_page: Callable[[], None] | None = None
        self.pages = 0
        self._page_comes = False
        self.gpu = GpuBridge()
        self._token = secrets.token_urlsafe(32)
        self._socket = loopback_socket()
        self._host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = make_server(
            make_app(self._host, self._token, self.serve_page, self.gpu.serve)
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="nnjit-hub", daemon=True)
        self._changed = threading.Condition()
        self._page: PageConnection | None = None
        self._failure = ""
        self._closed = False
        self._cancels = 0
        self._waiting: set[concurrent.futures.Future[Frame]] = set()

    @property
    def origin(self) -> str:
        """Scheme, host and port. The port is open from here on: nobody needs it before."""
        with self._changed:
            if self._thread.ident is None and not self._closed:
                self._socket.listen()
                self._thread.start()
        return f"http://{self._host}"

    @property
    def url(self) -> str:
        """Address of the page; it holds the token, so keep it out of logs."""
        return f"{self.origin}/?token={self._token}"

    def close(self) -> None:
        """End the server, its thread and all requests; may be called again."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
        self.report_lost("The hub was closed.")
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._loop.close()
        self._socket.close()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def wait_for_page(self, timeout_s: float = 30.0) -> dict[str, Any]:
        """The ``hello`` of the page, as soon as it has connected.

        Raises
        ------
        TargetError
            When none connects in time, or what was to open it has failed.
        PageError
            When :meth:`cancel` is called.
        """
        with self._changed:
            cancels = self._cancels
            self._changed.wait_for(
                lambda: self._page is not None or self._failure or cancels != self._cancels,
                timeout_s,
            )
            if self._page is not None:
                return self._page.hello
            if cancels != self._cancels:
                raise PageError("cancelled")
            raise TargetError(
                self._failure or f"No page connected within {timeout_s:g} s.",
                "Run `nnjit doctor` to see what the target can do.",
            )

    def wait_for_return(self, timeout_s: float) -> dict[str, Any]:
        """The ``hello`` of the page that comes in place of one that was lost.

        Fails at once where nobody opens one, see :meth:`expect_page`.

        Raises
        ------
        PageLost
            When none comes, with the reason why the last one went.
        PageError
            When :meth:`cancel` is called.
        """
        with self._changed:
            cancels = self._cancels
            self._changed.wait_for(
                lambda: self._page or not self._page_comes or cancels != self._cancels, timeout_s
            )
            if self._page is not None:
                return self._page.hello
            if cancels != self._cancels:
                raise PageError("cancelled")
            raise PageLost(
                self._failure or f"The page did not come back within {timeout_s:g} s.", LOST_HINT
            )

    @property
    def cancels(self) -> int:
        """How often :meth:`cancel` was called."""
        return self._cancels

    def request(
        self,
        header: Mapping[str, Any],
        blobs: Sequence[Blob] = (),
        timeout_s: float = 60.0,
        cancels: int | None = None,
        on_part: PartCallback | None = None,
    ) -> Frame:
        """Send one request to the page and wait for its reply.

        Parameters
        ----------
        cancels
            :attr:`cancels` from before the caller's work began: a ``cancel``
            since then counts for this request too.
        on_part
            Called on the hub's thread for each message ``of`` the request.

        Raises
        ------
        RequestError
            When the page answers with an error.
        PageError
            When no page is there, it goes away, it does not answer in time,
            or :meth:`cancel` is called.
        """
        with self._changed:
            if cancels is not None and cancels != self._cancels:
                raise PageError("cancelled")
            if self._page is None:
                raise PageLost(self._failure or "No page is connected.", LOST_HINT)
            waiting = asyncio.run_coroutine_threadsafe(
                self._page.request(header, blobs, on_part), self._loop
            )
            self._waiting.add(waiting)
        try:
            return waiting.result(timeout_s)
        except concurrent.futures.TimeoutError as error:
            raise PageError(
                f"The page did not answer {header['type']!r} within {timeout_s:g} s.",
                "Close other heavy programs and start again.",
            ) from error
        except concurrent.futures.CancelledError as error:
            raise PageError("cancelled") from error
        finally:
            waiting.cancel()
            with self._changed:
                self._waiting.discard(waiting)

    def cancel(self) -> None:
        """Make every call that waits in :meth:`request` raise ``PageError("cancelled")``."""
        with self._changed:
            self._cancels += 1
            self._changed.notify_all()
            waiting = list(self._waiting)
        for future in waiting:
            future.cancel()

    def expect_page(self, comes: bool = True, lost: str = "") -> None:
        """Tell the hub whether somebody opens a page, also again after one was lost.

        ``lost`` is why the last one is gone, see :meth:`report_lost`.
        """
        if lost:
            self.report_lost(lost)
        with self._changed:
            self._page_comes = comes
            if comes:
                self._failure = ""
            self._changed.notify_all()

    def report_lost(self, reason: str) -> None:
        """Tell the hub from outside that the page is gone or will not come.

        For whoever opened the page and sees it end: the browser's supervisor,
        the embedded view. Waiting calls fail at once with ``reason``.
        """
        with self._changed:
            self._failure = reason
            page, self._page = self._page, None
            self._changed.notify_all()
        if page is not None and not self._loop.is_closed():
            # The loop may close in between; then there is nothing left to fail.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(page.fail, reason)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._server.serve(sockets=[self._socket]))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Do work on the hub's thread, for another server whose sockets :meth:`serve_page` gets.

        It has to end before :meth:`close`.
        """
        _ = self.origin  # starts the thread
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def serve_page(self, websocket: WebSocket) -> None:
        """The whole life of one WebSocket of a page that may speak; on the hub's thread."""
        page = PageConnection(websocket)
        try:
            await page.greet()
        except PageError as error:
            LOGGER.warning("%s", error)
            await page.close(CLOSE_PROTOCOL_ERROR, error.error)
            return
        with self._changed:
            welcome = self._page is None and not self._closed
            if welcome:
                self._page, self._failure = page, ""
                self.pages += 1
                self._changed.notify_all()
        if not welcome:
            await page.close(CLOSE_ANOTHER_PAGE, "Another page is connected to this hub.")
            return
        if self.on_page is not None:
            self.on_page()
        reason = ""
        try:
            await page.listen()
        except PageError as error:
            reason = page.lost or error.error
        finally:
            self._forget(page, reason or "The hub was closed.")
        await page.close(CLOSE_PROTOCOL_ERROR, reason)

    def _forget(self, page: PageConnection, reason: str) -> None:
        page.fail(reason)
        with self._changed:
            if self._page is page:
                self._page, self._failure = None, reason
                self._changed.notify_all()
            closed = self._closed
        if self.on_lost is not None and not closed:
            self.on_lost(reason)


def loopback_socket() -> socket.socket:
    """A port of this machine alone, on which nobody listens yet."""
    # asyncio switches Nagle's delay off only for sockets made with IPPROTO_TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.bind(("127.0.0.1", 0))
    return listener


def listening_socket() -> socket.socket:
    listener = loopback_socket()
    listener.listen()
    return listener


def make_server(app: ASGIApp, **settings: Any) -> uvicorn.Server:
    """No pings: they would end the connection of a page that works hard.

    ``settings`` are further ones of ``uvicorn.Config``, or others in place of these.
    """
    calm_logs()
    given: dict[str, Any] = {
        "loop": "asyncio",  # a faster one may be installed, which the rest was not tried on
        "http": BoundedHttp,
        "ws": CalmWebSocket,
        "lifespan": "off",
        "log_config": None,
        "log_level": "warning",  # below that uvicorn logs addresses with the token
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "ws_max_size": MAX_FRAME_BYTES,
        "ws_ping_interval": None,
        "ws_ping_timeout": None,
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": 1,
    }
    return uvicorn.Server(uvicorn.Config(app, **{**given, **settings}))
