"""Cells of two lines: the figure or name, and below it in muted ink what belongs to it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from nnjit_studio.ui.advice.lines import Line
from nnjit_studio.ui.widgets.theme import Theme

Index = QModelIndex | QPersistentModelIndex
SIDE, GAP = 8, 2
_MIDDLE, _END = Qt.TextElideMode.ElideMiddle, Qt.TextElideMode.ElideRight


def ground(painter: QPainter, option: QStyleOptionViewItem) -> None:
    """Draw a cell without its text, selected or not."""
    option.text = ""
    style = option.widget.style()
    style.drawControl(style.ControlElement.CE_ItemViewItem, option, painter, option.widget)


class TwoLines(QStyledItemDelegate):
    """The cell's text loses its middle where it has no room, the line below it its end.

    Parameters
    ----------
    below
        The second line, empty for none; the first is then in the middle of the cell.
    """

    def __init__(
        self, parent: QObject, theme: Theme, line_at: Callable[[Index], Line],
        below: Callable[[Line], str],
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self.theme = theme
        self._line_at, self._below = line_at, below

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the ground as any cell, then the lines."""
        plain = QStyleOptionViewItem(option)
        self.initStyleOption(plain, index)
        above, tone = plain.text, index.data(Qt.ItemDataRole.ForegroundRole)
        ground(painter, plain)
        below = self._below(self._line_at(index))
        metrics = QFontMetricsF(option.font)
        room = QRectF(option.rect).adjusted(SIDE, 0, -SIDE, 0)
        height = metrics.height()
        block = 2 * height + GAP if below else height
        top = room.center().y() - block / 2
        painter.save()
        painter.setFont(option.font)
        for words, mode, colour in (
            (above, _MIDDLE, tone or QColor(self.theme.text)),
            (below, _END, QColor(self.theme.muted)),
        ):
            painter.setPen(colour)
            line = QRectF(room.left(), top, room.width(), height)
            shown = metrics.elidedText(words, mode, room.width())
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, shown)
            top += height + GAP
        painter.restore()
