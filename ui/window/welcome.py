"""The welcome page: a model to try, recent models, and the checks of this machine."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QScrollArea

from nnjit_studio import __version__
from nnjit_studio.doctor.checks import Check
from nnjit_studio.samples.first import WORDS, sample_names, sample_path
from nnjit_studio.ui.files.recent import day_in_words
from nnjit_studio.ui.verdict.small import SmallBars
from nnjit_studio.ui.widgets.fonts import text_font
from nnjit_studio.ui.widgets.icons import icon
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import (
    Panel,
    clear,
    ground,
    hbox,
    named,
    push_button,
    scaled_font,
    vbox,
)
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.text import headline, milliseconds

SYMBOLS = {"good": "✓", "note": "!", "bad": "✗"}
TONES = {"good": "good", "note": "warn", "bad": "bad"}
NEXT = ("profile", "advise", "tune", "export", "palette")
RECENT = 6
COMPARED = ("faster", "slower", "not told apart")
"""States of a verdict whose headline has no time."""
SAMPLE = "Try the sample model"
FASTER = "Make a model faster…"
DROPS = ".onnx model, .wasm module, bundle, session, records or profile"
EXAMINES = "This machine is examined first, which takes some seconds, on a busy one minutes."
GAVE_WAY = "The examination gave way to a model. It is made by itself as soon as nothing else runs."
AGAIN = "“Ask browsers and GPUs” examines it again."
FAILED = f"This machine could not be examined. {AGAIN}"
STOPPED = f"The examination was stopped. {AGAIN}"

NO_VERDICTS: Mapping[str, Verdict] = MappingProxyType({})
SAMPLES = "Written on this machine when they are opened first; nothing is downloaded."


class Welcome(QScrollArea):
    """Covers the stage until a model is open; holds no facts of its own."""

    wants_faster = Signal()
    """A model is to be chosen, opened, and what makes it faster measured."""
    wants_sample = Signal(str)
    """A sample model is to be opened, by its name; empty for the one to try first."""
    wants_model = Signal(object)
    """``Path``: A recent model is to be opened."""

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        ground(self)  # the stage is behind it, and behind its scroll bar
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._checks: list[Check] = []
        self.sample_button = push_button(SAMPLE, SAMPLE, act=lambda: self.wants_sample.emit(""))
        self.sample_button.setDefault(True)
        self.open_button = push_button(
            "Open model…", "Open model", "Ctrl+O", actions["open"].trigger
        )
        self.faster_button = push_button(
            FASTER, FASTER,
            "Choose a model: threads, smaller weights and other forms are measured and ranked, "
            "each with its error and one click to apply it",
            self.wants_faster.emit,
        )  # fmt: skip
        self.examine_button = push_button(
            "Ask browsers and GPUs",
            "Ask browsers and GPUs",
            "Starts every browser that is found, some seconds; on the command line: nnjit doctor",
            actions["examine"].trigger,
        )
        self.copy_button = push_button("Copy", "Copy the results of the checks", act=self._copy)
        self.open_button.setObjectName("primary")
        for button in (self.sample_button, self.open_button, self.faster_button):
            button.setMinimumSize(170, 34)
        self._recent, self._samples = _models(), _models()
        self._table = QGridLayout()
        self._table.setHorizontalSpacing(10)
        self._table.setVerticalSpacing(8)
        self._table.setColumnStretch(2, 1)
        self.setWidget(self._page(actions))
        self.say_of_machine(EXAMINES)

    def _page(self, actions: Mapping[str, QAction]) -> Panel:
        title = QLabel("Make a neural network fast in the browser", wordWrap=True)
        title.setFont(text_font("title", 600))
        page, drop, machine = Panel(), QFrame(), QFrame()
        drop.setObjectName("drop")
        machine.setObjectName("card")
        self.recent_heading = _heading("Recent")
        hbox(
            (vbox(None, _heading("Drop a file here"), _muted(DROPS), None, spacing=4), 1),
            vbox(self.open_button, self.faster_button, self.sample_button, spacing=8),
            on=drop, margins=(24, 20, 24, 20), spacing=24,
        )  # fmt: skip
        left = vbox(
            title,
            _muted(f"Open a model and see what it takes on this machine. Version {__version__}."),
            drop,
            self.recent_heading,
            self._recent,
            _heading("Samples"),
            self._samples,
            _muted(SAMPLES),
            _heading("Then"),
            _next_steps(actions),
            None,
            spacing=10,
        )
        vbox(
            _heading("This machine"),
            self._table,
            hbox(self.examine_button, self.copy_button, None, spacing=8),
            on=machine, margins=(16, 8, 16, 16), spacing=10,
        )  # fmt: skip
        right = vbox(machine, None)
        hbox(None, (left, 24), (right, 12), None, on=page, margins=(24, 40, 24, 24), spacing=40)
        return page

    def show_recent(
        self, models: Sequence[tuple[Path, str]], verdicts: Mapping[str, Verdict] = NO_VERDICTS
    ) -> None:
        """Models that were opened last and are still there, each with the day in words.

        ``verdicts`` are the last ones by paths.
        """
        clear(self._recent)
        there = [(path, day) for path, day in models if path.is_file()][:RECENT]
        self.recent_heading.setVisible(bool(there))
        for row, (path, day) in enumerate(there):
            button = _model(path.name, str(path))
            button.clicked.connect(lambda _=False, path=path: self.wants_model.emit(path))
            folder = _short(path.parent)
            _show_model(self._recent, row, button, folder, verdicts.get(str(path)))
            self._recent.addWidget(quiet(QLabel(day)), row, 4, Qt.AlignmentFlag.AlignRight)

    def show_samples(self, verdicts: Mapping[str, Verdict] = NO_VERDICTS) -> None:
        """The samples, each with its last verdict."""
        clear(self._samples)
        for row, name in enumerate(sample_names()):
            button = _model(name, WORDS[name])
            button.clicked.connect(lambda _=False, name=name: self.wants_sample.emit(name))
            _show_model(
                self._samples, row, button, WORDS[name], verdicts.get(str(sample_path(name)))
            )

    def show_checks(self, checks: Sequence[Check]) -> None:
        """The checks of the machine, one line each."""
        self._checks = list(checks)
        clear(self._table)
        self.copy_button.setEnabled(bool(checks))
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

    def say_of_machine(self, words: str) -> None:
        """A sentence in place of the checks, while there are none."""
        self.show_checks(())
        self._table.addWidget(_muted(words), 0, 0, 1, 3)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.as_text())

    def as_text(self) -> str:
        return "\n".join(
            f"{SYMBOLS[c.state]} {c.name}: {c.found}. {c.next_step}".rstrip() for c in self._checks
        )


def _models() -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(2)
    grid.setColumnStretch(1, 1)
    return grid


def _model(name: str, tip: str) -> QPushButton:
    button = named(QPushButton(name, flat=True), f"Open {name}", tip)
    button.setIcon(icon("graph"))
    return button


def _show_model(
    grid: QGridLayout, row: int, button: QPushButton, about: str, verdict: Verdict | None
) -> None:
    """A line of a list: the model, a few words, and what was measured of it last."""
    grid.addWidget(button, row, 0)
    grid.addWidget(quiet(ElidedLabel(about)), row, 1)
    if verdict is not None:
        grid.addWidget(SmallBars(verdict), row, 2)
        told = QLabel(result_text(verdict))
        grid.addWidget(named(told, told.text(), f"Measured {measured_day(verdict)}"), row, 3)


def result_text(verdict: Verdict) -> str:
    """The headline, and the time where it has none, behind a comma."""
    ours = verdict.ours
    if ours is None or ours.ms is None or verdict.state not in COMPARED:
        return headline(verdict)
    return f"{headline(verdict)}, {milliseconds(ours.ms.median, 2 if verdict.busy else 3)}"


def measured_day(verdict: Verdict) -> str:
    """When a verdict was measured, in words."""
    try:
        return day_in_words(datetime.datetime.fromisoformat(verdict.created).date())
    except ValueError:
        return "some time ago"


def _short(folder: Path) -> str:
    home = Path.home()
    inside = folder.is_relative_to(home)
    return str(Path("~", folder.relative_to(home)) if inside else folder)


def _next_steps(actions: Mapping[str, QAction]) -> QGridLayout:
    """What comes after opening, with the keys, so that nobody has to look for them."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(10)
    grid.setColumnStretch(1, 1)
    for row, name in enumerate(NEXT):
        action = actions[name]
        keys = action.shortcut().toString()
        tip = action.toolTip().removesuffix(f" ({keys})")
        grid.addWidget(QLabel(action.text().replace("&", "").rstrip("…")), row, 0)
        grid.addWidget(_muted(tip), row, 1)
        grid.addWidget(_muted(keys), row, 2)
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
