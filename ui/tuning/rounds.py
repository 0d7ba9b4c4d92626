"""GFLOP/s per tuning round: every candidate as a dot, the best so far as a line."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyqtgraph as pg
from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor, QResizeEvent

from nnjit_studio.model.readable import words_of
from nnjit_studio.ui.state.plan import PLAN
from nnjit_studio.ui.state.rounds import BY_ROUND, BY_SECONDS, Rounds
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.panel import chooser
from nnjit_studio.ui.widgets.plots import PlotPanel, Table, pen
from nnjit_studio.ui.widgets.theme import Theme, series_style

AXES = {"by round": BY_ROUND, "by seconds": BY_SECONDS}
ALL, SELECTED, MODEL = "all workloads", "selected workload", "whole model"
LEGEND_ROWS = 8
"""The legend names the heaviest ones; more would hide the plot."""
LEGEND_GAP = 16
"""Pixels around the legend."""
MARGIN = 0.03
"""Of the width, left of the first and right of the last round."""
BEHIND, FRONT = 2, 3
COLUMN_PX = 3
"""Pixels whose rounds are drawn as one group; a dot covers five."""
WHOLE = 4
"""Rounds for each column up to which a workload's are all drawn, whatever part is seen."""


class RoundsPanel(PlotPanel):
    """One pair of plot items per workload, kept for the life of the model; one of the model, and
    one of its plan, whose rates are the model's too.

    The items hold what is in view, thinned to the pixels there are; the state holds all.
    """

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__(
            "GFLOP/s per round",
            "tuning round of the workload",
            "speed",
            "GFLOP/s",
            "Every measured candidate becomes a dot here,\nthe best so far a line.\n\n"
            "Open a model and start tuning (F5).",
            theme,
        )
        self._session = session
        self._shown: tuple[object, ...] = ()
        self._drawn: dict[str, int] = {}
        self.items: dict[str, tuple[pg.ScatterPlotItem, pg.PlotDataItem]] = {}
        self.axis = chooser("Horizontal axis", "The unit of the horizontal axis", AXES)
        self.axis.currentTextChanged.connect(self._switch)
        self.scope = chooser(
            "Rates of",
            "Every workload, the selected one alone, or the whole model: its FLOPs over its time, "
            "estimated from the kernels of that round (line) and timed (dots)",
            (ALL, SELECTED, MODEL),
        )
        self.scope.currentTextChanged.connect(self._switch)
        self.bar.insertWidget(0, self.axis)
        self.bar.insertWidget(1, self.scope)
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

    def refresh(self, changes: frozenset[str]) -> None:
        if "model" in changes:
            self._clear()
        if not changes & {"rounds", "model"}:
            return
        rounds = self._rounds()
        if not self.items.keys() <= rounds.keys():
            self._clear()  # other rounds of the plan begin
        asked = (self._session.state.selected, self.scope.currentText())
        self._frame()
        for key, held in rounds.items():
            if self._drawn.get(key) != len(held):
                self._draw(key, held)
        if asked != self._shown:
            self._shown = asked
            self._style_all()
        self.show_empty(not any(rounds.values()))

    def set_theme(self, theme: Theme) -> None:
        self._clear()
        self.theme = theme
        self._paint_legend()  # before its names are made anew
        super().set_theme(theme)

    def table(self) -> Table:
        header = ("workload", "round", "seconds", "candidate", "GFLOP/s", "best GFLOP/s")
        rows = [
            (key or "model", p.round, p.t_s, p.candidate, p.gflops, p.best_gflops)
            for key, rounds in self._rounds().items()
            for p in rounds
        ]
        return header, rows

    def redraw(self) -> None:
        self._frame()
        for key, rounds in self._rounds().items():
            self._draw(key, rounds)
        self._style_all()

    def _follow_view(self) -> None:
        """Draw the part that is seen now of what is too long to be drawn whole."""
        for key, rounds in self._rounds().items():
            if len(rounds) > WHOLE * self._columns:
                self._draw(key, rounds)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._frame()
        self._later.start()

    def _rounds(self) -> Mapping[str, Rounds]:
        """What is shown, by keys of workloads; the model's is empty."""
        state, scope = self._session.state, self.scope.currentText()
        plan = {PLAN: state.plan.rounds} if state.plan and scope != SELECTED else {}
        if scope == MODEL:
            return {"": state.rounds} | plan
        return {key: workload.rounds for key, workload in state.workloads.items()} | plan

    def _switch(self) -> None:
        seconds, model = self._axis == BY_SECONDS, self.scope.currentText() == MODEL
        name = "tuning round" if model else "tuning round of the workload"
        self.label_axes(bottom=("time since start", "s") if seconds else (name, ""))
        self._clear()
        self.reset()

    def reset(self) -> None:
        self._zoomed = False
        self.redraw()

    @property
    def _axis(self) -> str:
        return AXES[self.axis.currentText()]

    def _clear(self) -> None:
        for pair in self.items.values():
            for plotted in pair:
                self.item.removeItem(plotted)
        self.legend.clear()
        self.items.clear()
        self._drawn.clear()

    def _frame(self) -> None:
        """Show all rounds, below the legend; a plot too low for both has no legend."""
        held = self._rounds()
        for key in held:
            if held[key] and key not in self.items:
                self.items[key] = self._add(key)
                self._style(key)
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

    def _style_all(self) -> None:
        for key in self.items:
            self._style(key)

    def _style(self, key: str) -> None:
        """Colour, width and order of a workload's items: those of the selected one in front."""
        state = self._session.state
        front = key in ("", PLAN, state.selected)
        colour, dash = self._look(key)
        dots, line = self.items[key]
        dots.setBrush(pg.mkBrush(colour))
        line.setPen(pen(colour, 4.0 if front else 2.2, dash))
        line.setZValue(FRONT if front else BEHIND)
        for plotted in (dots, line):
            plotted.setVisible(front or self.scope.currentText() != SELECTED)
            plotted.setOpacity(1.0 if front or not state.selected else 0.75)

    def _look(self, key: str) -> tuple[str, tuple[float, ...]]:
        if key == PLAN:
            return self.theme.text, ()
        workload = self._session.state.workloads.get(key)
        return series_style(self.theme, workload.rank if workload else 0)

    def _add(self, key: str) -> tuple[pg.ScatterPlotItem, pg.PlotDataItem]:
        dots = pg.ScatterPlotItem(symbol="o", size=5, pen=None)
        line = pg.PlotDataItem(skipFiniteCheck=True)
        # The view follows the state, not the items, which hold only what is seen.
        self.item.addItem(dots, ignoreBounds=True)
        self.item.addItem(line, ignoreBounds=True)
        workload = self._session.state.workloads.get(key)
        if key == PLAN:
            dots.setSymbol("d")
            dots.setSize(9)
            self.legend.addItem(line, "the plan: the model in other ways")
        elif len(self.legend.items) < LEGEND_ROWS:
            named = words_of(workload.workload.key) if workload else "whole model"
            self.legend.addItem(line, str(named))
            self.legend.items[-1][1].setToolTip(key)
        line.setCurveClickable(True, width=8)
        line.sigClicked.connect(lambda *_: self._session.select(key))
        return dots, line
