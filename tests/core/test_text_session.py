"""Texts as events: the page is borrowed, kept while nobody else needs it, and given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from profiles import GRAPH, PLAN

from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.generation import session as text_session
from nnjit_studio.generation.session import (
    TextBegun,
    TextEnded,
    TextRequest,
    TextSession,
    TokenMade,
    why_no_decoder,
)
from nnjit_studio.model import Generated, GenerationRequest, Graph, Sampling, TensorSpec, Token
from nnjit_studio.workbench import Workbench


class Page:
    memory_bytes = 7

    def __init__(self) -> None:
        self.plan: Any = None

    def holds(self, plan: Any) -> bool:
        return self.plan is plan

    def cancel(self) -> None:
        pass


class Generator:
    """Token ids 10, 11, ...; what it was asked stands in ``calls``."""

    calls: ClassVar[list[str]] = []
    error: Exception | None = None

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        facts = SimpleNamespace(rows=128, capacity=64)
        self.opened = SimpleNamespace(facts=facts, decode=SimpleNamespace(plan=PLAN), prefill=None)

    def open(self, path: Path, request: GenerationRequest, on_phase: Any) -> None:
        self.calls.append("open")
        if self.error:
            raise self.error
        self.load(on_phase)

    def load(self, on_phase: Any) -> None:
        self.calls.append("load")
        self.bench.runner.plan = PLAN

    def register_best(self) -> None:
        self.calls.append("register")

    def generate(self, ids: Any, sampling: Sampling) -> Any:
        try:
            for i in range(sampling.max_tokens):
                yield Token(10 + i, 1.0, 0.5)
            return Generated(sampling.max_tokens, "length", 9)
        finally:
            self.calls.append("closed")

    def close(self) -> None:
        self.calls.append("gone")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "k.db")
    monkeypatch.setattr(made, "runner", Page())
    monkeypatch.setattr(text_session, "TextGenerator", Generator)
    monkeypatch.setattr(Generator, "calls", [])
    monkeypatch.setattr(Generator, "error", None)
    yield made
    made.close()


def request(tokens: int = 3, top_k: int = 1, path: str = "d.onnx") -> TextRequest:
    return TextRequest(Path(path), (1, 2), Sampling(tokens, top_k), GenerationRequest())


def silent(phase: str) -> None:
    pass


def test_a_text_is_begun_made_and_ended(bench: Workbench) -> None:
    begun, *tokens, ended = TextSession(bench).generate(request(), silent)
    assert begun == TextBegun(request(), 64, 0), "it has no prefill plan"
    assert [t.token.id for t in tokens if isinstance(t, TokenMade)] == [10, 11, 12]
    assert ended == TextEnded("length", 3, 9)
    assert Generator.calls == ["open", "load", "register", "closed"]


def test_the_next_text_opens_only_what_the_page_has_not(bench: Workbench) -> None:
    texts = TextSession(bench)
    list(texts.generate(request(), silent))
    Generator.calls.clear()
    list(texts.generate(request(5), silent))
    assert Generator.calls == ["register", "closed"]
    bench.runner.plan = None
    Generator.calls.clear()
    list(texts.generate(request(), silent))
    assert Generator.calls == ["load", "register", "closed"], "somebody else had the page"
    Generator.calls.clear()
    list(texts.generate(request(path="e.onnx"), silent))
    assert Generator.calls[0] == "open", "another file"
    Generator.calls.clear()
    texts.forget()
    list(texts.generate(request(path="e.onnx"), silent))
    assert Generator.calls[0] == "open", "the page was lost"
    texts.close()
    assert Generator.calls[-1] == "gone"


def test_a_cancel_ends_the_text_in_the_page_too(bench: Workbench) -> None:
    events = TextSession(bench).generate(request(1000), silent)
    assert isinstance(next(events), TextBegun) and isinstance(next(events), TokenMade)
    bench.cancel()
    assert list(events) == [TextEnded("cancelled", 1, 7)]
    assert Generator.calls[-1] == "closed"


def test_what_is_no_decoder_is_told_and_tried_anew(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = TextSession(bench)
    monkeypatch.setattr(Generator, "error", ModelError("No past.", "Export it."))
    for _ in range(2):
        with pytest.raises(ModelError, match="No past"):
            list(texts.generate(request(), silent))
    assert Generator.calls == ["open", "open"]
    with pytest.raises(UserError, match="prompt is empty"):
        empty = TextRequest(Path("d.onnx"), (), Sampling(1), GenerationRequest())
        list(texts.generate(empty, silent))


def test_only_greedy_texts_are_compared(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = TextSession(bench)
    with pytest.raises(UserError, match="no text"):
        texts.check(silent)
    list(texts.generate(request(top_k=5), silent))
    with pytest.raises(UserError, match="Only greedy"):
        texts.check(silent)
    list(texts.generate(request(), silent))
    asked: list[Any] = []
    monkeypatch.setattr(bench.compiler, "native_decoder", lambda *a: asked.append(a))
    choices = [(10, 0.0), (99, 1e-6), (98, 0.5)]
    monkeypatch.setattr(bench.compiler, "native_tokens", lambda ids: choices)
    found = texts.check(silent)
    assert (found["same"], found["ties"], found["wrong"]) == (1, 1, 1)
    assert asked == [(Path("d.onnx"), (1, 2))]


def test_a_graph_without_room_for_a_past_is_known_for_none() -> None:
    assert "past keys and values. Export the decoder" in why_no_decoder(GRAPH)
    past = TensorSpec("past", (1, 2, 7, 8), "f32")
    decoder = Graph("d", ("past",), (), (), {"past": past})
    assert why_no_decoder(decoder) == ""
