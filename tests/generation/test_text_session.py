"""Texts as events: the page is borrowed, kept while nobody else needs it, and given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from profiles import DEVICE, GRAPH, PLAN

from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.generation.prompts import why_no_decoder
from nnjit_studio.generation.session import (
    TextBegun,
    TextEnded,
    TextRequest,
    TextSession,
    TokenMade,
    with_tokens,
)
from nnjit_studio.model import (
    Generated,
    Generation,
    GenerationRequest,
    Graph,
    Sampling,
    TensorSpec,
    Token,
)
from nnjit_studio.workbench import OpenModel, Workbench


class Page:
    """A runner that keeps what it was asked in ``calls``; token ids 10, 11, ..."""

    memory_bytes = 7

    def __init__(self) -> None:
        self.plan: Any = None
        self.calls: list[str] = []

    def holds(self, plan: Any) -> bool:
        return self.plan is plan

    def load(self, plan: Any, weights: Path, others: Any, mixed: None) -> None:
        self.calls.append("load")
        self.plan = plan

    def register(self, kernels: Any, only: bool) -> None:
        assert only, "kernels of another text may hold the weights in other panels"
        self.calls.append("register")

    def generate(self, facts: Generation, ids: Any, sampling: Sampling) -> Any:
        try:
            for i in range(sampling.max_tokens):
                yield Token(10 + i, 1.0, 0.5)
            return Generated(sampling.max_tokens, "length", 9)
        finally:
            self.calls.append("closed")

    def cancel(self) -> None:
        pass


class Files:
    """Imports any file as a decoder, unless there is an ``error``."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.error: Exception | None = None

    def import_generation(
        self, path: Path, weights: Path, request: GenerationRequest, on_phase: Any
    ) -> tuple[Generation, list[ImportedModel]]:
        self.page.calls.append("open")
        if self.error:
            raise self.error
        program = ImportedModel(GRAPH, (), replace(PLAN, steps=()), frozenset(), weights)
        return Generation(64, 128, "ids", "mask", "logits"), [program]


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.fixture
def files(page: Page) -> Files:
    return Files(page)


@pytest.fixture
def bench(
    tmp_path: Path, page: Page, files: Files, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "k.db")
    made.page.device = DEVICE
    monkeypatch.setattr(made.page, "runner", page)
    monkeypatch.setattr(made.process, "import_generation", files.import_generation)
    yield made
    made.close()


def request(tokens: int = 3, top_k: int = 1, path: str = "d.onnx") -> TextRequest:
    return TextRequest(Path(path), (1, 2), Sampling(tokens, top_k), GenerationRequest())


def silent(phase: str) -> None:
    pass


def test_a_text_is_begun_made_and_ended(bench: Workbench, page: Page) -> None:
    begun, *tokens, ended = TextSession(bench.page).generate(request(), silent)
    assert begun == TextBegun(request(), 64, 0), "it has no prefill plan"
    assert [t.token.id for t in tokens if isinstance(t, TokenMade)] == [10, 11, 12]
    assert ended == TextEnded("length", 3, 9)
    assert page.calls == ["open", "load", "register", "closed"]


def test_the_next_text_opens_only_what_the_page_has_not(bench: Workbench, page: Page) -> None:
    texts = TextSession(bench.page)
    list(texts.generate(request(), silent))
    page.calls.clear()
    list(texts.generate(request(5), silent))
    assert page.calls == ["register", "closed"]
    page.plan = None
    page.calls.clear()
    list(texts.generate(request(), silent))
    assert page.calls == ["load", "register", "closed"], "somebody else had the page"
    page.calls.clear()
    list(texts.generate(request(path="e.onnx"), silent))
    assert page.calls[0] == "open", "another file"
    page.calls.clear()
    texts.forget()
    list(texts.generate(request(path="e.onnx"), silent))
    assert page.calls[0] == "open", "the page was lost"


def test_the_other_model_leaves_the_page_and_is_loaded_again(bench: Workbench, page: Page) -> None:
    program = ImportedModel(GRAPH, (), PLAN, frozenset(), Path("w.bin"))
    bench.model.adopt(OpenModel.static(Path("m.onnx"), program))
    bench.model.registered = True
    list(TextSession(bench.page).generate(request(), silent))
    assert not bench.model.registered
    bench.model.take_page()
    assert page.plan is PLAN


def test_a_cancel_ends_the_text_in_the_page_too(bench: Workbench, page: Page) -> None:
    events = TextSession(bench.page).generate(request(1000), silent)
    assert isinstance(next(events), TextBegun) and isinstance(next(events), TokenMade)
    bench.page.cancel()
    assert list(events) == [TextEnded("cancelled", 1, 7)]
    assert page.calls[-1] == "closed"


def test_what_is_no_decoder_is_told_and_tried_anew(
    bench: Workbench, page: Page, files: Files
) -> None:
    texts = TextSession(bench.page)
    files.error = ModelError("No past.", "Export it.")
    for _ in range(2):
        with pytest.raises(ModelError, match="No past"):
            list(texts.generate(request(), silent))
    assert page.calls == ["open", "open"]
    with pytest.raises(UserError, match="prompt is empty"):
        empty = TextRequest(Path("d.onnx"), (), Sampling(1), GenerationRequest())
        list(texts.generate(empty, silent))


def test_only_greedy_texts_are_compared(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = TextSession(bench.page)
    with pytest.raises(UserError, match="no text"):
        texts.check(silent)
    list(texts.generate(request(top_k=5), silent))
    with pytest.raises(UserError, match="Only greedy"):
        texts.check(silent)
    list(texts.generate(request(), silent))
    asked: list[Any] = []
    monkeypatch.setattr(bench.process, "native_decoder", lambda *a: asked.append(a))
    choices = [(10, 0.0), (99, 1e-6), (98, 0.5)]
    monkeypatch.setattr(bench.process, "native_tokens", lambda ids: choices)
    found = texts.check(silent)
    assert (found["same"], found["ties"], found["wrong"]) == (1, 1, 1)
    assert asked == [(Path("d.onnx"), (1, 2), False)]


def test_a_graph_without_room_for_a_past_is_known_for_none() -> None:
    assert "past keys and values. Export the decoder" in why_no_decoder(GRAPH)
    past = TensorSpec("past", (1, 2, 7, 8), "f32")
    decoder = Graph("d", ("past",), (), (), {"past": past})
    assert why_no_decoder(decoder) == ""


def test_words_become_ids_and_the_files_of_the_folder_count(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    library = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"a": 4, "b": 6, "?": 0}, unk_token="?")
    )
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [6]}')
    words = replace(request(path=str(tmp_path / "d.onnx")), ids=(), text="a b a")
    whole, spelling = with_tokens(words)
    assert (whole.ids, whole.sampling.stop_tokens) == ((4, 6, 4), (6,))
    assert spelling is not None and spelling.add(4) == "a"
    own = replace(words, sampling=Sampling(3, stop_tokens=(1,)))
    assert with_tokens(own)[0].sampling.stop_tokens == (1,)
