"""The numbers of lines, left of a text."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from nnjit_studio.ui.widgets.theme import Theme

GAP = 6
"""Pixels left and right of a number."""


class LineNumbers(QWidget):
    """Paints the numbers of the blocks that its editor shows; the editor leaves it the room."""

    def __init__(self, editor: QPlainTextEdit, theme: Theme) -> None:
        super().__init__(editor)
        self.theme = theme
        self._editor = editor
        editor.updateRequest.connect(self._follow)

    @property
    def room(self) -> int:
        """Pixels that the largest number needs."""
        digits = len(str(self._editor.blockCount()))
        return 2 * GAP + digits * self._editor.fontMetrics().horizontalAdvance("9")

    def place(self) -> None:
        """Stand left of the text, as high as that is."""
        inner = self._editor.contentsRect()
        self.setGeometry(QRect(inner.left(), inner.top(), self.room, inner.height()))

    def _follow(self, changed: QRect, scrolled: int) -> None:
        if scrolled:
            self.scroll(0, scrolled)
        else:
            self.update(0, changed.y(), self.width(), changed.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self._editor.font())
        painter.setPen(QColor(self.theme.muted))
        editor = self._editor
        block, offset = editor.firstVisibleBlock(), editor.contentOffset()
        while block.isValid():
            place = editor.blockBoundingGeometry(block).translated(offset)
            behind_the_last = not block.next().isValid() and not block.text()
            if behind_the_last or place.top() > event.rect().bottom():
                break
            room = QRectF(0, place.top(), self.width() - GAP, place.height())
            painter.drawText(room, Qt.AlignmentFlag.AlignRight, str(block.blockNumber() + 1))
            block = block.next()
