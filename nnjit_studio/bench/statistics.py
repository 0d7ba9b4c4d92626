"""Medians, spread and ratios of samples, as the benchmark's rows state them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np


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
