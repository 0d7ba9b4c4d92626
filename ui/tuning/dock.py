"""The running session: the candidate it tries, the time left, its budget, pause and stop."""

from __future__ import annotations

import time
from collections.abc import Mapping

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox, QGridLayout, QLabel, QSlider, QToolButton

from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import SteadyLabel, quiet
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, vbox

BUDGETS_S = (2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, None)
"""Stops of the slider; None: until nothing more is expected."""
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Stops of the other one: what tuning may add to the serving model's p95."""
TICK_MS = 250
BUTTONS = ("tune", "pause", "stop")
PHASES = {
    "compile": "Compiling",
    "check": "Checking the result, first {pairs} pairs of samples",
    "duel": "Duel with the kernel that runs, up to {pairs} pairs",
    "place": "Trying the winner inside the model, up to {pairs} pairs",
}


def trying_text(trying: ev.Trying | None) -> str:
    """The candidate that is tried right now."""
    if trying is None:
        return ""
    if trying.phase not in PHASES:
        return "Timing the whole model"
    what = text.workload(trying.workload)
    if trying.candidate == DEFAULT_SETTINGS:
        return f"Checking the default kernel  ·  {what}"
    phase = PHASES[trying.phase].format(pairs=trying.pairs)
    return f"{phase}  ·  {what}  ·  {trying.candidate}"


def left_text(state: SessionState, since_s: float, budget_left_s: float | None) -> str:
    """The time that is left, as it was estimated ``since_s`` ago, or that it is unknown."""
    if budget_left_s is not None and budget_left_s < 1:
        return "The budget is used up: the current measurement still ends"
    limit = "" if budget_left_s is None else f"at most {text.elapsed(budget_left_s)} by the budget"
    left_s = state.left[1]
    if left_s is None:
        unknown = "Time left: known after a few rounds"
        return f"{unknown}, {limit}" if limit else unknown
    shown_s = max(0.0, left_s - since_s)
    if budget_left_s is not None:
        shown_s = min(shown_s, budget_left_s)
    about = f"About {text.elapsed(shown_s)} left"
    return f"{about}, {limit}" if limit else about


def served_text(served: ev.Served | None) -> str:
    """The latency of the model that serves meanwhile."""
    if served is None:
        return ""
    if not served.inferences:
        return "Serving: no inference was answered since the last look"
    quiet = served.p95_reference_ms
    untouched = "" if quiet is None else f", {quiet:.2f} ms untouched"
    return (
        f"Serving: p95 {served.p95_ms:.2f} ms{untouched}; tuning had {served.duty:.0%} of the time"
    )


def known_text(known: int, total: int) -> str:
    """How many candidates the session need not measure again."""
    if not known:
        return ""
    return f"Goes on from what is known: {known} of {total} candidates are in the database"


