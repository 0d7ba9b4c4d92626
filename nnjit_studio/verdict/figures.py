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
    found = largest_error(got, reference)
    if not np.isfinite(found):
        raise BugError("An output is NaN or infinite where its reference is not.")
    return found


def largest_error(got: NDArray[Any], reference: NDArray[Any]) -> float:
    """As :func:`relative_error`; infinite where that refuses."""
    if got.shape != reference.shape:
        return np.inf
    x, y = (np.asarray(a).astype(np.float64) for a in (got, reference))
    return float(np.max(element_errors(x, y), initial=0.0)) / (magnitude(y) or 1.0)


def element_errors(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Absolute errors; infinite where only one of both is NaN, or infinite."""
    with np.errstate(invalid="ignore"):
        error = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y), np.inf)
    return np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, error)


def magnitude(y: NDArray[np.float64]) -> float:
    """The largest finite value, without its sign."""
    return float(np.max(np.abs(y), where=np.isfinite(y), initial=0.0))
