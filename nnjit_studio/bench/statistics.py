"""Medians, spread and ratios of samples, as the benchmark's rows state them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import BugError


def spread(samples_ms: Sequence[float]) -> dict[str, float]:
    """``median``, ``min`` and ``iqr`` (third less first quartile) in ms."""
    low, middle, high = np.percentile(samples_ms, (25, 50, 75))
    return {"median": float(middle), "min": float(min(samples_ms)), "iqr": float(high - low)}


def geomean(values: Iterable[float]) -> float | None:
    """Geometric mean; None of nothing."""
    given = list(values)
    return statistics.geometric_mean(given) if given else None


def ratios(ms: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Median of each peer over the median of ours: above 1, ours is faster."""
    ours = ms["ours"]["median"]
    return {peer: row["median"] / ours for peer, row in ms.items() if peer != "ours"}


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
