"""The axis of a plot; with it the plot library is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtGui import QColor, QPainter

from nnjit_studio.ui.widgets.theme import mixed


class DirectAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis whose lines are filled rectangles, mixed with the ground beforehand.

    The library's lines go through Qt's stroker and are blended pixel by pixel, 0.08 ms for each
    line of the grid: two thirds of a pan step.
    """

    ground = QColor("white")
    least = 0.0
    """Between two ticks, such as 1 of what is counted."""
    picture: Any

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        found = super().tickSpacing(low, high, size)
        return [(gap, at) for gap, at in found if gap >= self.least] or [(self.least, 0.0)]

    def paint(self, p: QPainter, opt: object, widget: object) -> None:
        if self.style["tickFont"]:
            p.setFont(self.style["tickFont"])
        if self.picture is None:  # the library says so that it has changed
            self.picture = self.generateDrawSpecs(p) or ()
        if self.picture:
            self.drawPicture(p, *self.picture)

    def drawPicture(self, p: QPainter, axis: Any, ticks: Sequence[Any], texts: Any) -> None:
        for line, start, end in (axis, *ticks):
            x, y, to_x, to_y = (round(v) for v in (start.x(), start.y(), end.x(), end.y()))
            width, height = max(1, abs(to_x - x)), max(1, abs(to_y - y))
            p.fillRect(min(x, to_x), min(y, to_y), width, height, self._mixed(line.color()))
        p.setPen(self.textPen())
        p.setClipRect(self.boundingRect().toAlignedRect())
        for rect, flags, words in texts:
            p.drawText(rect, int(flags), words)

    def _mixed(self, colour: QColor) -> QColor:
        return mixed(colour, self.ground, colour.alphaF())
