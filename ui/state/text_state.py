"""The text of the window, reduced from the events that make it. Knows no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnjit_studio.generation.session import TextBegun, TextEnded, TextEvent, TextRequest, TokenMade
from nnjit_studio.generation.texts import tokens_per_s
from nnjit_studio.model import Token

RECENT_MS = 2000.0
"""The live rate is of so much of the text's latest time."""


class TextState:
    """The last text; ``checked`` is its comparison with ONNX Runtime."""

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, begun: TextBegun | None) -> None:
        self.begun = begun
        self.tokens: list[Token] = []
        self.letters: list[str] = []
        self.ended: TextEnded | None = None
        self.checked: Mapping[str, Any] | None = None

    def take(self, event: TextEvent) -> None:
        match event:
            case TextBegun():
                self._begin(event)
            case TokenMade():
                self.tokens.append(event.token)
                self.letters.append(event.letters)
            case TextEnded():
                self.ended = event

    @property
    def request(self) -> TextRequest | None:
        return self.begun.request if self.begun else None

    @property
    def prompt_ms(self) -> float | None:
        """From the prompt to the first token."""
        return self.tokens[0].ms if self.tokens else None

    @property
    def rate(self) -> float | None:
        """Tokens a second of the whole text, behind the first one, which waits for the prompt."""
        return tokens_per_s(self.tokens) or None

    @property
    def recent_rate(self) -> float | None:
        """The same of the latest :data:`RECENT_MS`."""
        ms, count = 0.0, 0
        for token in reversed(self.tokens[1:]):
            if count and ms + token.ms > RECENT_MS:
                break
            ms, count = ms + token.ms, count + 1
        return 1000 * count / ms if ms > 0 else None

    @property
    def may_be_checked(self) -> bool:
        """Whether it ended and is greedy: only then ONNX Runtime would choose alike."""
        greedy = self.request is not None and self.request.sampling.greedy
        return greedy and self.ended is not None and bool(self.tokens)
