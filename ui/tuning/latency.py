"""Latency of the whole model while its kernels are swapped."""

from __future__ import annotations

import numpy as np

from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.plots.panel import PlotPanel, Table, brush, pen, steps
from nnjit_studio.ui.widgets.theme import Theme

OUTLIER = 3.0
"""Times the median: what is longer ends above the view."""
ROOM = 1.4
"""Above the highest point: the line of the time before has its name there."""


class LatencyPanel(PlotPanel):
    """The timed runs as a staircase, the first one as a dashed line."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__(
            "Model latency",
            "time since start",
            "time",
            "ms",
            "The model's latency is timed here while it is tuned.",
            theme,
        )
        self._session = session
        self.label_axes(bottom=("time since start", "s"))
        self.item.setLimits(yMin=0)
        self.line = self.pg.PlotDataItem(
            symbol="o", symbolSize=5, symbolPen=None, skipFiniteCheck=True
        )
        self.before = self.pg.InfiniteLine(
            angle=0, label="before", labelOpts={"position": 0.06, "anchors": [(0, 1), (0, 1)]}
        )
        self.item.addItem(self.before)
        self.item.addItem(self.line)
        self.set_theme(theme)

    def refresh(self, changes: frozenset[str]) -> None:
        if "latency" in changes:
            self.redraw()

    def redraw(self) -> None:
        points = np.array(self._session.state.latency, dtype=np.float64).reshape(-1, 2)
        self.show_empty(not len(points))
        self.before.setVisible(bool(len(points)))
        if len(points):
            self.before.setValue(points[0, 1])
            # One run that the machine held up must not flatten all others.
            self.frame(min(points[:, 1].max(), OUTLIER * np.median(points[:, 1])), ROOM)
        self.line.setData(*(steps(points[:, 0], points[:, 1]) if len(points) else ([], [])))

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.line.setPen(pen(theme.accent, 2.2))
        self.line.setSymbolBrush(brush(theme.accent))
        self.before.setPen(pen(theme.muted, 1.2, (4, 4)))
        self.before.label.setColor(theme.muted)

    def table(self) -> Table:
        return ("seconds", "model ms"), self._session.state.latency
