"""A connection to a browser's DevTools protocol: commands, events, and sessions of its pages."""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from nnjit_studio.errors import PageError, TargetError

SWITCHES = ("--remote-debugging-port=0",)
"""Chromium takes a free port of 127.0.0.1 and writes it into its profile; while the browser runs,
every user of this machine could speak to it."""
_PORT_FILE = "DevToolsActivePort"
_START_S = 30.0

EventCallback = Callable[[str, str, Mapping[str, Any]], None]
"""Gets session, method and parameters of an event, on the connection's thread."""


class DevTools:
    """Commands to a browser, and events from it; one session for each page or worker.

    Any thread but the connection's own may give commands, so not the callback.
    """

    def __init__(self, socket: ClientConnection, on_event: EventCallback) -> None:
        self._socket = socket
        self._on_event = on_event
        self._ids = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._thread = threading.Thread(target=self._listen, name="nnjit-devtools", daemon=True)
        self._thread.start()

    def call(
        self, method: str, session: str = "", timeout_s: float = 60.0, **parameters: Any
    ) -> dict[str, Any]:
        """The result of a command.

        Raises
        ------
        PageError
            When the browser refuses it, does not answer in time, or is gone.
        """
        number = next(self._ids)
        answers = self._answers[number] = queue.Queue()
        self.send(method, session, number, **parameters)
        try:
            answer = answers.get(timeout=timeout_s)
        except queue.Empty:
            raise PageError(f"The browser did not answer {method} in {timeout_s:.0f} s.") from None
        finally:
            del self._answers[number]
        if "error" in answer:
            raise PageError(f"The browser refused {method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def send(self, method: str, session: str = "", number: int = 0, **parameters: Any) -> None:
        """Give a command without waiting for its result; the callback may."""
        message = {"id": number or next(self._ids), "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        try:
            self._socket.send(json.dumps(message))
        except ConnectionClosed as error:
            raise PageError("The browser closed its DevTools connection.") from error

    def close(self) -> None:
        self._socket.close()
        self._thread.join()

    def _listen(self) -> None:
        try:
            for text in self._socket:
                message = json.loads(text)
                waiting = self._answers.get(message.get("id", 0))
                if waiting is not None:
                    waiting.put(message)
                elif "method" in message:
                    session = message.get("sessionId", "")
                    self._on_event(session, message["method"], message["params"])
        except (ConnectionClosed, PageError):
            pass  # those who wait are told below
        for waiting in list(self._answers.values()):
            waiting.put({"error": {"message": "the connection was closed"}})


@contextmanager
def devtools(profile: Path, on_event: EventCallback) -> Iterator[DevTools]:
    """Connect to the browser that was started with :data:`SWITCHES` and this profile.

    Raises
    ------
    TargetError
        When it does not open its port in time.
    """
    address = _address(profile / _PORT_FILE)
    with connect(address, max_size=None, compression=None, open_timeout=_START_S) as socket:
        connection = DevTools(socket, on_event)
        try:
            yield connection
        finally:
            connection.close()


def _address(file: Path) -> str:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise TargetError(
        f"The browser opened no DevTools port within {_START_S:.0f} s.",
        "Only Chromium and its relatives have one.",
    )
