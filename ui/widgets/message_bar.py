"""One sentence and the next step, above the views and never in the way."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QLabel

from nnjit_studio.ui.widgets.panel import hbox, named, push_button


class MessageBar(QFrame):
    """Hidden until there is something to say; the newest message wins."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("message")
        named(self, "Message")
        self._details = ""
        self.text = QLabel(textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.copy_button = push_button("Copy details", "Copy error details", act=self.copy)
        close = push_button("Dismiss", "Dismiss message", act=self.hide)
        hbox((self.text, 1), self.copy_button, close, on=self, margins=(12, 6, 8, 6))
        self.hide()

    def say(self, text: str, tone: str = "plain", details: str = "") -> None:
        """Show a message; ``tone`` is ``plain``, ``good`` or ``bad``."""
        self._details = details
        self.text.setText(text)
        self.text.setAccessibleName(text)
        self.copy_button.setVisible(bool(details))
        self.setProperty("tone", tone)
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(f"{self.text.text()}\n\n{self._details}")
