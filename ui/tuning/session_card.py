"""The card at the end of a session: what changed, what it is worth, what is left, what is next."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QToolButton

from nnjit_studio.analysis.report import (
    candidates_text,
    left_text,
    model_gain,
    model_times,
    peak_text,
    unchecked_text,
)
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.dock.feature import COMPARE
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.labels import ElidedLabel, WholeLabel, quiet
from nnjit_studio.ui.widgets.panel import hbox, named, push_button, scaled_font, vbox

BUTTONS = {
    "advise": "Make it faster",
    "export": "Export",
    COMPARE: "Compare",
    "report": "Report",
}
"""Names of the next steps, by their actions."""
SPARED = (BUTTONS[COMPARE], BUTTONS["report"])
"""Steps that menus and keys take too, without a button where there is no room for it."""
NARROW = 1000
"""Pixels of width below which a result has no room beside the title."""
RESUME = "Resume"
RESUME_TIP = "Tune on from here: what was measured is in the database and is not tried again"
REASONS = {
    "time": "the time was used up",
    "converged": "nothing more to gain is expected",
    "exhausted": "every candidate was tried",
    "cancelled": "stopped",
}


def _nothing_tried(summary: ev.Finished) -> bool:
    return summary.reason == "cancelled" and not summary.outcomes


def worth(summary: ev.Finished) -> str:
    """What the session is worth, as pairs of the whole model tell it.

    Without two times that are told apart there is none: the header has that of now, with its
    interval. Empty where nothing was tried.
    """
    if _nothing_tried(summary):
        return ""
    data = summary.to_json()
    times = f"{model_times(data, '→')} an inference"
    what = times if summary.gain.told_apart else "Time of an inference"
    return f"{what}: {model_gain(data)}"


def remaining(summary: ev.Finished) -> str:
    """How far the kernels are from the machine's peak, and what that leaves at most.

    Nothing where the machine was busy: the peak is that of a quiet one.
    """
    if summary.warning or _nothing_tried(summary):
        return ""
    told = peak_text(summary.to_json())
    if not told or summary.of_peak is None:
        return ""
    share = sum(w.share for w in summary.workloads if w.candidates)
    left = f"; at most {(1 - summary.of_peak) * share:.0%} of the time is left" if share else ""
    return f"{told[:1].upper()}{told[1:]}{left}."


def title(summary: ev.Finished) -> str:
    """Why the session ended; where it gained nothing, that nothing is left."""
    left = left_text(summary.to_json())
    if left:
        return f"{left[:1].upper()}{left[1:]}"
    if _nothing_tried(summary):
        return "Tuning was stopped before any candidate was measured"
    return f"Tuning has ended: {REASONS.get(summary.reason, summary.reason)}"


class SessionCard(QFrame):
    """Hidden until a session has ended, and from the moment when somebody closes it."""

    opened = Signal(bool)
    """It was shown, or closed."""

    def __init__(self, session: StudioSession, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self.setObjectName("message")
        named(self, "Result of the session")
        self._session, self._shown = session, session.state.summary
        self._narrow = False
        self.title = ElidedLabel()
        self.title.setFont(scaled_font(self.font(), 1.15, bold=True))
        self.worth = ElidedLabel()
        self.facts = quiet(WholeLabel())
        self.warning = named(QLabel(alignment=Qt.AlignmentFlag.AlignCenter), "Machine")
        self.warning.setObjectName("badge")
        self.buttons = [
            _button(name, actions[action]) for action, name in BUTTONS.items() if action in actions
        ]
        self.resume = _button(RESUME, actions["tune"])
        self.resume.setToolTip(RESUME_TIP)
        close = push_button("Close", "Close the result", act=lambda: self._put(False))
        self._first = hbox(self.title, self.warning, (self.worth, 1), spacing=12)
        self._second = hbox((self.facts, 1), spacing=12)
        hbox(
            (vbox(self._first, self._second, spacing=2), 1),
            self.resume, *self.buttons, close, on=self, margins=(14, 6, 10, 6), spacing=4,
        )  # fmt: skip
        session.refreshed.connect(lambda _: self.refresh())
        self.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the second line tells what the session is worth, not the rest."""
        self._narrow = event.size().width() < NARROW
        (self._second if self._narrow else self._first).addWidget(self.worth, 1)
        self._show_rest()

    def _show_rest(self) -> None:
        alone = self._narrow and bool(self.worth.text())
        for button in self.buttons:
            button.setHidden(self._narrow and button.text() in SPARED)
        self.facts.setVisible(bool(self.facts.text()) and not alone)

    def refresh(self) -> None:
        """Follow the session: a new result is shown, the start of another hides it."""
        summary = self._session.state.summary
        if summary is self._shown:
            return
        self._shown = summary
        if summary is not None:
            self._show(summary)
        self._put(summary is not None)

    def _put(self, shown: bool) -> None:
        self.setVisible(shown)
        self.opened.emit(shown)

    def _show(self, summary: ev.Finished) -> None:
        self.title.setText(title(summary))
        self.worth.setText(worth(summary))
        told = summary.to_json()
        tried = filter(None, (candidates_text(told), unchecked_text(told)))
        facts = filter(None, ("; ".join(tried), remaining(summary).removesuffix(".")))
        self.facts.setText("".join(f"{fact}. " for fact in facts).rstrip())
        self.worth.tip = self.facts.text()
        self.resume.setVisible(self._session.state.goes_on)
        self._show_rest()
        self.warning.setText(summary.warning.partition(":")[0])
        self.warning.setToolTip(summary.warning)
        self.warning.setVisible(bool(summary.warning))
        shown = (self.title, self.worth, self.facts)
        said = [*(label.text().removesuffix(".") for label in shown), summary.warning]
        self.setAccessibleDescription(". ".join(filter(None, said)))


def _button(name: str, action: QAction) -> QToolButton:
    """A step in words: the action alone would show its icon."""
    button = named(QToolButton(), f"Next: {name}", action.toolTip())
    button.setText(name)
    button.setEnabled(action.isEnabled())
    button.clicked.connect(action.trigger)
    action.changed.connect(lambda: button.setEnabled(action.isEnabled()))
    return button
