from __future__ import annotations

import http.client
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from fake_page import FakePage, dial, fake_page
from waiting import PATIENCE_S, until
from websockets.exceptions import ConnectionClosed, InvalidStatus

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.hub.web import security_headers
from nnjit_studio.engine.messages.connection import RequestError
from nnjit_studio.engine.messages.frames import MAX_FRAME_BYTES, encode_frame
from nnjit_studio.errors import PageError, TargetError


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def get(hub: Hub, path: str, host: str | None = None, **headers: str) -> http.client.HTTPResponse:
    parts = urlsplit(hub.origin)
    client = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=PATIENCE_S)
    fields = {"Host": host or parts.netloc, **{k.replace("_", "-"): v for k, v in headers.items()}}
    client.request("GET", path, headers=fields)
    response = client.getresponse()
    response.read()
    client.close()
    return response


def page_path(hub: Hub) -> str:
    return hub.url.removeprefix(hub.origin)


def test_listens_on_loopback_alone_without_nagle(hub: Hub) -> None:
    assert hub._socket.getsockname()[0] == "127.0.0.1"
    assert hub._socket.proto == socket.IPPROTO_TCP  # asyncio's condition for TCP_NODELAY
    assert hub._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_files_have_the_right_types(hub: Hub) -> None:
    response = get(hub, "/studio/frames.js")
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.js",
        "/../__init__.py",
        "/%2e%2e/__init__.py",
        "/..%2f__init__.py",
        "/studio/%2e%2e/__init__.py",
        "/studio/frames.py",
        "/studio/frames.js/",
        "/frames.js",
        "/types/gpu.js",
        "/studio/index.html/../main.js",
        "/bench/kernels.js",
        "/studio/frames.js%00.js",
        "/.js",
    ],
)
def test_serves_nothing_else(hub: Hub, path: str) -> None:
    assert get(hub, path).status == 404


def test_page_needs_the_token(hub: Hub) -> None:
    assert get(hub, "/").status == 403
    assert get(hub, "/?token=").status == 403
    assert get(hub, "/?token=wrong").status == 403
    assert get(hub, page_path(hub) + "&token=wrong").status == 403
    assert get(hub, page_path(hub)).status != 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "evil.example", "127.0.0.1:1"])
def test_any_other_host_is_refused(hub: Hub, host: str) -> None:
    assert get(hub, page_path(hub), host=host).status == 403
    assert get(hub, "/studio/frames.js", host=host).status == 403


def test_files_are_for_the_page_alone(hub: Hub) -> None:
    assert get(hub, "/studio/frames.js", Sec_Fetch_Site="same-origin").status == 200
    assert get(hub, "/studio/frames.js", Sec_Fetch_Site="cross-site").status == 403
    assert get(hub, "/studio/frames.js", Origin=hub.origin).status == 200
    assert get(hub, "/studio/frames.js", Origin="http://evil.example").status == 403


@pytest.mark.parametrize("path", ["/studio/frames.js", "/nothing", "/?token=wrong"])
def test_every_answer_has_the_security_headers(hub: Hub, path: str) -> None:
    response = get(hub, path)
    expected = security_headers(urlsplit(hub.origin).netloc)
    assert {name: response.headers[name] for name in expected} == expected
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert (
        f"connect-src 'self' ws://{urlsplit(hub.origin).netloc};"
        in expected["Content-Security-Policy"]
    )


def test_socket_needs_token_and_origin(hub: Hub) -> None:
    for path, origin in [
        ("/link", None),
        ("/link?token=wrong", None),
        ("/gpu", None),
        ("/gpu?token=wrong", None),
        ("/gpu?" + hub.url.partition("?")[2], "http://evil.example"),
        (None, "http://evil.example"),
        (None, hub.origin.replace("127.0.0.1", "localhost")),
        (None, "null"),
    ]:
        with pytest.raises(InvalidStatus) as refusal, dial(hub, path, origin):
            pass
        assert refusal.value.response.status_code == 403


