"""Geometry of the report's line plots; the template draws it as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 540, 270
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 12, 40


@dataclass(frozen=True)
class Series:
    """A line through ``points``; ``dots`` are marks of their own without a line.

    With ``steps`` a value holds until the next point.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dots: Sequence[tuple[float, float]] = ()
    steps: bool = False


@dataclass(frozen=True)
class DrawnSeries:
    """A series in SVG coordinates; marks are x, y and the text of their tooltip."""

    name: str
    path: str
    marks: tuple[tuple[str, str, str], ...]
    dots: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Plot:
    """A plot ready to draw; ticks are a coordinate and its label."""

    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[tuple[str, str], ...]
    y_ticks: tuple[tuple[str, str], ...]
    series: tuple[DrawnSeries, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def nice_ticks(high: float, about: int = 5) -> list[float]:
    """Numbers from 0 to at least ``high``, in steps of 1, 2, 2.5 or 5 times a power of ten."""
    if not (high > 0 and math.isfinite(high)):
        high = 1.0
    power = 10.0 ** math.floor(math.log10(high / about))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power * about >= high * (1 - 1e-9))
    return [i * step for i in range(math.ceil(high / step - 1e-9) + 1)]


def line_plot(title: str, x_label: str, y_label: str, series: Sequence[Series]) -> Plot:
    """Lay out lines on axes that begin at zero; points that are not finite are left out."""
    kept = [
        Series(s.name, _finite(s.points), _finite(s.dots), s.steps)
        for s in series
        if _finite(s.points)
    ]
    every = [point for s in kept for point in (*s.points, *s.dots)]
    x_ticks = nice_ticks(max((x for x, _ in every), default=1.0), 8)
    y_ticks = nice_ticks(max((y for _, y in every), default=1.0))

    def at_x(x: float) -> str:
        return f"{LEFT + x / x_ticks[-1] * (WIDTH - LEFT - RIGHT):.1f}"

    def at_y(y: float) -> str:
        return f"{HEIGHT - BOTTOM - y / y_ticks[-1] * (HEIGHT - BOTTOM - TOP):.1f}"

    def mark(name: str, x: float, y: float) -> tuple[str, str, str]:
        return at_x(x), at_y(y), f"{name}: {y:.4g} {y_label} at {x:.4g} {x_label}"

    def draw(s: Series) -> DrawnSeries:
        path = f"M{at_x(s.points[0][0])} {at_y(s.points[0][1])}"
        for x, y in s.points[1:]:
            path += f"H{at_x(x)}V{at_y(y)}" if s.steps else f"L{at_x(x)} {at_y(y)}"
        return DrawnSeries(
            s.name,
            path,
            tuple(mark(s.name, x, y) for x, y in s.points),
            tuple(mark(s.name, x, y) for x, y in s.dots),
        )

    return Plot(
        title,
        x_label,
        y_label,
        tuple((at_x(x), f"{x:g}") for x in x_ticks),
        tuple((at_y(y), f"{y:g}") for y in y_ticks),
        tuple(draw(s) for s in kept),
    )


def _finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
