"""The bars of a verdict without any words, for a line of a list."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from nnjit_studio.ui.verdict.bars import bar_colour
from nnjit_studio.ui.widgets.panel import named
from nnjit_studio.ui.widgets.theme import DARK, LIGHT
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.text import table

WIDTH, THICK, GAP = 130, 4, 2


class SmallBars(QWidget):
    """Times on one scale, in the order of the verdict's rows."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self._verdict = verdict
        self.setFixedSize(self.sizeHint())
        named(self, table(verdict), table(verdict))

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, len(self._verdict.rows) * (THICK + GAP) + GAP)

    def paintEvent(self, event: QPaintEvent) -> None:
        times = {row.who: row.ms.median for row in self._verdict.rows if row.ms}
        if not times:
            return
        painter = QPainter(self)
        dark = self.palette().window().color().lightnessF() < 0.5
        scale = WIDTH / max(times.values())
        for place, (who, ms) in enumerate(times.items()):
            box = QRectF(0, GAP + place * (THICK + GAP), max(1.0, ms * scale), THICK)
            painter.fillRect(box, bar_colour(DARK if dark else LIGHT, who))
