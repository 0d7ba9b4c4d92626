"""Fields for numbers that say in one sentence what is wrong with them."""

from __future__ import annotations

import math

from PySide6.QtCore import Signal
from PySide6.QtGui import QKeyEvent, Qt
from PySide6.QtWidgets import QLabel, QLineEdit

from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import named

WIDTH = 96


class NumberField(QLineEdit):
    """A number of a range; Up and Down change it by one.

    ``note`` is the label beside it, which has the reason of the value or what is wrong.
    """

    edited = Signal()

    def __init__(
        self, what: str, first: float, span: tuple[float, float], why: str, whole: bool = True
    ) -> None:
        super().__init__(f"{first:g}" if not whole else str(int(first)))
        self.what, self.span, self.why, self._whole = what, span, why, whole
        self.note = quiet(QLabel(why))
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.setFixedWidth(WIDTH)
        named(self, what, f"{what}: {self.range_text}")
        self.textEdited.connect(lambda _: self._check())

    @property
    def range_text(self) -> str:
        low, high = self.span
        return "any number" if math.isinf(high) else f"{low:,.0f} to {high:,.0f}"

    @property
    def number(self) -> float | None:
        """None where the text is none of the range."""
        try:
            number = float(int(self.text())) if self._whole else float(self.text())
        except ValueError:
            return None
        return number if self.span[0] <= number <= self.span[1] else None

    @property
    def problem(self) -> str:
        """One sentence, empty where all is well."""
        kind = "a whole number" if self._whole else "a number"
        span = "" if math.isinf(self.span[1]) else f" from {self.range_text}"
        return "" if self.number is not None else f"{self.what} must be {kind}{span}."

    def show_number(self, number: float) -> None:
        self.setText(str(int(number)) if self._whole else f"{number:g}")
        self._check()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}.get(Qt.Key(event.key()), 0)
        number = self.number
        if not step or number is None:
            super().keyPressEvent(event)
            return
        self.show_number(min(max(number + step, self.span[0]), self.span[1]))

    def _check(self) -> None:
        problem = self.problem
        self.note.setText(problem or self.why)
        self.note.setObjectName("bad" if problem else "muted")
        for widget in (self, self.note):
            widget.setProperty("wrong", bool(problem))
            widget.style().unpolish(widget)
            widget.style().polish(widget)
        self.edited.emit()
