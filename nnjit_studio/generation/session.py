"""Text in a window: a decoder that stays open, texts as events, each checked on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.generation.generator import TextGenerator, compare
from nnjit_studio.model import Generated, GenerationRequest, Graph, Sampling, Token
from nnjit_studio.records.backend import Backend
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.open_model import killed_on_cancel

OnPhase = Callable[[str], None]
CANCELLED = "cancelled"

EXPORT = (
    "Export the decoder with past keys and values, an attention mask and position ids, "
    "as optimum's text-generation-with-past task does."
)


@dataclass(frozen=True)
class TextRequest:
    """A text to make: the decoder's file, the prompt's ids, how to go on."""

    path: Path
    ids: tuple[int, ...]
    sampling: Sampling
    plans: GenerationRequest


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
    """``index`` counts the new tokens from 0."""

    index: int
    token: Token


@dataclass(frozen=True)
class TextEnded(TextEvent):
    """``memory_bytes`` is the engine's linear memory."""

    reason: str
    tokens: int
    memory_bytes: int


def read_ids(path: Path) -> list[int]:
    """Token ids from a file, divided by commas or white space.

    Raises
    ------
    UserError
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UserError(f"{str(path)!r} cannot be read.", "Choose a text file of ids.") from e
    return parse_ids(text, path.name)


def parse_ids(text: str, where: str) -> list[int]:
    """Token ids, divided by commas or white space; ``where`` they stand is for the error.

    Raises
    ------
    UserError
    """
    try:
        ids = [int(part) for part in text.replace(",", " ").split()]
    except ValueError as e:
        raise UserError(f"{where} holds something else than numbers: {e}.", "Write 1,2,3.") from e
    if any(i < 0 for i in ids):
        raise UserError(f"{where} holds a negative number.", "Token ids start at 0.")
    return ids


def why_no_decoder(graph: Graph) -> str:
    """A sentence where no input of a graph can hold past keys or values; empty where one may."""
    specs = [graph.tensors[name] for name in graph.inputs]
    if any(len(s.shape) == 4 and s.dtype in ("f32", "f16") for s in specs):
        return ""
    return f"{graph.name} is no decoder with past keys and values. {EXPORT}"


class TextSession:
    """Borrows the page of a workbench for a decoder; blocking, one call at a time."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._generator: TextGenerator | None = None
        self._key: tuple[Path, GenerationRequest, Backend] | None = None
        self._last: tuple[TextRequest, list[Token]] | None = None

    def close(self) -> None:
        """Take the decoder's files away."""
        self.forget()
        if self._generator is not None:
            self._generator.close()
            self._generator = None

    def forget(self) -> None:
        """The page has lost the decoder: the next text opens it again."""
        self._key = None

    def generate(self, request: TextRequest, on_phase: OnPhase) -> Iterator[TextEvent]:
        """Go on with a text until it ends, or the workbench is cancelled.

        Raises
        ------
        ModelError, UserError, PageError
            When the model is no decoder, saying what to export.
        """
        if not request.ids:
            raise UserError("The prompt is empty.", "Give at least one token id.")
        generator = self._open(request, on_phase)
        facts = generator.opened.facts
        rows = facts.rows if generator.opened.prefill else 0
        yield TextBegun(request, facts.capacity, rows)
        on_phase("making text")
        yield from self._tokens(generator, request)

    def check(self, on_phase: OnPhase) -> dict[str, Any]:
        """The last text's tokens beside the greedy choices of native ONNX Runtime.

        Returns
        -------
        dict
            See :func:`nnjit_studio.generation.generator.compare`.

        Raises
        ------
        ModelError, UserError
            Also when the last text was not greedy.
        """
        if self._last is None or not self._last[1]:
            raise UserError("There is no text to compare.", "Make one first.")
        request, made = self._last
        if request.sampling.top_k > 1:
            raise UserError("Only greedy tokens can be compared.", "Set top-k to 1.")
        bench = self._bench
        with (
            bench.cancellable("The comparison", on_phase) as phase,
            killed_on_cancel(bench.compiler, lambda: bench.cancelled),
        ):
            phase("starting native ONNX Runtime")
            bench.compiler.native_decoder(request.path, request.ids)
            phase("following the text in native ONNX Runtime")
            return compare(made, bench.compiler.native_tokens([t.id for t in made]))

    def _open(self, request: TextRequest, on_phase: OnPhase) -> TextGenerator:
        """The generator, its decoder in the page with the best kernels that are known."""
        bench = self._bench
        key = (request.path, request.plans, bench.backend)
        self._generator = generator = self._generator or TextGenerator(bench)
        with (
            bench.cancellable("Making text", on_phase) as phase,
            killed_on_cancel(bench.compiler, lambda: bench.cancelled),
        ):
            bench.lend_page()
            known, self._key = self._key, None  # until it is there, whatever fails
            if key != known:
                generator.open(request.path, request.plans, phase)
            elif not bench.runner.holds(generator.opened.decode.plan):
                generator.load(phase)
            phase("registering kernels in the page")
            generator.register_best()
        self._key = key
        return generator

    def _tokens(self, generator: TextGenerator, request: TextRequest) -> Iterator[TextEvent]:
        made: list[Token] = []
        self._last = (request, made)
        stream = generator.generate(request.ids, request.sampling)
        try:
            while not self._bench.cancelled:
                try:
                    token = next(stream)
                except StopIteration as end:
                    ended: Generated = end.value
                    yield TextEnded(ended.reason, ended.tokens, ended.memory_bytes)
                    return
                made.append(token)
                yield TokenMade(len(made) - 1, token)
        finally:
            stream.close()
        yield TextEnded(CANCELLED, len(made), self._bench.runner.memory_bytes)
