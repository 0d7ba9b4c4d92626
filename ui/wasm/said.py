"""A sentence of a tab about what it does, or why it cannot."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel


class Said(QLabel):
    """Lines that wrap, quiet or in the colour of an error."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.setContentsMargins(10, 2, 10, 4)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.tell(text)

    def tell(self, text: str, tone: str = "muted") -> None:
        """Say a sentence; ``tone`` is ``muted`` or ``bad``."""
        self.setText(text)
        if self.objectName() != tone:
            self.setObjectName(tone)
            self.style().polish(self)  # the name decides the colour
