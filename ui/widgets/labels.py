"""Labels of one line: elided where there is no room, or of a steady size."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy

from nnjit_studio.ui.widgets.tips import plain_tip

L = TypeVar("L", bound=QLabel)
LEFT = Qt.AlignmentFlag.AlignLeft


class ElidedLabel(QLabel):
    """A line that ends in an ellipsis where it has no room; its tooltip then has all of it."""

    _alignment = LEFT

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.tip = ""
        self.setTextFormat(Qt.TextFormat.PlainText)

    def minimumSizeHint(self) -> QSize:
        return QSize(self.fontMetrics().averageCharWidth() * 6, super().minimumSizeHint().height())

    def shown(self) -> str:
        return self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width()
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        self.style().drawItemText(
            QPainter(self),
            self.contentsRect(),
            Qt.AlignmentFlag.AlignVCenter | self._alignment,
            self.palette(),
            self.isEnabled(),
            self.shown(),
            self.foregroundRole(),
        )

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            cut = self.text() if self.shown() != self.text() else ""
            self.setToolTip(plain_tip("\n".join(line for line in (cut, self.tip) if line)))
        return super().event(event)


class SteadyLabel(ElidedLabel):
    """A line whose size does not depend on its text, for what changes many times a second.

    Each new text of a QLabel lays out the whole window, up to 25 ms on a busy machine.
    """

    def __init__(
        self, text: str = "", alignment: Qt.AlignmentFlag = LEFT, characters: int = 30
    ) -> None:
        super().__init__()
        self._text = ""
        self._alignment = alignment
        self._characters = characters
        self.setText(text)

    def text(self) -> str:
        return self._text

    def setText(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self.setAccessibleDescription(text)
            self.update()

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.averageCharWidth() * self._characters, metrics.height())


class WholeLabel(QLabel):
    """Plain text that wraps, as high as that needs: the window's layouts do not ask for it."""

    def __init__(self) -> None:
        super().__init__(textFormat=Qt.TextFormat.PlainText, wordWrap=True)

    def setText(self, text: str) -> None:
        super().setText(text)
        self._grow()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._grow()

    def _grow(self) -> None:
        self.setMinimumHeight(self.heightForWidth(self.width()))


def quiet(label: L) -> L:
    """Give a label the theme's quiet colour."""
    label.setObjectName("muted")
    return label


def caption(text: str = "") -> ElidedLabel:
    """A quiet line that takes the room it is given, however long its text."""
    label = quiet(ElidedLabel(text))
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    return label
