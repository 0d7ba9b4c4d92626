"""Rates over rounds or seconds: every measured one as a dot, the best so far as a line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor, QResizeEvent

from nnjit_studio.ui.state.rounds import BY_ROUND, BY_SECONDS, Rounds
from nnjit_studio.ui.widgets.panel import chooser
from nnjit_studio.ui.widgets.plots.panel import PlotPanel, Table
from nnjit_studio.ui.widgets.theme import Theme

AXES = {"by round": BY_ROUND, "by seconds": BY_SECONDS}
LEGEND_ROWS = 8
"""The legend names the first ones; more would hide the plot."""
LEGEND_GAP = 16
"""Pixels around the legend."""
MARGIN = 0.03
"""Of the width, left of the first and right of the last round."""
COLUMN_PX = 3
"""Pixels whose rounds are drawn as one group; a dot covers five."""
WHOLE = 4
"""Rounds for each column up to which a series is drawn whole, whatever part is seen."""
Items = tuple[Any, Any]
"""Dots and line of a series."""


class RatesPlot(PlotPanel):
    """A pair of plot items for each series, kept until :meth:`clear`.

    The items hold what is in view, thinned to the pixels there are; :meth:`series` holds all.
    """

    def __init__(self, title: str, empty: str, theme: Theme) -> None:
        super().__init__(title, "", "speed", "GFLOP/s", empty, theme)
        self._drawn: dict[str, int] = {}
        self.items: dict[str, Items] = {}
        self.axis = chooser("Horizontal axis", "The unit of the horizontal axis", AXES)
        self.axis.currentTextChanged.connect(self.switch)
        self.bar.insertWidget(0, self.axis)
        self.legend = self.item.addLegend(
            offset=(8, 4),
            labelTextSize="7.5pt",
            colCount=2,
            verSpacing=-4,
            labelTextColor=theme.text,
        )
        self._paint_legend()
        self.item.setLimits(yMin=0)
        self.item.disableAutoRange()
        # A pan moves the range many times in one frame: it is drawn once.
        self._later = QTimer(self, interval=0, singleShot=True)
        self._later.timeout.connect(self._follow_view)
        self.item.getViewBox().sigXRangeChanged.connect(lambda *_: self._later.start())
        self.show_empty(True)

    def series(self) -> Mapping[str, Rounds]:
        """What is shown, by keys."""
        raise NotImplementedError

    def rounds_named(self) -> str:
        """What the horizontal axis counts, by rounds."""
        raise NotImplementedError

    def make(self, key: str, pair: Items) -> None:
        """Name a new series in the legend, if it is to have a name."""

    def dress(self, key: str) -> None:
        """Colour a series."""
        raise NotImplementedError

    def follow(self) -> None:
        """Draw the series that have grown."""
        series = self.series()
        self._frame()
        for key, held in series.items():
            if self._drawn.get(key) != len(held):
                self._draw(key, held)
        self._tell_empty()

    def _tell_empty(self) -> None:
        self.show_empty(not any(self.series().values()))

    def set_theme(self, theme: Theme) -> None:
        self.clear()
        self.theme = theme
        self._paint_legend()  # before its names are made anew
        super().set_theme(theme)

    def table(self) -> Table:
        header = ("workload", "round", "seconds", "candidate", "GFLOP/s", "best GFLOP/s")
        rows = [
            (key or "model", p.round, p.t_s, p.candidate, p.gflops, p.best_gflops)
            for key, rounds in self.series().items()
            for p in rounds
        ]
        return header, rows

    def redraw(self) -> None:
        self._frame()
        for key, rounds in self.series().items():
            self._draw(key, rounds)
        self.dress_all()
        self._tell_empty()

    def _follow_view(self) -> None:
        """Draw the part that is seen now of what is too long to be drawn whole."""
        for key, rounds in self.series().items():
            if len(rounds) > WHOLE * self._columns:
                self._draw(key, rounds)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._frame()
        self._later.start()

    def switch(self) -> None:
        """Another axis, or other series."""
        seconds = self._axis == BY_SECONDS
        self.item.getAxis("bottom").least = 0.0 if seconds else 1.0
        self.label_axes(bottom=("time since start", "s") if seconds else (self.rounds_named(), ""))
        self.clear()
        self.reset()

    def reset(self) -> None:
        self._zoomed = False
        self.redraw()

    @property
    def _axis(self) -> str:
        return AXES[self.axis.currentText()]

    def clear(self) -> None:
        """Forget the items; the next drawing makes them anew."""
        for pair in self.items.values():
            for plotted in pair:
                self.item.removeItem(plotted)
        self.legend.clear()
        self.items.clear()
        self._drawn.clear()

    def _frame(self) -> None:
        """Show all rounds, below the legend; a plot too low for both has no legend."""
        held = self.series()
        for key in held:
            if held[key] and key not in self.items:
                self.items[key] = self._add(key)
                self.dress(key)
        rounds = held.values()
        height, width = self.item.getViewBox().height(), self.item.getViewBox().width()
        columns = 1 if self._legend_width(2) > width else 2
        if self.legend.columnCount != columns and self.legend.items:
            self.legend.setColumnCount(columns)
        free = height - self.legend.boundingRect().height() - LEGEND_GAP
        if self.legend.isVisible() != (free > 0.4 * height):
            self.legend.setVisible(free > 0.4 * height)
        top = max((r.top for r in rounds), default=0.0)
        self.frame(top, height / free if self.legend.isVisible() else 1.1)
        last = max((r.last(self._axis) for r in rounds), default=0.0)
        if not self._zoomed and last:
            self.item.setXRange(-MARGIN * last, (1 + MARGIN) * last, padding=0)

    def _legend_width(self, columns: int) -> float:
        """Pixels of the legend with so many columns, the widest names side by side."""
        widths = [sample.width() + label.width() for sample, label in self.legend.items]
        return sum(max(widths[i::columns], default=0.0) for i in range(columns)) + LEGEND_GAP

    def _paint_legend(self) -> None:
        ground = QColor(self.theme.surface)
        ground.setAlpha(215)
        self.legend.setBrush(ground)
        self.legend.setLabelTextColor(self.theme.text)

    @property
    def _columns(self) -> int:
        return max(1, int(self.item.getViewBox().width()) // COLUMN_PX)

    def _draw(self, key: str, rounds: Rounds) -> None:
        self._drawn[key] = len(rounds)
        if not rounds:
            return
        low, high = -math.inf, math.inf
        if len(rounds) > WHOLE * self._columns:
            low, high = self.item.getViewBox().viewRange()[0]
        dots, line = self.items[key]
        dots.setData(*rounds.dots(self._axis, low, high, self._columns))
        line.setData(*rounds.line(self._axis, low, high, self._columns))

    def dress_all(self) -> None:
        """Colour all series."""
        for key in self.items:
            self.dress(key)

    def _add(self, key: str) -> Items:
        dots = self.pg.ScatterPlotItem(symbol="o", size=5, pen=None)
        line = self.pg.PlotDataItem(skipFiniteCheck=True)
        # The view follows the series, not the items, which hold only what is seen.
        self.item.addItem(dots, ignoreBounds=True)
        self.item.addItem(line, ignoreBounds=True)
        self.make(key, (dots, line))
        return dots, line
