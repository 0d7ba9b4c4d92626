"""A figure over sizes: its line, what a bundle for one size takes, and how often sizes come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from nnjit_studio.ui.widgets.plots.panel import PlotPanel, Table, brush, pen
from nnjit_studio.ui.widgets.theme import Theme

EMPTY = "Nothing is measured yet."
BARS = 48
"""Most of a histogram: sizes that are near share one."""
BARS_HEIGHT = 0.3
"""Of the plot, the highest bar."""


@dataclass(frozen=True)
class Point:
    """A size, its value with the ends of the interval, and what else is known of it."""

    size: float
    value: float
    low: float
    high: float
    alone: float | None = None
    """The value of a bundle for this size alone."""
    tuned: bool = True


def binned(histogram: Mapping[int, float], most: int = BARS) -> list[tuple[float, float, float]]:
    """Bars of one width as left end, right end and share of all runs, ascending."""
    if not histogram:
        return []
    low, whole = min(histogram), sum(histogram.values())
    width = -(-(max(histogram) - low + 1) // most)
    found: dict[int, float] = {}
    for size, runs in sorted(histogram.items()):
        place = (size - low) // width
        found[place] = found.get(place, 0.0) + runs / whole
    return [
        (low + i * width - 0.5, low + (i + 1) * width - 0.5, share) for i, share in found.items()
    ]


class SizePlot(PlotPanel):
    """A line over sizes, each value with its interval; hollow where nothing was tuned."""

    def __init__(self, title: str, unit: str, theme: Theme) -> None:
        super().__init__(title, "size", title.lower(), unit, EMPTY, theme)
        self.plot.setAccessibleDescription("The sentence above has the figures.")
        self._points: tuple[Point, ...] = ()
        self._bins: list[tuple[float, float, float]] = []
        self.runs = self.pg.BarGraphItem(x0=[], x1=[], y0=[], y1=[])
        self.bars = self.pg.ErrorBarItem(beam=0)
        self.alone = self.pg.PlotDataItem(symbol="x", symbolSize=7)
        self.line = self.pg.PlotDataItem(symbol="o", symbolSize=7)
        for item in (self.runs, self.bars, self.alone, self.line):
            self.item.addItem(item)
        self.item.setLimits(yMin=0)
        # The stage is low: axes are named in a line above the plot, its buttons are elsewhere.
        self.bar.setContentsMargins(0, 0, 0, 0)
        self.reset_button.hide()
        self.save_button.hide()
        self.axes = self.add_caption()
        self.set_theme(theme)

    def show_points(self, name: str, points: Sequence[Point]) -> None:
        """Show values by the dimension of this name."""
        self._points = tuple(points)
        self.label_axes(bottom=(name, ""))
        self.redraw()

    def show_runs(self, histogram: Mapping[int, float]) -> None:
        """Show how often sizes come; nothing where nothing is known."""
        self._bins = binned(histogram)
        self.label_axes()
        self.redraw()

    def label_axes(self, **names: tuple[str, str]) -> None:
        """Name them in the line above, with what else is drawn."""
        super().label_axes(**names)
        for side in ("bottom", "left"):
            self.item.getAxis(side).showLabel(False)
        if hasattr(self, "axes"):  # not yet while the panel is built
            (below, _), (left, unit) = self._axis_names["bottom"], self._axis_names["left"]
            parts = [f"{left}, {unit}, by {below}"]
            if any(not point.tuned for point in self._points):
                parts.append("hollow: untuned")
            if any(point.alone for point in self._points):
                parts.append("dashes: one size")
            if self._bins:
                parts.append("bars: runs")
            self.axes.setText("  ·  ".join(parts))

    def redraw(self) -> None:
        points, theme = self._points, self.theme
        x, y, low, high = np.array(
            [(p.size, p.value, p.low, p.high) for p in points], dtype=np.float64
        ).reshape(-1, 4).T  # fmt: skip
        self.show_empty(not (points or self._bins))
        self.item.getAxis("left").setStyle(showValues=bool(points))
        fills = [theme.accent if p.tuned else theme.surface for p in points]
        self.line.setData(x, y, symbolBrush=[brush(fill) for fill in fills])
        self.bars.setData(x=x, y=y, bottom=y - low, top=high - y)
        pairs = [(p.size, p.alone) for p in points if p.alone]
        self.alone.setData(*np.array(pairs, dtype=np.float64).reshape(-1, 2).T)
        top = max((p.high for p in points), default=1.0)
        if points or self._bins:
            self.frame(max(top, *(alone for _, alone in pairs), 0.0))
        self._draw_runs(top)

    def _draw_runs(self, top: float) -> None:
        left, right, shares = np.array(self._bins, dtype=np.float64).reshape(-1, 3).T
        heights = shares * (BARS_HEIGHT * top / shares.max()) if len(shares) else shares
        self.runs.setOpts(x0=left, x1=right, y0=0 * heights, y1=heights)

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.line.setPen(pen(theme.accent, 2.0))
        self.line.setSymbolPen(pen(theme.accent, 1.6))
        self.alone.setPen(pen(theme.text, 1.4, (4, 4)))
        self.alone.setSymbolPen(pen(theme.text, 1.4))
        self.bars.setOpts(pen=pen(theme.muted, 1.4))
        self.runs.setOpts(brush=brush(theme.line), pen=None)
        self.redraw()

    def table(self) -> Table:
        name = self.plot.accessibleName().lower()
        header = [name if field.name == "value" else field.name for field in fields(Point)]
        return header, [astuple(point) for point in self._points]
