"""The verdict at the top of the window: headline, bars, and what may be done about it."""

from __future__ import annotations

import datetime
import re

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QFont, QPalette
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from nnjit_studio.ui.verdict.bars import Bars
from nnjit_studio.ui.widgets.labels import ElidedLabel, SteadyLabel, quiet
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, push_button, scaled_font, vbox
from nnjit_studio.ui.widgets.theme import PIXELS, Theme
from nnjit_studio.verdict.peers import VERSION
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.text import explanation, figure, table

WORDS = 14
"""Pixels of the words after the large figure."""
SIZE = "14 MB"
INSTALL = f"Install {VERSION}, {SIZE}"
COMPARE, AGAIN, LONGER = "Compare now", "Measure again", "Measure 40 s more"
STOP, FOLDER = "Stop", "From a folder…"
MISSING = "ONNX Runtime Web is not installed. It is fetched only when you ask for it."
PRIMARY = {
    "no peer": INSTALL, "not told apart": LONGER, "few pairs": LONGER, "measuring": STOP,
}  # fmt: skip
TONES = {"faster": "good", "slower": "bad", "measuring": "muted", "not told apart": "muted"}


class VerdictPanel(Panel):
    """Shows a verdict; holds no facts of its own."""

    wants_install = Signal()
    """The pinned ONNX Runtime Web is to be installed."""
    wants_folder = Signal()
    """The user has it somewhere."""
    wants_measuring = Signal(bool)
    """The verdict is to be measured again, for longer where that is true."""
    wants_stop = Signal()
    """What is being measured is enough."""
    told = Signal(object)
    """``Verdict or None``: What is shown now."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("header")
        self.verdict: Verdict | None = None
        self._theme = theme
        self.figure = QLabel()
        self.figure.setFont(_pixels(self.font(), PIXELS["headline"] - 8))
        self.figure.hide()
        self.words = SteadyLabel(characters=16)
        self.words.setFont(_pixels(self.font(), WORDS))
        self.explanation = quiet(QLabel(wordWrap=True))
        self.explanation.setFont(scaled_font(self.font(), 0.92))
        self.explanation.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self.explanation.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.explanation.setMinimumHeight(2 * self.explanation.fontMetrics().lineSpacing())
        self.bars = Bars(theme)
        self.first = push_button(AGAIN, AGAIN, act=self._act)
        self.second = push_button(FOLDER, "Choose a folder that has onnxruntime-web",
                                  act=self.wants_folder.emit)  # fmt: skip
        self.line = ElidedLabel()
        self._whole, self._folded = QWidget(), QWidget()
        self._build()
        self.setMinimumWidth(600)
        self.fold(False)
        self.hide()

    def _build(self) -> None:
        top = hbox(self.figure, (self.words, 1), spacing=8)
        words = vbox(top, (self.explanation, 1), spacing=2)
        buttons = vbox(self.first, self.second, None, spacing=6)
        for button in (self.first, self.second):
            _keep_width(button)
        hbox((words, 1), (self.bars, 2), buttons, on=self._whole, margins=(14, 4, 14, 4),
             spacing=20)  # fmt: skip
        self.unfold = push_button("Show the bars", "Show the bars", act=lambda: self.fold(False))
        hbox((self.line, 1), self.unfold, on=self._folded, margins=(14, 3, 14, 3))
        vbox(self._whole, self._folded, on=self)

    def fold(self, folded: bool) -> None:
        """Show one line in place of the bars, where the views need the height."""
        self._whole.setVisible(not folded)
        self._folded.setVisible(folded)
        line = self._folded.sizeHint().height()
        self.setFixedHeight(line if folded else self.bars.sizeHint().height() + 10)

    def show_verdict(self, verdict: Verdict | None, problem: str = "") -> None:
        """Draw a verdict; ``problem`` is why none is measured."""
        self.verdict = verdict
        self.bars.show_verdict(verdict)
        if verdict is None:
            self._say("", "Not compared yet")
            self.explanation.setText(problem)
            self._tone("muted")
        else:
            self._say(*figure(verdict))
            told = MISSING if self.missing else explanation(verdict)
            self.explanation.setText(problem or _unbroken(told))
            self._tone("warn" if self._rough else TONES.get(verdict.state, ""))
            named(self.bars, table(verdict))
        self.explanation.setToolTip(self.explanation.text() + measured_at(verdict))
        self.line.setText(f"{self.headline}  ·  {self.explanation.text()}")
        self._offer()
        self.show()
        self.told.emit(verdict)

    def _say(self, number: str, words: str) -> None:
        if self.figure.text() != number:  # a text that stays lays nothing out
            self.figure.setText(number)
            self.figure.setVisible(bool(number))
        self.words.setText(words)

    @property
    def headline(self) -> str:
        """All that the large line says."""
        return f"{self.figure.text()} {self.words.text()}".strip()

    @property
    def _rough(self) -> bool:
        verdict, rough = self.verdict, ("busy", "few pairs", "faster")
        return verdict is not None and verdict.busy and verdict.state in rough

    @property
    def missing(self) -> bool:
        """Whether there is no ONNX Runtime Web to compare with."""
        return self.verdict is not None and not self.verdict.versions

    def _offer(self) -> None:
        """The one button that leads on from this state, and the other way to a missing peer."""
        state = self.verdict.state if self.verdict else ""
        text = PRIMARY.get(state, AGAIN) if self.verdict else COMPARE
        self.first.setText(text)
        self.first.setAccessibleName(text)
        self.first.setObjectName("primary" if text in (INSTALL, LONGER) else "")
        self.first.style().unpolish(self.first)
        self.first.style().polish(self.first)
        self.first.setToolTip(
            "Fetches onnxruntime-web from the npm registry, once" if text == INSTALL else ""
        )
        self.second.setVisible(state == "no peer")

    def _act(self) -> None:
        acts = {INSTALL: self.wants_install, STOP: self.wants_stop}
        text = self.first.text()
        if text in acts:
            acts[text].emit()
        else:
            self.wants_measuring.emit(text == LONGER)

    def set_theme(self, theme: Theme) -> None:
        self._theme = self.bars.theme = theme
        self.bars.update()
        if self.verdict is not None:
            self.show_verdict(self.verdict)

    def _tone(self, tone: str) -> None:
        palette = QPalette(self.palette())
        colour = QColor(getattr(self._theme, tone or "text"))
        palette.setColor(QPalette.ColorRole.WindowText, colour)
        plain = QPalette(self.palette())
        plain.setColor(QPalette.ColorRole.WindowText, QColor(self._theme.text))
        self.figure.setPalette(palette)
        self.words.setPalette(plain if self.figure.text() else palette)


def measured_at(verdict: Verdict | None) -> str:
    """A line with the day and the time at which all of it was known; none before that."""
    if verdict is None or verdict.phase or not verdict.created:
        return ""
    when = datetime.datetime.fromisoformat(verdict.created).astimezone()
    return f"\nMeasured {when:%Y-%m-%d, %H:%M}."


def _pixels(font: QFont, pixels: int) -> QFont:
    made = scaled_font(font, 1.0, bold=True)
    made.setPixelSize(pixels)
    return made


def _keep_width(button: QPushButton) -> None:
    """As wide as its longest text, so that nothing moves when that changes."""
    width = max(button.fontMetrics().horizontalAdvance(t) for t in (INSTALL, LONGER, FOLDER))
    button.setMinimumWidth(width + 28)


def _unbroken(words: str) -> str:
    """A time and its interval stay in one line, such as ``75 ms [53..90]``."""
    return re.sub(r" (?=ms\b|µs\b|\[)", "\N{NO-BREAK SPACE}", words)