class TuningPanel(Panel):
    """Lines about the session, and what the user can do with it."""

    budget_chosen = Signal(object)
    """Seconds for sessions to come, None without a limit; the user moved the slider."""

    def __init__(self, session: StudioSession, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self._session = session
        self._heard_s = 0.0
        self._left: tuple[float, float | None] = (0.0, None)
        self.now = named(SteadyLabel(), "Tried right now")
        self.left = named(SteadyLabel(), "Time left")
        self.known = named(quiet(SteadyLabel()), "Known before")
        self.served = named(quiet(SteadyLabel()), "Serving")
        self.buttons = [named(QToolButton(), f"Tuning: {name}") for name in BUTTONS]
        for button, name in zip(self.buttons, BUTTONS, strict=True):
            button.setDefaultAction(actions[name])
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.budget = _slider(
            len(BUDGETS_S),
            "Tuning budget",
            "Seconds that the session may take from now on; of a running one, too",
        )
        self.budget.setValue(self.budget.maximum())
        self.budget.valueChanged.connect(self._budget_moved)
        self.budget_label = QLabel()
        self.serve = named(
            QCheckBox("while it is used"),
            "Tune the model while it is used",
            "From the next start of tuning on: the page runs the model ten times a second, as if "
            "people used it, and tunes in the time that is left",
        )
        self.share = _slider(
            len(SHARES),
            "Share for tuning",
            "By how much tuning may slow down the model that is used meanwhile: 95 of 100 of its "
            "runs (p95) stay within that",
        )
        self.share.setValue(1)
        self.share.valueChanged.connect(self._share_moved)
        self.share_label = QLabel()
        self.share_label.setToolTip(self.share.toolTip())
        self.serve.toggled.connect(self._name_stops)
        lines = (self.now, self.left, self.known, self.served)
        vbox(
            hbox(*self.buttons, None), *lines, self._sliders(), None,
            on=self, margins=(8, 6, 8, 6), spacing=4,
        )  # fmt: skip
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self._tick)
        session.busy_changed.connect(self._busy_changed)
        self._name_stops()
        self.refresh(frozenset({"now"}))

    def _sliders(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        rows = (
            (QLabel("tune for"), self.budget, self.budget_label),
            (self.serve, self.share, self.share_label),
        )
        for row, widgets in enumerate(rows):
            for column, widget in enumerate(widgets):
                grid.addWidget(widget, row, column)
        grid.setColumnStretch(1, 1)
        widest = "until no more gain"
        grid.setColumnMinimumWidth(2, self.fontMetrics().horizontalAdvance(widest))
        return grid

    @property
    def share_of_serving(self) -> float | None:
        """What sessions may add to the p95 of a model that serves; None: it does not serve."""
        return SHARES[self.share.value()] if self.serve.isChecked() else None

    @property
    def budget_s(self) -> float | None:
        """Seconds where the slider stands; None: until nothing more is expected."""
        return BUDGETS_S[self.budget.value()]

    def show_budget(self, seconds: float | None) -> None:
        """Put the slider where a budget is, or next to it."""
        known = [(i, s) for i, s in enumerate(BUDGETS_S) if s is not None]
        near = len(BUDGETS_S) - 1
        if seconds:
            near = min(known, key=lambda stop: abs(stop[1] - seconds))[0]
        with QSignalBlocker(self.budget):
            self.budget.setValue(near)
        self._name_stops()

    def refresh(self, changes: frozenset[str]) -> None:
        if not changes & {"now", "model", "phase"}:
            return
        state = self._session.state
        if state.left != self._left:
            self._left, self._heard_s = state.left, time.monotonic()
        running = self._session.busy == "tune"
        self.now.setText(trying_text(state.trying) if running else state.phase)
        self.known.setText(known_text(state.known(), state.tried()[1]))
        self.served.setText(served_text(state.served) if running else "")
        self._tick()

    def _tick(self) -> None:
        session, state = self._session, self._session.state
        if session.busy == "tune":
            limit_s = session.workbench.tuning.seconds_left()
            self.left.setText(left_text(state, time.monotonic() - self._heard_s, limit_s))
        elif session.paused:
            self.left.setText("The model is free meanwhile; F5 goes on")
        else:
            self.left.setText("")

    def _busy_changed(self, job: str) -> None:
        if job == "tune":
            self._timer.start()
        else:
            self._timer.stop()
        self.serve.setEnabled(job != "tune")
        self.refresh(frozenset({"now"}))

    def _budget_moved(self, place: int) -> None:
        self._name_stops()
        if not self._session.set_seconds_left(BUDGETS_S[place]):
            self.budget_chosen.emit(BUDGETS_S[place])
        self._tick()

    def _share_moved(self, place: int) -> None:
        self._name_stops()
        self._session.set_share(SHARES[place])

    def _name_stops(self, *_: object) -> None:
        seconds = self.budget_s
        self.budget_label.setText("until no more gain" if seconds is None else f"{seconds:.0f} s")
        self.share.setEnabled(self.serve.isChecked())
        self.share_label.setText(f"at most {SHARES[self.share.value()]:.0%} slower")


def _slider(stops: int, name: str, tip: str) -> QSlider:
    slider = named(QSlider(Qt.Orientation.Horizontal), name, tip)
    slider.setRange(0, stops - 1)
    slider.setPageStep(1)
    return slider
