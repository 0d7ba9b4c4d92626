"""What a user wants of advice, and what he accepts."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.advice.records import MAX_ERROR


@dataclass(frozen=True)
class AdviceOptions:
    """How long advice takes, and how exact it has to be."""

    seconds: float = 3.0
    """Of the rounds of each row, at most; a slow model takes up to three times as long."""
    max_error: float = MAX_ERROR
    """Largest error of an output over its largest value."""
    only: tuple[str, ...] = ()
    """Names of the rows that are measured; all without any. ``untouched`` names none of them."""
    threads: int = 0
    """The most that a row may ask for; as many as the processor has without it."""
