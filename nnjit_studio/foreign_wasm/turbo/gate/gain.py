"""Gains from interleaved samples: the median of the ratios, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from nnjit_studio.records.estimate import Estimate


@dataclass(frozen=True)
class Gain:
    """How many times as fast: a median, and where it lies with 95 % confidence."""

    median: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in asdict(self).items()}


def gain_of(before_ms: Sequence[float], after_ms: Sequence[float]) -> Gain:
    """The gain from samples that were taken in turns, one of each in a round.

    The interval is that of order statistics: it assumes nothing of how times are distributed.
    """
    ratios = [before / after for before, after in zip(before_ms, after_ms, strict=True)]
    found = Estimate.of(ratios)
    return Gain(found.ms, found.low, found.high)
