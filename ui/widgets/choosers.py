"""A combo box for narrow docks: its text ends in an ellipsis where it has no room."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPaintEvent
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox, QStylePainter, QToolTip

from nnjit_studio.ui.widgets.tips import plain_tip

CHARACTERS, ARROW = 5, 36
"""Of the narrowest: characters of the text; pixels of its arrow and frame."""


class Chooser(QComboBox):
    """It may become narrower than its texts; tooltip and list then have all of them."""

    def minimumSizeHint(self) -> QSize:
        full = super().minimumSizeHint()
        least = self.fontMetrics().averageCharWidth() * CHARACTERS + ARROW
        return QSize(min(full.width(), least), full.height())

    def shown(self) -> str:
        """The text as it is drawn."""
        return self._dressed().currentText

    def _dressed(self) -> QStyleOptionComboBox:
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        field = self.style().subControlRect(
            QStyle.ComplexControl.CC_ComboBox, option,
            QStyle.SubControl.SC_ComboBoxEditField, self,
        )  # fmt: skip
        option.currentText = self.fontMetrics().elidedText(
            self.currentText(), Qt.TextElideMode.ElideRight, field.width()
        )
        return option

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, option = QStylePainter(self), self._dressed()
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)

    def showPopup(self) -> None:
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + ARROW)
        super().showPopup()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            text = self.currentText()
            if self.shown() != text:
                tip = "\n".join(line for line in (text, self.toolTip()) if line)
                QToolTip.showText(event.globalPos(), plain_tip(tip), self)
                return True
        return super().event(event)
