"""Medians, spread and ratios of samples, as the benchmark's rows state them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    """Largest absolute error over the largest value of the float64 reference."""
    return float(np.max(np.abs(got - reference)) / np.max(np.abs(reference)))
