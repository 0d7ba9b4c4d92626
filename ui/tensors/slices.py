"""What is said and drawn of an array: figures, bins, and a slice of two axes. Knows no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 64
MOST = 512
"""Rows and columns of a slice that are drawn: of a longer axis every second, third, and so on."""


@dataclass(frozen=True)
class Figures:
    """Of the finite values of an array."""

    low: float
    high: float
    mean: float
    std: float
    zeros: int
    nans: int
    infs: int
    counts: tuple[int, ...]
    """By bins of equal width from ``low`` to ``high``."""


def figures_of(array: NDArray[Any]) -> Figures:
    """Figures over all values."""
    values = np.asarray(array).reshape(-1).astype(np.float64)
    finite = values[np.isfinite(values)]
    nans, infs = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    if not finite.size:
        return Figures(0.0, 0.0, 0.0, 0.0, 0, nans, infs, (0,) * BINS)
    counts, _ = np.histogram(finite, BINS)
    return Figures(
        float(finite.min()), float(finite.max()), float(finite.mean()), float(finite.std()),
        int((finite == 0).sum()), nans, infs, tuple(counts.tolist()),
    )  # fmt: skip


def slice_of(array: NDArray[Any], index: Sequence[int]) -> NDArray[np.float64]:
    """The last two axes at an index of those before them; a vector is one row."""
    whole = np.asarray(array)
    whole = whole.reshape((1,) * max(0, 2 - whole.ndim) + whole.shape)
    found: NDArray[np.float64] = whole[tuple(index[: whole.ndim - 2])].astype(np.float64)
    return found


def thinned(image: NDArray[np.float64]) -> tuple[NDArray[np.float64], int, int]:
    """What is drawn of a slice: one row in so many, one column in so many."""
    down, across = (max(1, -(-n // MOST)) for n in image.shape)
    return image[::down, ::across], down, across
