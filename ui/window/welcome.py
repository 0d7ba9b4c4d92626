"""The welcome page: a model to try, recent models, and the checks of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout

from nnjit_studio import __version__
from nnjit_studio.doctor.checks import Check
from nnjit_studio.samples.first import TRAINED, sample_name
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import Panel, clear, hbox, named, push_button, scaled_font, vbox

SYMBOLS = {"good": "✓", "note": "!", "bad": "✗"}
TONES = {"good": "good", "note": "warn", "bad": "bad"}
NEXT = ("profile", "tune", "export", "palette")
RECENT = 4
SAMPLE = "Try the sample model"

SAMPLES = {
    True: "all-MiniLM-L6-v2, a sentence encoder with its trained weights, 90 MB, written on this "
    "machine. Nothing is downloaded.",
    False: "ViT-tiny with seeded weights, written on this machine. Nothing is downloaded.",
}


class Welcome(QScrollArea):
    """Covers the engine page until a model is open; holds no facts of its own."""

    wants_sample = Signal()
    """The sample model is to be opened."""
    wants_model = Signal(object)
    """``Path``: A recent model is to be opened."""

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._checks: list[Check] = []
        self.sample_button = push_button(SAMPLE, SAMPLE, act=self.wants_sample.emit)
        self.sample_button.setDefault(True)
        self.open_button = push_button(
            "Open model…", "Open model", "Ctrl+O", actions["open"].trigger
        )
        self.examine_button = push_button(
            "Ask browsers and GPUs",
            "Ask browsers and GPUs",
            "Starts every browser that is found, some seconds; on the command line: nnjit doctor",
            actions["examine"].trigger,
        )
        self.copy_button = push_button("Copy", "Copy the results of the checks", act=self._copy)
        title = QLabel("Tune a model for the web")
        title.setFont(scaled_font(self.font(), 1.7, bold=True))
        for button in (self.sample_button, self.open_button):
            button.setMinimumHeight(34)
        self._recent = QVBoxLayout()
        self._table = QGridLayout()
        self._table.setHorizontalSpacing(10)
        self._table.setColumnStretch(2, 1)
        page = Panel()
        vbox(
            None,
            title,
            _muted(f"NNJIT Studio {__version__}. Drop an .onnx file on this window."),
            hbox(self.sample_button, self.open_button, None, spacing=None),
            _muted(SAMPLES[sample_name() == TRAINED]),
            self._recent,
            _heading("Then"),
            _next_steps(actions),
            _heading("This machine"),
            self._table,
            hbox(self.examine_button, self.copy_button, None, spacing=None),
            (None, 2),
            on=page,
            margins=(28, 24, 28, 24),
            spacing=8,
        )
        self.setWidget(page)
        self.show_checks(())

    def show_recent(self, paths: Sequence[Path]) -> None:
        """Buttons for the models that were opened last and are still there."""
        clear(self._recent)
        there = [path for path in paths if path.is_file()][:RECENT]
        if there:
            self._recent.addWidget(_heading("Recent"))
        for path in there:
            button = named(QPushButton(path.name, flat=True), f"Open {path.name}", str(path))
            button.clicked.connect(lambda _=False, path=path: self.wants_model.emit(path))
            self._recent.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)

    def show_checks(self, checks: Sequence[Check]) -> None:
        """The checks of the machine, one line each."""
        self._checks = list(checks)
        clear(self._table)
        self.copy_button.setEnabled(bool(checks))
        if not checks:
            self._table.addWidget(_muted("Not examined yet."), 0, 0, 1, 3)
        for row, check in enumerate(checks):
            words = f"{check.found}. {check.next_step}" if check.next_step else check.found
            cells = (
                named(QLabel(SYMBOLS[check.state]), f"{check.name}: {check.state}"),
                QLabel(check.name),
                _muted(words),
            )
            cells[0].setObjectName(TONES[check.state])
            for place, cell in enumerate(cells):
                self._table.addWidget(cell, row, place, Qt.AlignmentFlag.AlignTop)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.as_text())

    def as_text(self) -> str:
        return "\n".join(
            f"{SYMBOLS[c.state]} {c.name}: {c.found}. {c.next_step}".rstrip() for c in self._checks
        )


def _next_steps(actions: Mapping[str, QAction]) -> QGridLayout:
    """Commands with their keys, so that nobody has to look for them."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(10)
    grid.setColumnStretch(1, 1)
    for row, name in enumerate(NEXT):
        action = actions[name]
        grid.addWidget(QLabel(action.shortcut().toString()), row, 0)
        tip = action.toolTip().removesuffix(f" ({action.shortcut().toString()})")
        grid.addWidget(_muted(f"{action.text().replace('&', '').rstrip('…')}: {tip}"), row, 1)
    return grid


def _heading(words: str) -> QLabel:
    label = QLabel(words)
    label.setFont(scaled_font(label.font(), 1.1, bold=True))
    label.setContentsMargins(0, 10, 0, 0)
    return label


def _muted(words: str) -> QLabel:
    label = QLabel(words, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return quiet(label)
