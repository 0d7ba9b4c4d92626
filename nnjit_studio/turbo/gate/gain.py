"""Gains from interleaved samples: the median of the ratios, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Gain:
    """How many times as fast: a median, and where it lies with :data:`CONFIDENCE`."""

    median: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in asdict(self).items()}


def gain_of(before_ms: Sequence[float], after_ms: Sequence[float]) -> Gain:
    """The gain from samples that were taken in turns, one of each in a round.

    The interval is that of order statistics: it assumes nothing of how times are distributed.
    """
    from scipy.stats import binom  # takes 0.6 s, which no command is to wait for before it measures

    ratios = np.sort(np.asarray(before_ms) / np.asarray(after_ms))
    n = len(ratios)
    below = int(binom.ppf((1 - CONFIDENCE) / 2, n, 0.5))
    low, high = ratios[max(below - 1, 0)], ratios[min(n - below, n - 1)]
    return Gain(float(np.median(ratios)), float(low), float(high))
