"""What stands in the middle of a table without rows, with a button where a filter hides them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QWidget

from nnjit_studio.ui.widgets.panel import hbox, push_button, vbox


class NothingShown(QWidget):
    """Lies over the rows of a view; ``clear`` is called by its button."""

    def __init__(self, view: QAbstractItemView, title: str, clear: Callable[[], object]) -> None:
        super().__init__(view.viewport())
        self._view, self._clear = view, clear
        self.words = QLabel(wordWrap=True, alignment=Qt.AlignmentFlag.AlignCenter)
        self.words.setObjectName("empty")
        self.button = push_button("Clear the filter", f"{title}: clear the filter", act=self._press)
        vbox(
            None, self.words, hbox(None, self.button, None), None,
            on=self, margins=(24, 0, 24, 0), spacing=8,
        )  # fmt: skip
        view.viewport().installEventFilter(self)
        self.hide()

    def say(self, words: str, filtered: bool = False) -> None:
        """Show a sentence, empty for none, with the button where rows are ``filtered``."""
        self.words.setText(words)
        self.button.setVisible(filtered)
        self.setVisible(bool(words))

    def _press(self) -> None:
        self._clear()
        self._view.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._view.viewport().rect())
        return False
