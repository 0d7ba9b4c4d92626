"""The line above the list while rows are in use: which, of what file, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel

from nnjit_studio.advice.records import KEPT, MEASURED, Advice, Row
from nnjit_studio.advice.text import set_in_use
from nnjit_studio.ui.widgets.panel import hbox, push_button, vbox

WAITS = "What they are worth together is measured when nothing else runs."
ALL_BACK = "Put everything back"
BACK = "Put rows back until the error is within the limit."


class InUseStrip(QFrame):
    """Hidden while nothing is in use; red where the guard refuses the set.

    Parameters
    ----------
    put_back
        Opens the model as it was at first.
    measure
        Measures the set, where that was stopped.
    """

    def __init__(self, put_back: Callable[[], object], measure: Callable[[], object]) -> None:
        super().__init__()
        self.setObjectName("message")
        self.use = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.worth = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.measure_button = push_button(
            "Measure them", "Measure the rows in use",
            "Measure what is open now in turns with the file as it was", measure,
        )  # fmt: skip
        self.back_button = push_button(
            ALL_BACK, ALL_BACK,
            "Open the model as it was before any row was applied", put_back,
        )  # fmt: skip
        words = vbox(self.use, self.worth, spacing=4)
        hbox(
            (words, 1), self.measure_button, self.back_button,
            on=self, margins=(12, 8, 10, 8), spacing=8,
        )  # fmt: skip
        self.hide()

    def show_set(
        self, advice: Advice | None, rows: list[Row], file: Path, found: Row | None, waits: bool
    ) -> None:
        """Name the rows in use.

        Parameters
        ----------
        file
            What is open.
        found
            What was measured of it so far; None for nothing.
        waits
            Whether it is measured, or will be.
        """
        self.setVisible(advice is not None and bool(rows))
        if advice is None or not rows:
            return
        other = any(row.apply.recipe for row in rows)
        made = (
            f" The open file is {file.name}, made from {Path(advice.path).name}." if other else ""
        )
        asks = " ".join(row.asks for row in rows if row.asks)
        self.use.setText(
            f"In use: {', '.join(row.title for row in rows)}.{made}"
            + (f" Ask of your page: {asks}" if asks else "")
        )
        self.use.setToolTip(str(file))
        worth = set_in_use(found, advice) if found else ""
        broken = found is not None and found.state == MEASURED and found.guard.state != KEPT
        if found is not None and broken:
            worth = f"{worth} {found.guard.reason} {BACK}"
        self.worth.setText(worth or (WAITS if waits else "They were not measured together."))
        self.measure_button.setVisible(not waits and (found is None or found.state != MEASURED))
        self._mark("bad" if broken else "plain")

    def _mark(self, tone: str) -> None:
        """The tone of a message bar: its edge, and red words for what the guard refuses."""
        if self.property("tone") == tone:
            return
        self.setProperty("tone", tone)
        self.worth.setObjectName("bad" if tone == "bad" else "")
        for widget in (self, self.worth):
            widget.style().unpolish(widget)
            widget.style().polish(widget)
