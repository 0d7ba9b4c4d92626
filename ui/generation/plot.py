"""Milliseconds of each new token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg

from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.plots import PlotPanel, pen
from nnjit_studio.ui.widgets.theme import Theme


class TextPlot(PlotPanel):
    """The first token is left out: it waits for the prompt."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__(
            "Time per token", "new token", "time since the one before", "ms",
            "Each new token's time appears here.", theme,
        )  # fmt: skip
        self.plot.setAccessibleDescription("The line above the tokens has the rates.")
        self._session = session
        self.item.setLimits(yMin=0, xMin=0)
        self.line = pg.PlotDataItem(skipFiniteCheck=True)
        self.line.setDownsampling(auto=True, method="peak")
        self.item.addItem(self.line)
        self.set_theme(theme)
        self.redraw()

    def redraw(self) -> None:
        ms = np.array([t.ms for t in self._session.state.text.tokens[1:]], dtype=np.float64)
        self.show_empty(not len(ms))
        if len(ms):
            self.frame(float(ms.max()))
        self.line.setData(np.arange(1, len(ms) + 1), ms)

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.line.setPen(pen(theme.accent, 1.6))

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        tokens = self._session.state.text.tokens
        rows = [(i, t.id, t.ms, t.margin) for i, t in enumerate(tokens)]
        return ("index", "id", "ms", "margin"), rows
