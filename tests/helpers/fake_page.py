"""A page without a browser: a WebSocket client whose answers the test writes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from waiting import PATIENCE_S
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.frames import Frame, decode_frame, encode_frame

Answer = Callable[["FakePage", dict[str, Any], list[memoryview]], None]


class FakePage:
    """Says hello, keeps all requests in ``seen`` and lets ``answer`` answer them."""

    def __init__(self, hub: Hub, answer: Answer | None = None) -> None:
        self.seen: list[Frame] = []
        self._closing = contextlib.ExitStack()
        self.socket: ClientConnection = self._closing.enter_context(dial(hub))
        self._answer = answer or (lambda page, header, blobs: page.reply(header, {"type": "ok"}))
        self.send({"type": "hello", "protocol": 1, "user_agent": "fake"})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def send(self, header: dict[str, Any], blobs: Any = ()) -> None:
        self.socket.send(encode_frame(header, blobs))

    def reply(self, request: dict[str, Any], header: dict[str, Any], blobs: Any = ()) -> None:
        self.send({**header, "id": request["id"]}, blobs)

    def close(self) -> None:
        self._closing.close()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            for data in self.socket:
                assert isinstance(data, bytes)
                header, blobs = decode_frame(data)
                self.seen.append((header, blobs))
                self._answer(self, header, blobs)


class Line:
    """A lock that counts how many came to it, to stand in a runner."""

    def __init__(self) -> None:
        self.came = 0
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self.came += 1
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


@contextlib.contextmanager
def fake_page(hub: Hub, answer: Answer | None = None) -> Iterator[FakePage]:
    page = FakePage(hub, answer)
    try:
        hub.wait_for_page(PATIENCE_S)
        yield page
    finally:
        page.close()


def dial(hub: Hub, path: str | None = None, origin: str | None = None) -> Any:
    """A raw WebSocket to the hub; the right path and origin where none is given."""
    path = "/link?" + hub.url.partition("?")[2] if path is None else path
    return connect(
        hub.origin.replace("http", "ws") + path,
        origin=hub.origin if origin is None else origin,  # type: ignore[arg-type]
        compression=None,
        max_size=None,
    )
