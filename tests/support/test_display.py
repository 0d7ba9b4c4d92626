"""A display counts when it answers, not when a variable names it."""

from __future__ import annotations

import contextlib
import ctypes.util
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnjit_studio.support import display

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's displays")
has_xcb = pytest.mark.skipif(ctypes.util.find_library("xcb") is None, reason="libxcb is missing")

LET_IN = struct.pack("<BxHHH", 1, 11, 0, 8) + bytes(32)
REFUSED = struct.pack("<BBHHH", 0, 4, 11, 0, 1) + b"no!\n"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def x_server(says: bytes) -> Iterator[str]:
    """The display of a server that says this to its first client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(4096)
                client.sendall(says)
                client.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1] - 6000}"
        thread.join()


def test_without_variables_there_is_none() -> None:
    assert display.named() == display.answering() == {}
    assert display.unanswered() == ""


def test_displays_that_are_gone_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":57077")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-77")
    assert display.answering() == {}
    assert display.unanswered() == "WAYLAND_DISPLAY=wayland-77, DISPLAY=:57077"
    monkeypatch.setenv("DISPLAY", "no display's name")
    assert display.answering() == {}


@has_xcb
@pytest.mark.parametrize(
    ("says", "answers"), [(LET_IN, True), (REFUSED, False)], ids=["let in", "refused"]
)
def test_a_server_must_let_us_in(
    says: bytes, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with x_server(says) as name:
        monkeypatch.setenv("DISPLAY", name)
        assert display.answering() == ({"DISPLAY": "xcb"} if answers else {})


def test_a_compositor_listens_on_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "wayland-9"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        for name in (path.name, str(path)):
            monkeypatch.setenv("WAYLAND_DISPLAY", name)
            assert display.answering() == {"WAYLAND_DISPLAY": "wayland"}
    assert display.answering() == {}, "the socket outlives its server"
    monkeypatch.setenv("WAYLAND_DISPLAY", "x" * 200)
    assert display.answering() == {}
