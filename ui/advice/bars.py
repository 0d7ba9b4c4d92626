"""The cell of a time: a bar on the scale of all lines, the whisker of its interval, the figure."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from nnjit_studio.ui.advice.cells import ground
from nnjit_studio.ui.advice.lines import FASTER, IN_USE, Line
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.verdict.text import timing

TEXT = 132
"""Pixels of the figure behind the longest bar."""
BAR = 12
Index = QModelIndex | QPersistentModelIndex


class TimeBars(QStyledItemDelegate):
    """Ours is blue and what does not hold grey, as in the verdict; hollow on a busy machine.

    Parameters
    ----------
    line_at
        The line of an index of the view.
    """

    def __init__(self, parent: QObject, theme: Theme, line_at: Callable[[Index], Line]) -> None:
        super().__init__(parent)
        self.theme = theme
        self._line_at = line_at
        self.longest_ms = 0.0

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the ground as any cell, then bar and words."""
        plain = QStyleOptionViewItem(option)
        self.initStyleOption(plain, index)
        ground(painter, plain)
        line = self._line_at(index)
        if line.measured is None or not self.longest_ms:
            return
        cell = QRectF(option.rect).adjusted(6, 0, -6, 0)
        ms, middle = line.measured.ms, cell.center().y()
        scale = max(0.0, cell.width() - TEXT) / self.longest_ms
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour = self.colour(line)
        box = QRectF(cell.left(), middle - BAR / 2, max(1.0, ms.median * scale), BAR)
        if line.measured.busy:
            painter.setPen(QPen(colour, 1, Qt.PenStyle.DashLine))
            painter.drawRect(box)
        else:
            painter.fillRect(box, colour)
        painter.setPen(QPen(QColor(self.theme.text), 1.5))
        low, high = cell.left() + ms.low * scale, cell.left() + ms.high * scale
        painter.drawLine(QPointF(low, middle), QPointF(high, middle))
        for end in (low, high):
            painter.drawLine(QPointF(end, middle - 4), QPointF(end, middle + 4))
        painter.setFont(option.font)
        left = max(box.right(), high) + 8
        words = QRectF(left, cell.top(), max(0.0, cell.right() - left), cell.height())
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, timing(ms, line.measured.busy))
        painter.restore()

    def colour(self, line: Line) -> QColor:
        """What the bar of a line is filled with."""
        if line.row is None:
            return QColor(self.theme.untuned)
        good = line.verdict in (FASTER, IN_USE)
        return QColor(self.theme.bad if line.red else self.theme.tuned if good else self.theme.grey)