def test_hello_comes_through(hub: Hub) -> None:
    with fake_page(hub):
        assert hub.wait_for_page(PATIENCE_S)["user_agent"] == "fake"


def test_second_page_is_refused_while_the_first_lives(hub: Hub) -> None:
    with fake_page(hub) as first:
        second = FakePage(hub)
        second._thread.join(PATIENCE_S)
        assert second.socket.close_code == 4001
        assert hub.request({"type": "probe"})[0]["type"] == "ok"
        assert len(first.seen) == 1
        assert second.seen == []
    until(lambda: hub._page is None)
    # Not through wait_for_page: until the next hello it tells that the first page is gone.
    third = FakePage(hub)
    until(lambda: hub._page is not None)
    assert hub.request({"type": "probe"})[0]["type"] == "ok"
    third.close()


@pytest.mark.parametrize(
    "data",
    [
        "text",
        b"\x00",
        encode_frame({"type": "log", "text": "before hello"}),
        encode_frame({"type": "hello", "protocol": 2}),
    ],
)
def test_bad_first_frame_is_no_page(hub: Hub, data: str | bytes) -> None:
    with dial(hub) as client:
        client.send(data)
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=PATIENCE_S)
        assert client.close_code == 1002
    with pytest.raises(TargetError, match="No page connected"):
        hub.wait_for_page(0.05)


def test_replies_find_their_requests_out_of_order(hub: Hub) -> None:
    waiting: list[dict[str, Any]] = []

    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        waiting.append(header)
        if len(waiting) == 3:
            for request in reversed(waiting):
                page.reply(
                    request, {"type": "ok", "echo": request["mark"]}, [b"%d" % request["mark"]]
                )

    with fake_page(hub, answer), ThreadPoolExecutor(3) as pool:
        marks = [10, 20, 30]
        replies = list(pool.map(lambda m: hub.request({"type": "x", "mark": m}), marks))
    assert [header["echo"] for header, _ in replies] == marks
    assert [bytes(blobs[0]) for _, blobs in replies] == [b"10", b"20", b"30"]


