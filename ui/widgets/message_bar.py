"""One sentence and the next step, above the views and never in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QLabel

from nnjit_studio.ui.widgets.icons import icon
from nnjit_studio.ui.widgets.panel import clear, hbox, named, push_button, tool_button

PASSING_MS = 8000
"""That a message stays which only confirms what a user did."""
ICONS = {"good": "tick", "bad": "warning", "plain": "about"}
Step = tuple[str, Callable[[], object]]
"""A button of the bar: its words, and what it does."""


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
        self.steps = hbox()
        self.icon = QLabel()
        self._tone = "plain"
        self.passing = QTimer(self, interval=PASSING_MS, singleShot=True)
        self.passing.timeout.connect(self.hide)
        close = tool_button("", "Dismiss message", "Dismiss")
        close.setIcon(icon("close"))
        close.clicked.connect(self.hide)
        parts = (self.icon, (self.text, 1), self.steps, self.copy_button, close)
        hbox(*parts, on=self, margins=(12, 5, 8, 5), spacing=8)
        self.hide()

    def say(
        self,
        text: str,
        tone: str = "plain",
        details: str = "",
        steps: Sequence[Step] = (),
        passing: bool = False,
        stays: bool = False,
    ) -> None:
        """Show a message; ``tone`` is ``plain``, ``good`` or ``bad``. A passing one hides itself.

        ``steps`` are what can be done next, a button each; pressing one dismisses the message,
        unless it ``stays`` because each may be wanted.
        """
        self._details, self._tone = details, tone
        self.passing.start() if passing else self.passing.stop()
        clear(self.steps)
        for words, act in steps:
            taken = act if stays else partial(self._take, act)
            self.steps.addWidget(push_button(words, words, act=taken))
        self._draw_icon()
        self.text.setText(text)
        self.text.setAccessibleName(text)
        self.copy_button.setVisible(bool(details))
        self.setProperty("tone", tone)
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()

    def withdraw(self, text: str) -> None:
        """Hide a message that is not true any more, unless another one took its place."""
        if self.text.text() == text:
            self.hide()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self.text.text():
            self._draw_icon()

    def _draw_icon(self) -> None:
        self.icon.setPixmap(icon(ICONS[self._tone]).pixmap(16, 16))

    def _take(self, act: Callable[[], object]) -> None:
        self.hide()
        act()

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(f"{self.text.text()}\n\n{self._details}")
