"""A text from the page: parts of one reply, over a page whose answers the test writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_page import FakePage, fake_page

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.errors import PageError
from nnjit_studio.model import Generated, Generation, Sampling, Token

FACTS = Generation(16, 4, "ids", "mask", "logits", "positions", "slot", "last")
SAMPLING = Sampling(3, top_k=5, temperature=0.5, seed=7, stop_tokens=(2,))


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def token(page: FakePage, request: dict[str, Any], number: int) -> None:
    page.send({"type": "token", "of": request["id"], "token": number, "ms": 2.5, "margin": 0.25})


def ended(page: FakePage, request: dict[str, Any], reason: str) -> None:
    fields = {"type": "generated", "made": 3, "reason": reason, "memory_bytes": 65536}
    page.reply(request, fields)


def text(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
    for number in (4, 5, 6):
        token(page, header, number)
    ended(page, header, "length")


def drain(stream: Any) -> tuple[list[Token], Generated]:
    tokens = []
    while True:
        try:
            tokens.append(next(stream))
        except StopIteration as end:
            return tokens, end.value


def test_tokens_come_in_order_and_the_text_has_an_end(hub: Hub) -> None:
    with fake_page(hub, text) as page:
        tokens, end = drain(PageRunner(hub, "fake").generate(FACTS, [1, 2], SAMPLING))
    assert tokens == [Token(number, 2.5, 0.25) for number in (4, 5, 6)]
    assert end == Generated(3, "length", 65536)
    ((header, _),) = page.seen
    assert Generation(**header["facts"]) == FACTS
    wanted = {"ids": [1, 2], "max_tokens": 3, "top_k": 5, "temperature": 0.5, "seed": 7}
    assert wanted.items() <= header.items()
    assert header["stop_tokens"] == [2]


def test_a_text_that_is_left_is_ended_in_the_page(hub: Hub) -> None:
    running: list[dict[str, Any]] = []

    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        if header["type"] == "generate":
            running.append(header)
            token(page, header, 4)
        elif header["type"] == "generate_stop":
            page.reply(header, {"type": "ok"})
            ended(page, running[0], "cancelled")
        else:
            page.reply(header, {"type": "ok"})

    with fake_page(hub, answer) as page:
        runner = PageRunner(hub, "fake")
        stream = runner.generate(FACTS, [1], SAMPLING)
        assert next(stream).id == 4
        stream.close()
        assert [h["type"] for h, _ in page.seen] == ["generate", "generate_stop"]
        runner.register([])  # its turn is free again
    assert not any(t.name == "nnjit-tokens" for t in threading.enumerate())


def test_an_error_of_the_page_ends_the_text(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        token(page, header, 4)
        page.reply(header, {"type": "error", "error": "The prompt is empty.", "hint": "Fill it."})

    with fake_page(hub, answer):
        stream = PageRunner(hub, "fake").generate(FACTS, [1], SAMPLING)
        next(stream)
        with pytest.raises(PageError, match="prompt is empty"):
            next(stream)


def test_silence_is_an_error(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        if header["type"] == "generate_stop":
            page.reply(header, {"type": "ok"})

    with fake_page(hub, answer):
        stream = PageRunner(hub, "fake", timeout_s=0.2).generate(FACTS, [1], SAMPLING)
        with pytest.raises(PageError, match=r"no token within 0\.2 s"):
            next(stream)


def test_parts_of_another_request_are_nobodys(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        page.send({"type": "token", "of": 999, "token": 1, "ms": 1.0, "margin": 1.0})
        text(page, header, blobs)

    with fake_page(hub, answer):
        tokens, _ = drain(PageRunner(hub, "fake").generate(FACTS, [1], SAMPLING))
    assert [t.id for t in tokens] == [4, 5, 6]