def test_error_reply_is_raised_with_its_hint_and_the_page_lives_on(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        bad = {"type": "error", "error": "No such thing.", "hint": "Try another."}
        page.reply(header, bad if header["type"] == "bad" else {"type": "ok"})

    with fake_page(hub, answer):
        with pytest.raises(RequestError) as caught:
            hub.request({"type": "bad"})
        assert (caught.value.error, caught.value.hint) == ("No such thing.", "Try another.")
        assert hub.request({"type": "good"})[0]["type"] == "ok"


def test_page_lost_in_the_middle_fails_all_that_wait_at_once() -> None:
    lost: list[str] = []
    both = threading.Barrier(3)
    with Hub() as hub:
        hub.on_lost = lost.append
        page = FakePage(hub, lambda page, header, blobs: None)
        hub.wait_for_page(PATIENCE_S)

        def ask(_: int) -> str:
            both.wait(PATIENCE_S)
            with pytest.raises(PageError) as caught:
                hub.request({"type": "x"}, timeout_s=60)
            return caught.value.error

        with ThreadPoolExecutor(2) as pool:
            answers = pool.map(ask, range(2))
            both.wait(PATIENCE_S)
            until(lambda: len(page.seen) == 2)
            page.close()
            assert set(answers) == {"The page closed its connection."}
        until(lambda: lost)
        assert lost == ["The page closed its connection."]
        with pytest.raises(PageError, match="closed its connection"):
            hub.request({"type": "x"})
        with pytest.raises(TargetError, match="closed its connection"):
            hub.wait_for_page(60)


def test_malformed_frame_ends_the_page(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        page.socket.send(b"\xff\xff\xff\xff\x00\x00\x00\x00")

    with fake_page(hub, answer) as page:
        with pytest.raises(PageError, match="malformed"):
            hub.request({"type": "x"})
        page._thread.join(PATIENCE_S)
        assert page.socket.close_code == 1002


def test_oversized_frame_ends_the_page(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        page.socket.send(bytes(MAX_FRAME_BYTES + 8))

    with fake_page(hub, answer) as page:
        with pytest.raises(PageError, match="closed"):
            hub.request({"type": "x"}, timeout_s=60)
        page._thread.join(PATIENCE_S)
        # A client that is still sending may see the connection end before the close frame.
        assert page.socket.close_code in (1009, 1006)


def test_too_large_a_request_is_refused_and_the_page_lives_on(hub: Hub) -> None:
    with fake_page(hub) as page:
        with pytest.raises(PageError, match="too large"):
            hub.request({"type": "x"}, [bytes(MAX_FRAME_BYTES)])
        assert hub.request({"type": "y"})[0]["type"] == "ok"
        assert [header["type"] for header, _ in page.seen] == ["y"]


def test_silent_page_times_out_and_its_late_reply_is_ignored(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        if header["type"] != "slow":
            page.reply(page.seen[0][0], {"type": "ok", "late": True})
            page.reply(header, {"type": "ok", "late": False})

    with fake_page(hub, answer) as page:
        while not page.seen:  # one that ends before it was sent says nothing of a late reply
            with pytest.raises(PageError, match=r"did not answer 'slow' within 0\.05 s"):
                hub.request({"type": "slow"}, timeout_s=0.05)
        assert hub.request({"type": "x"})[0]["late"] is False


def test_cancel_frees_all_that_wait(hub: Hub) -> None:
    with fake_page(hub, lambda page, header, blobs: None) as page, ThreadPoolExecutor(1) as pool:
        call = pool.submit(hub.request, {"type": "x"})
        until(lambda: page.seen)
        hub.cancel()
        with pytest.raises(PageError, match=r"^cancelled$"):
            call.result(PATIENCE_S)


def test_cancel_before_a_request_counts_where_the_caller_says_so(hub: Hub) -> None:
    with fake_page(hub):
        before = hub.cancels
        hub.cancel()
        with pytest.raises(PageError, match=r"^cancelled$"):
            hub.request({"type": "x"}, cancels=before)
        assert hub.request({"type": "x"}, cancels=hub.cancels)[0]["type"] == "ok"


def test_log_messages_reach_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "nnjit.page")
    with Hub() as hub, fake_page(hub) as page:
        page.send({"type": "log", "level": "unheard of", "text": "100 % slow"})
        page.send({"type": "log", "level": "debug", "text": "fine"})
        until(lambda: ("nnjit.page", logging.DEBUG, "fine") in caplog.record_tuples)
    assert ("nnjit.page", logging.WARNING, "100 % slow") in caplog.record_tuples


def test_whoever_opens_the_page_can_say_that_none_will_come(hub: Hub) -> None:
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(hub.wait_for_page, 60)
        hub.report_lost("The browser ended.")
        with pytest.raises(TargetError, match="The browser ended"):
            call.result(PATIENCE_S)


def test_a_wait_for_the_page_can_be_cancelled(hub: Hub) -> None:
    waiting, waits = threading.Event(), hub._changed.wait

    def wait(seconds: float | None = None) -> bool:
        waiting.set()  # who cancels now gets the lock once the wait has begun
        return waits(seconds)

    hub._changed.wait = wait  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(hub.wait_for_page, 2 * PATIENCE_S)
        assert waiting.wait(PATIENCE_S)
        hub.cancel()
        with pytest.raises(PageError, match="cancelled"):
            call.result(PATIENCE_S)


def test_close_ends_everything_and_may_be_called_again() -> None:
    before = set(threading.enumerate())
    hub = Hub()
    page = FakePage(hub, lambda page, header, blobs: None)
    hub.wait_for_page(PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(hub.request, {"type": "x"})
        until(lambda: page.seen)
        hub.close()
        with pytest.raises(PageError, match="hub was closed"):
            call.result(PATIENCE_S)
    hub.close()
    page.close()
    until(lambda: set(threading.enumerate()) <= before)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(hub.origin).port or 0), timeout=60)


def test_a_hub_that_never_started_can_be_closed() -> None:
    hub = Hub()
    hub.close()
    hub.close()
    assert hub._socket.fileno() == -1
