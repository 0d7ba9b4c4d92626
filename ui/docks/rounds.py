"""GFLOP/s per tuning round: every candidate as a dot, the best so far as a line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QCheckBox, QComboBox

from nnjit_studio.ui.docks.plots import PlotPanel, pen, steps
from nnjit_studio.ui.session import Session
from nnjit_studio.ui.state import WorkloadState
from nnjit_studio.ui.theme import Theme, named, series_style

BY_ROUND, BY_SECONDS = "by round", "by seconds"
LEGEND_ROWS = 8
"""The legend names the heaviest ones; more would hide the plot."""
LEGEND_GAP = 16
"""Pixels around the legend."""


class RoundsPanel(PlotPanel):
    """One pair of plot items per workload, kept for the life of the model."""

    def __init__(self, session: Session, theme: Theme) -> None:
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
        self._shown: object = None
        self._drawn: dict[str, int] = {}
        self.items: dict[str, tuple[pg.PlotDataItem, pg.PlotDataItem]] = {}
        self.axis = named(QComboBox(), "Horizontal axis", "What the horizontal axis counts")
        self.axis.addItems([BY_ROUND, BY_SECONDS])
        self.axis.currentTextChanged.connect(self._switch_axis)
        self.only = named(
            QCheckBox("only selected"), "Only the selected workload", "Hide the other workloads"
        )
        self.only.toggled.connect(self.redraw)
        self.bar.insertWidget(0, self.axis)
        self.bar.insertWidget(1, self.only)
        self.legend = self.item.addLegend(
            offset=(8, 4),
            labelTextSize="7.5pt",
            colCount=2,
            verSpacing=-4,
            labelTextColor=theme.text,
        )
        self._paint_legend()
        self.item.setLimits(yMin=0)
        self.show_empty(True)

    def render(self, changes: frozenset[str]) -> None:
        state = self._session.state
        if "model" in changes:
            self._clear()
        if changes & {"rounds", "model"}:
            selected_changed = state.selected != self._shown
            self._shown = state.selected
            for key, workload in state.workloads.items():
                if selected_changed or self._drawn.get(key) != len(workload.rounds):
                    self._draw(key, workload)
            self._frame()
            self.show_empty(not any(w.rounds for w in state.workloads.values()))

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self._paint_legend()
        self._clear()
        self.redraw()

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        header = ("workload", "round", "seconds", "candidate", "GFLOP/s", "best GFLOP/s")
        rows = [
            (key, p.round, p.t_s, p.candidate, p.gflops, p.best_gflops)
            for key, workload in self._session.state.workloads.items()
            for p in workload.rounds
        ]
        return header, rows

    def _switch_axis(self, choice: str) -> None:
        name = "time since start" if choice == BY_SECONDS else "tuning round of the workload"
        self.label_axes(bottom=(name, "s" if choice == BY_SECONDS else ""))
        self.redraw()
        self.reset()

    def _clear(self) -> None:
        for pair in self.items.values():
            for plotted in pair:
                self.item.removeItem(plotted)
        self.legend.clear()
        self.items.clear()
        self._drawn.clear()

    def redraw(self) -> None:
        for key, workload in self._session.state.workloads.items():
            self._draw(key, workload)
        self._frame()

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)
        self._frame()

    def _frame(self) -> None:
        """Leave room for the legend above the data; a plot too low for both has none."""
        rates = [p.gflops for w in self._session.state.workloads.values() for p in w.rounds]
        rates += [
            w.rounds[-1].best_gflops for w in self._session.state.workloads.values() if w.rounds
        ]
        height = self.item.getViewBox().height()
        free = height - self.legend.boundingRect().height() - LEGEND_GAP
        self.legend.setVisible(free > 0.4 * height)
        self.frame(max(rates, default=0.0), height / free if self.legend.isVisible() else 1.1)

    def _paint_legend(self) -> None:
        ground = QColor(self.theme.surface)
        ground.setAlpha(215)
        self.legend.setBrush(ground)
        self.legend.setLabelTextColor(self.theme.text)

    def _draw(self, key: str, workload: WorkloadState) -> None:
        self._drawn[key] = len(workload.rounds)
        if not workload.rounds:
            return
        selected = self._session.state.selected
        hidden = self.only.isChecked() and key != selected
        colour, dash = series_style(self.theme, workload.rank)
        if key not in self.items:
            self.items[key] = self._add(workload)
        dots, line = self.items[key]
        points = workload.rounds
        seconds = self.axis.currentText() == BY_SECONDS
        x = np.array([p.t_s if seconds else p.round for p in points], dtype=np.float64)
        rate = np.array([p.gflops for p in points], dtype=np.float64)
        best = np.array([p.best_gflops for p in points], dtype=np.float64)
        measured = rate > 0
        dots.setData(x[measured], rate[measured])
        dots.setSymbolBrush(pg.mkBrush(colour))
        line.setData(*steps(x, best))
        line.setPen(pen(colour, 4.0 if key == selected else 2.2, dash))
        line.setZValue(3 if key == selected else 2)
        for plotted in (dots, line):
            plotted.setVisible(not hidden)
            plotted.setOpacity(1.0 if key == selected or not selected else 0.75)

    def _add(self, workload: WorkloadState) -> tuple[pg.PlotDataItem, pg.PlotDataItem]:
        dots = pg.PlotDataItem(
            pen=None, symbol="o", symbolSize=5, symbolPen=None, skipFiniteCheck=True
        )
        line = pg.PlotDataItem(skipFiniteCheck=True)
        self.item.addItem(dots)
        self.item.addItem(line)
        if len(self.legend.items) < LEGEND_ROWS:
            self.legend.addItem(line, workload.workload.name)
        line.setCurveClickable(True, width=8)
        line.sigClicked.connect(lambda *_, key=workload.workload.key: self._session.select(key))
        return dots, line
