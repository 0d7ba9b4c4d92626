"""Rounds as columns of numbers: cheap to append, cheap to draw a part of. Knows no Qt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FIRST_CAPACITY = 64
BY_ROUND, BY_SECONDS = "round", "t_s"
"""Units of a horizontal axis: names of columns."""


@dataclass(frozen=True)
class RoundPoint:
    """One tuning round of one workload; ``gflops`` is 0 where nothing could be measured."""

    round: int
    t_s: float
    candidate: str
    gflops: float
    best_gflops: float


class Growing:
    """An array that grows at its end; a view of it is no copy."""

    def __init__(self) -> None:
        self._held = np.empty(FIRST_CAPACITY)
        self._count = 0

    def append(self, value: float) -> None:
        if self._count == len(self._held):
            self._held = np.concatenate([self._held, np.empty(self._count)])
        self._held[self._count] = value
        self._count += 1

    @property
    def view(self) -> Array:
        return self._held[: self._count]


class Rounds:
    """The rounds of a workload, or of the model, in order of time.

    ``top`` is the highest rate of all. A round that could not be measured has no dot.
    """

    def __init__(self) -> None:
        self.top = 0.0
        self._columns = {name: Growing() for name in (BY_ROUND, BY_SECONDS, "gflops", "best")}
        self._candidates: list[str] = []
        self._dots = {name: Growing() for name in (BY_ROUND, BY_SECONDS, "gflops")}
        self._steps = {name: Growing() for name in (BY_ROUND, BY_SECONDS, "best")}

    def append(self, point: RoundPoint) -> None:
        rate, best = point.gflops, point.best_gflops
        values = {BY_ROUND: point.round, BY_SECONDS: point.t_s, "gflops": rate, "best": best}
        for name, column in self._columns.items():
            column.append(values[name])
        self._candidates.append(point.candidate)
        if rate > 0:
            for name, column in self._dots.items():
                column.append(values[name])
        steps = self._steps["best"].view
        if not len(steps) or steps[-1] != best:
            for name, column in self._steps.items():
                column.append(values[name])
        self.top = max(self.top, rate, best)

    @property
    def best(self) -> float:
        """The best rate so far; 0 before the first round."""
        steps = self._steps["best"].view
        return float(steps[-1]) if len(steps) else 0.0

    def last(self, axis: str) -> float:
        """Where the last round stands on an axis; 0 without any."""
        return float(self._columns[axis].view[-1]) if self else 0.0

    def dots(self, axis: str, low: float, high: float, columns: int) -> tuple[Array, Array]:
        """Measured rates between two places of an axis, thinned by :func:`thin`."""
        return thin(self._dots[axis].view, self._dots["gflops"].view, low, high, columns)

    def line(self, axis: str, low: float, high: float, columns: int) -> tuple[Array, Array]:
        """The best so far as a staircase between two places, thinned; it ends at the last round."""
        x, y = thin(self._steps[axis].view, self._steps["best"].view, low, high, columns)
        if len(x):
            x, y = np.append(x, max(float(x[-1]), min(self.last(axis), high))), np.append(y, y[-1])
        return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]

    def __len__(self) -> int:
        return len(self._candidates)

    def __getitem__(self, place: int) -> RoundPoint:
        at = range(len(self))[place]
        count, t_s, rate, best = (float(c.view[at]) for c in self._columns.values())
        return RoundPoint(int(count), t_s, self._candidates[at], rate, best)

    def __iter__(self) -> Iterator[RoundPoint]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rounds) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def thin(x: Array, y: Array, low: float, high: float, columns: int) -> tuple[Array, Array]:
    """Points between two places, and one beyond each, no more than four for each column.

    Of a group of points the lowest and the highest stay, so that no peak is lost. Groups
    begin at multiples of their size, a power of two: a view that is moved shows the same points.

    Parameters
    ----------
    x
        Ascending, float64.
    columns
        Pixels that the points are drawn on.
    """
    first = max(0, int(np.searchsorted(x, low)) - 1)
    last = min(len(x), int(np.searchsorted(x, high, side="right")) + 1)
    if last - first <= 4 * columns:
        return x[first:last], y[first:last]
    size = 1 << int(np.ceil(np.log2((last - first) / columns)))
    first = first // size * size
    groups = (last - first) // size
    whole = y[first : first + groups * size].reshape(groups, size)
    starts = first + size * np.arange(groups)
    kept = np.stack([starts + whole.argmin(axis=1), starts + whole.argmax(axis=1)], axis=1)
    kept.sort(axis=1)
    rest = np.arange(first + groups * size, last)
    places = np.concatenate([kept.ravel(), rest])
    return x[places], y[places]
