"""Medians with intervals, ratios of pairs, and errors of outputs, as verdicts state them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import BugError
from nnjit_studio.records.estimate import Estimate, Ratio


@dataclass(frozen=True)
class Interval:
    """A median with the ends of its confidence interval."""

    median: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @property
    def holds_1(self) -> bool:
        return self.low <= 1 <= self.high


def median_interval(samples: Sequence[float]) -> Interval:
    """The median of at least one sample with its interval, ms."""
    found = Estimate.of(samples)
    return Interval(found.ms, found.low, found.high)


def paired_ratio(ours_ms: Sequence[float], theirs_ms: Sequence[float]) -> Interval | None:
    """How much faster ours is, over pairs of samples; None of too few for an interval."""
    if min(len(ours_ms), len(theirs_ms)) == 0 or min(*ours_ms, *theirs_ms) <= 0:
        return None
    found = Ratio.of(theirs_ms, ours_ms)
    return Interval(found.value, found.low, found.high) if found.known else None


def relative_error(got: NDArray[Any], reference: NDArray[np.float64]) -> float:
    """Largest absolute error over the largest finite value of the float64 reference.

    The error itself where the reference is 0 everywhere. What is NaN or infinite in
    both alike is no error.

    Raises
    ------
    BugError
        When only one of both is NaN or infinite somewhere, or their sizes differ: such
        results are not to be timed.
    """
    if got.shape != reference.shape:
        raise BugError(f"An output has the shape {got.shape}, its reference {reference.shape}.")
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - reference)
    error[(got == reference) | (np.isnan(got) & np.isnan(reference))] = 0.0
    if not np.all(np.isfinite(error)):
        raise BugError("An output is NaN or infinite where its reference is not.")
    scale = float(np.max(np.abs(reference), where=np.isfinite(reference), initial=0.0))
    return float(np.max(error, initial=0.0)) / (scale or 1.0)
