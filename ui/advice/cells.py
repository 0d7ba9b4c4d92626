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
TALL, LOW = 46, 26
"""Heights of a row of two lines and of one."""
ENOUGH = 8
"""Rows that are to be seen at once, where there are as many."""
_MIDDLE, _END = Qt.TextElideMode.ElideMiddle, Qt.TextElideMode.ElideRight


def too_tall(rows: int, room: int) -> bool:
    """Whether so many pixels show too few rows of two lines."""
    return min(rows, ENOUGH) * TALL > room


def ground(painter: QPainter, option: QStyleOptionViewItem) -> None:
    """Draw a cell without its text, selected or not."""
    option.text = ""
    style = option.widget.style()
    style.drawControl(style.ControlElement.CE_ItemViewItem, option, painter, option.widget)


def two_lines(above: str, below: str, fits: Callable[[str], bool]) -> tuple[str, str]:
    """Both lines of a cell; a text without room in one takes both, and is nowhere cut in a word.

    ``below`` gives way: it is in the tooltip and below the list too.
    """
    if fits(above):
        return above, below
    words = above.split(" ")
    whole = (n for n in range(len(words) - 1, 0, -1) if fits(" ".join(words[:n])))
    first = next(whole, len(words))
    return " ".join(words[:first]), " ".join(words[first:]) or below


class TwoLines(QStyledItemDelegate):
    """The cell's text goes on in the second line where it has no room in one.

    Parameters
    ----------
    below
        The second line, empty for none; the first is then in the middle of the cell.
    alone
        What a ``low`` row shows in place of both.
    """

    low = False

    def __init__(
        self, parent: QObject, theme: Theme, line_at: Callable[[Index], Line],
        below: Callable[[Line], str], alone: Callable[[Line], str],
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self.theme = theme
        self._line_at, self._below, self._alone = line_at, below, alone

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the ground as any cell, then the lines."""
        plain = QStyleOptionViewItem(option)
        self.initStyleOption(plain, index)
        above, tone = plain.text, index.data(Qt.ItemDataRole.ForegroundRole)
        ground(painter, plain)
        line = self._line_at(index)
        below = "" if self.low else self._below(line)
        above = self._alone(line) if self.low else above
        metrics = QFontMetricsF(option.font)
        room = QRectF(option.rect).adjusted(SIDE, 0, -SIDE, 0)
        height, goes_on = metrics.height(), False
        if not self.low:
            note = below
            above, below = two_lines(
                above, note, lambda words: metrics.horizontalAdvance(words) <= room.width()
            )
            goes_on = below != note
        block = 2 * height + GAP if below else height
        top = room.center().y() - block / 2
        painter.save()
        painter.setFont(option.font)
        ink = tone or QColor(self.theme.text)
        for words, mode, colour in (
            (above, _MIDDLE, ink),
            (below, _END, ink if goes_on else QColor(self.theme.muted)),
        ):
            painter.setPen(colour)
            place = QRectF(room.left(), top, room.width(), height)
            shown = metrics.elidedText(words, mode, room.width())
            painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, shown)
            top += height + GAP
        painter.restore()
