"""Text in a window: a decoder that stays open, texts as events, each checked on request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.generation.beside import Spelling, Tokenizer, stop_tokens
from nnjit_studio.generation.texts import compare
from nnjit_studio.model import Generated, GenerationRequest, Sampling, Token
from nnjit_studio.records.backend import Backend
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import import_decoder
from nnjit_studio.workbench.page import EnginePage

CANCELLED = "cancelled"


@dataclass(frozen=True)
class TextRequest:
    """A text to make: the decoder's file, the prompt's ids, how to go on.

    With ``text`` the ids are made of it, by the tokenizer in the decoder's folder. Without stop
    tokens those of the configuration there are taken.
    """

    path: Path
    ids: tuple[int, ...]
    sampling: Sampling
    plans: GenerationRequest
    text: str = ""


class TextEvent:
    """What a text consists of: begun, tokens, ended."""


@dataclass(frozen=True)
class TextBegun(TextEvent):
    """``prefill_rows``: tokens of the prompt that are read at once; 0 for one after another."""

    request: TextRequest
    capacity: int
    prefill_rows: int


@dataclass(frozen=True)
class TokenMade(TextEvent):
    """``index`` counts the new tokens from 0; ``letters`` are new ones of a text in letters."""

    index: int
    token: Token
    letters: str = ""


@dataclass(frozen=True)
class TextEnded(TextEvent):
    """``memory_bytes`` is the engine's linear memory."""

    reason: str
    tokens: int
    memory_bytes: int


class TextSession:
    """Texts on a page that another model may have too; blocking, one call at a time."""

    def __init__(self, page: EnginePage) -> None:
        self._page = page
        self._model = ModelOnPage(page)
        self._key: tuple[Path, GenerationRequest, Backend] | None = None
        self._last: tuple[TextRequest, list[Token]] | None = None

    def forget(self) -> None:
        """The page has lost the decoder: the next text opens it again."""
        self._key = None

    def generate(self, request: TextRequest, on_phase: OnPhase) -> Iterator[TextEvent]:
        """Go on with a text until it ends, or the page is cancelled.

        Raises
        ------
        ModelError, UserError, PageError
            When the model is no decoder, saying what to export.
        """
        request, spelling = with_tokens(request)
        self._open(request, on_phase)
        facts = self._model.decoder
        rows = facts.rows if self._model.current.other_plans else 0
        yield TextBegun(request, facts.capacity, rows)
        on_phase("making text")
        yield from self._tokens(request, spelling)

    def check(self, on_phase: OnPhase) -> dict[str, Any]:
        """Compare the last text's tokens with the greedy choices of native ONNX Runtime.

        Returns
        -------
        dict
            See :func:`nnjit_studio.generation.texts.compare`.

        Raises
        ------
        ModelError, UserError
            Also when the last text was not greedy.
        """
        if self._last is None or not self._last[1]:
            raise UserError("There is no text to compare.", "Make one first.")
        request, made = self._last
        if not request.sampling.greedy:
            raise UserError(
                "Only greedy tokens can be compared.",
                "Set top-k and the repetition penalty to 1.",
            )
        page = self._page
        with (
            page.cancellable("The comparison", on_phase) as phase,
            page.compiler_killed_on_cancel(),
        ):
            phase("starting native ONNX Runtime")
            half = self._model.current.plan.half_cache
            page.process.native_decoder(request.path, request.ids, half)
            phase("following the text in native ONNX Runtime")
            return compare(made, page.process.native_tokens([t.id for t in made]))

    def _open(self, request: TextRequest, on_phase: OnPhase) -> None:
        """Have the decoder in the page, with the best kernels that are known."""
        page, model = self._page, self._model
        key = (request.path, request.plans, page.backend)
        with (
            page.cancellable("Making text", on_phase) as phase,
            page.compiler_killed_on_cancel(),
        ):
            page.hand_to(model)
            known, self._key = self._key, None  # until it is there, whatever fails
            if key != known:
                opened = import_decoder(page, request.path, request.plans, on_phase)
                model.load(opened, phase)
                model.adopt(opened)
            model.register_best(phase)
        self._key = key

    def _tokens(self, request: TextRequest, spelling: Spelling | None) -> Iterator[TextEvent]:
        made: list[Token] = []
        self._last = (request, made)
        stream = self._model.generate(request.ids, request.sampling)
        try:
            while not self._page.cancelled:
                try:
                    token = next(stream)
                except StopIteration as end:
                    ended: Generated = end.value
                    yield TextEnded(ended.reason, ended.tokens, ended.memory_bytes)
                    return
                made.append(token)
                letters = spelling.add(token.id) if spelling else ""
                yield TokenMade(len(made) - 1, token, letters)
        finally:
            stream.close()
        yield TextEnded(CANCELLED, len(made), self._page.runner.memory_bytes)


def with_tokens(request: TextRequest) -> tuple[TextRequest, Spelling | None]:
    """A request in token ids, and what spells new ones where it came in letters.

    Raises
    ------
    UserError
        When the prompt is empty, or there is no tokenizer for it.
    """
    spelling, ids, sampling = None, request.ids, request.sampling
    if request.text:
        tokenizer = Tokenizer(request.path)
        spelling, ids = Spelling(tokenizer), tuple(tokenizer.encode(request.text))
    if not ids:
        raise UserError("The prompt is empty.", "Give at least one token id.")
    if not sampling.stop_tokens:
        sampling = replace(sampling, stop_tokens=stop_tokens(request.path))
    return replace(request, ids=ids, sampling=sampling), spelling
