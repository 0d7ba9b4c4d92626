"""What programs without a token can cost the hub."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import uvicorn
from test_hub import get
from uvicorn.server import ServerState
from waiting import PATIENCE_S, until
from websockets.protocol import State

from nnjit_studio.engine.hub import limits
from nnjit_studio.engine.hub.hub import Hub


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def connection(hub: Hub) -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", urlsplit(hub.origin).port or 0), timeout=PATIENCE_S
    )


def closed(client: socket.socket) -> bool:
    """Whether the hub ended the connection, with or without an answer."""
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_no_port_is_open_before_somebody_asks_for_the_address() -> None:
    with Hub() as hub:
        port = hub._socket.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        assert hub.url
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_headers_have_a_deadline(hub: Hub, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEADER_S", 0.3)
    with connection(hub) as client:
        client.sendall(begun)
        assert closed(client)


def test_headers_of_a_later_request_have_one_too(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub._server.config.timeout_keep_alive = 10**6  # uvicorn's own for idle connections
    with connection(hub) as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"403" in client.recv(4096)
        monkeypatch.setattr(limits, "HEADER_S", 0.3)
        client.sendall(b"GET /x HT")
        assert closed(client)


def test_idle_connections_do_not_take_the_descriptors(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "HEADER_S", 2.0)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connection(hub)) for _ in range(300)]
        until(lambda: len(hub._server.server_state.connections) <= limits.MAX_CONNECTIONS)
        assert all(map(closed, clients))
        assert get(hub, "/studio/frames.js").status == 200
    assert not caplog.records


def test_a_repeated_message_is_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    limits.calm_logs()
    limits.calm_logs()
    logger = logging.getLogger("uvicorn.error")
    for _ in range(1000):
        logger.warning("Invalid HTTP request received.")
    assert 1 <= len(caplog.records) <= 3


def test_a_server_ends_while_the_other_side_closes_its_socket() -> None:
    """The state that `Door.close` met when a device's browser was leaving."""
    ended: list[str] = []
    state = ServerState()
    config = uvicorn.Config(lambda *_: None, log_config=None)  # type: ignore[arg-type,return-value]
    loop = asyncio.new_event_loop()
    try:
        ours = limits.CalmWebSocket(config, state, {}, loop)
        ours.transport = SimpleNamespace(close=lambda: ended.append("closed"))  # type: ignore[assignment]
        ours.handshake_complete = True
        ours.conn.state = State.CLOSING
        ours.shutdown()
    finally:
        loop.close()
    assert ended == ["closed"]
