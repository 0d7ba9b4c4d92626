"""The findings of a profile, each with buttons for what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QScrollArea

from nnjit_studio.analysis.profile.findings import DEVICE, DIFF, LEDGER, MEMORY, SHOW, TUNE, Finding
from nnjit_studio.ui.state.window_words import in_window
from nnjit_studio.ui.widgets.panel import Panel, hbox, push_button, vbox

BUTTONS = {
    TUNE: ("Tune", "Tune the model; this step's workload is selected"),
    SHOW: ("Show", "Select the step in the graph, the table and the timeline"),
    DIFF: ("Compare", "Compare this step's tensors with native ONNX Runtime"),
    LEDGER: ("Show", "The phases of the cold start"),
    MEMORY: ("Show", "The memory's timeline"),
    DEVICE: ("Measure", "Measure this device"),
}


class FindingsView(QScrollArea):
    """One finding a row."""

    asked = Signal(str, object)
    """``str, Finding``: A button was pressed; what for, see
    ``nnjit_studio.analysis.profile.findings``."""

    def __init__(self) -> None:
        super().__init__(widgetResizable=True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Findings")
        self.found: tuple[Finding, ...] = ()
        self.buttons: dict[tuple[int, str], QPushButton] = {}
        self.fill(())

    def text(self) -> str:
        """All sentences, a line each."""
        return "\n".join(in_window(f.text) for f in self.found)

    def fill(self, found: Sequence[Finding]) -> None:
        self.found, self.buttons = tuple(found), {}
        page = Panel()
        column = vbox(on=page, margins=(12, 8, 12, 8), spacing=6)
        for row, finding in enumerate(self.found):
            label = QLabel(
                in_window(finding.text), wordWrap=True, textFormat=Qt.TextFormat.PlainText
            )
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
            buttons = [self._button(row, what, finding) for what in finding.then]
            if buttons:
                column.addLayout(hbox(*buttons, None))
            column.addSpacing(6)
        column.addStretch(1)
        self.setWidget(page)

    def _button(self, row: int, what: str, finding: Finding) -> QPushButton:
        word, tip = BUTTONS[what]
        made = push_button(
            word, f"{word}: finding {row + 1}", tip, act=lambda: self.asked.emit(what, finding)
        )
        self.buttons[row, what] = made
        return made
