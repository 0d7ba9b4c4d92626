"""The findings of a profile, each with buttons for what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QScrollArea

from nnjit_studio.analysis.profile import Finding
from nnjit_studio.analysis.profile.findings import DEVICE, DIFF, LEDGER, MEMORY, SHOW, TUNE
from nnjit_studio.ui.widgets.panel import Panel, hbox, push_button

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
        self.found: tuple[Finding, ...] = ()
        self.buttons: dict[tuple[int, str], QPushButton] = {}
        self.fill(())

    def text(self) -> str:
        """All sentences, a line each."""
        return "\n".join(f.text for f in self.found)

    def fill(self, found: Sequence[Finding]) -> None:
        self.found, self.buttons = tuple(found), {}
        page = Panel()
        grid = QGridLayout(page)
        grid.setContentsMargins(10, 4, 10, 4)
        grid.setVerticalSpacing(3)
        grid.setColumnStretch(0, 1)
        for row, finding in enumerate(self.found):
            label = QLabel(finding.text, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            grid.addWidget(label, row, 0)
            buttons = (self._button(row, what, finding) for what in finding.then)
            grid.addLayout(hbox(*buttons, None, spacing=None), row, 1)
        grid.setRowStretch(len(self.found), 1)
        self.setWidget(page)

    def _button(self, row: int, what: str, finding: Finding) -> QPushButton:
        word, tip = BUTTONS[what]
        made = push_button(
            word, f"{word}: finding {row + 1}", tip, act=lambda: self.asked.emit(what, finding)
        )
        self.buttons[row, what] = made
        return made
