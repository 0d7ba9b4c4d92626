"""Texts that a decoder made: their tokens, their rate, and how far ONNX Runtime agrees."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from nnjit_studio.model import Generated, Token

TIE = 1e-3
"""ONNX Runtime's logits of two tokens that are nearer than this are equal but for rounding."""


def tokens_per_s(tokens: Sequence[Token]) -> float:
    """Rate behind the first token, which waits for the prompt; 0 where there is none."""
    ms = sum(token.ms for token in tokens[1:])
    return 1000 * (len(tokens) - 1) / ms if ms > 0 else 0.0


def collect(
    stream: Generator[Token, None, Generated],
    show: Callable[[Token, int], None] = lambda token, index: None,
) -> tuple[list[Token], Generated]:
    """All tokens of a text and how it ended; ``show`` gets each as it comes."""
    made: list[Token] = []
    while True:
        try:
            token = next(stream)
        except StopIteration as end:
            ended: Generated = end.value
            return made, ended
        made.append(token)
        show(token, len(made) - 1)


def compare(made: Sequence[Token], choices: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """Tokens compared with ONNX Runtime's choices behind the same text.

    A different one is a tie when ONNX Runtime's own logits of both differ by less than
    :data:`TIE`: there rounding decides.
    """
    differing = [
        {"index": i, "id": token.id, "native": native, "deficit": deficit}
        for i, (token, (native, deficit)) in enumerate(zip(made, choices, strict=True))
        if token.id != native
    ]
    wrong = [d for d in differing if d["deficit"] >= TIE]
    return {
        "same": len(made) - len(differing),
        "ties": len(differing) - len(wrong),
        "wrong": len(wrong),
        "smallest_margin": min(t.margin for t in made),
        "differing": differing[:10],
    }


def token_json(token: Token, index: int) -> dict[str, Any]:
    return {
        "event": "token",
        "index": index,
        "id": token.id,
        "ms": token.ms,
        "margin": token.margin,
    }
