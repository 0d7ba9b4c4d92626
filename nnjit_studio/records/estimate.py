"""The one estimator of every figure shown: a median with its interval, and a ratio of pairs.

Both intervals are made of order statistics, which are right for any distribution of the
samples (H. A. David, H. N. Nagaraja, "Order Statistics", 3rd edition, section 7.1): a busy
machine's times are far from normal. ``resources/studio/estimate.js`` is the same in the page.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnjit_studio.records.outcomes import NOT_TOLD_APART, outcome_of

CONFIDENCE = 0.95
"""Of the interval of a time."""
RATIO_CONFIDENCE = 0.999
"""Of the interval of a ratio: it is looked at again and again while a session runs."""
RESTART = 0.01
"""A ratio's interval reaches at least so far both ways: a restart of the page alone, which
lays out code and memory anew, moves it by that."""


@dataclass(frozen=True)
class Estimate:
    """A time in ms: the median of ``count`` samples and the ends of its interval.

    Too few samples for the confidence make the interval their range.
    """

    ms: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, samples_ms: Sequence[float]) -> Estimate:
        """Of at least one sample, float ms."""
        low, high = _interval(samples_ms, CONFIDENCE) or (min(samples_ms), max(samples_ms))
        return cls(statistics.median(samples_ms), low, high, len(samples_ms))


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the second of two is, from pairs that were taken in turns.

    The median of the pairs' ratios: what the machine does to both halves of a pair cancels.
    Without enough pairs ``low`` is 0 and ``high`` infinite.
    """

    value: float
    low: float
    high: float
    pairs: int

    @classmethod
    def of(cls, first_ms: Sequence[float], second_ms: Sequence[float]) -> Ratio:
        """Of samples whose entries i are one pair; at least one."""
        ratios = [first / second for first, second in zip(first_ms, second_ms, strict=True)]
        value = statistics.median(ratios)
        found = _interval(ratios, RATIO_CONFIDENCE)
        if found is None:
            return cls(value, 0.0, math.inf, len(ratios))
        low, high = min(found[0], value / (1 + RESTART)), max(found[1], value * (1 + RESTART))
        return cls(value, low, high, len(ratios))

    @property
    def known(self) -> bool:
        """Whether there were enough pairs for an interval."""
        return math.isfinite(self.high)

    @property
    def outcome(self) -> str:
        """``faster``, ``slower`` or ``not told apart``."""
        return outcome_of(self.low, self.high) if self.known else NOT_TOLD_APART

    @property
    def told_apart(self) -> bool:
        """Whether the interval excludes 1."""
        return self.outcome != NOT_TOLD_APART

    def to_json(self) -> dict[str, Any]:
        """``ratio``, ``low``, ``high``, ``pairs`` and ``told_apart``; None for what is unknown."""
        ends = (self.low, self.high) if self.known else (None, None)
        return {
            "ratio": self.value,
            "low": ends[0],
            "high": ends[1],
            "pairs": self.pairs,
            "told_apart": self.told_apart,
        }


LEAST_PAIRS = math.ceil(1 - math.log2(1 - RATIO_CONFIDENCE))
"""With fewer, even the range of the pairs is no interval of a ratio's confidence."""


def _interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Ends of the median's interval; None where even the range has too little confidence."""
    ordered, n = sorted(values), len(values)
    # In integers, of 2^n equally likely ways: floats end at a thousand samples.
    limit = (1 << n) * round((1 - confidence) * 1e6) // 2_000_000
    outside, rank, term = 0, 0, 1
    while outside + term <= limit:
        outside += term
        term = term * (n - rank) // (rank + 1)
        rank += 1
    return (ordered[rank - 1], ordered[n - rank]) if rank else None
