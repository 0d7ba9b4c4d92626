"""The running session: what it tries, how long it takes, its budget, pause and stop."""

from __future__ import annotations

import time
from collections.abc import Mapping

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QSlider,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.session import Session
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.theme import SteadyLabel, Theme, named, panel

BUDGETS_S = (2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, None)
"""Stops of the slider; None: until nothing more is expected."""
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Stops of the other one: what tuning may add to the serving model's p95."""
TICK_MS = 250
PHASES = {
    "compile": "Compiling",
    "check": "Checking the result, first {pairs} pairs of samples",
    "duel": "Duel with the kernel that runs, up to {pairs} pairs",
}


def trying_text(trying: ev.Trying | None, names: Mapping[str, str]) -> str:
    """What is tried right now, in words; ``names`` are the workloads' by their keys."""
    if trying is None:
        return ""
    if trying.phase not in PHASES:
        return "Timing the whole model"
    if trying.candidate == DEFAULT_SETTINGS:
        return f"Checking the default kernel  ·  {names.get(trying.workload, trying.workload)}"
    phase = PHASES[trying.phase].format(pairs=trying.pairs)
    return f"{phase}  ·  {names.get(trying.workload, trying.workload)}  ·  {trying.candidate}"


def left_text(state: SessionState, since_s: float, budget_left_s: float | None) -> str:
    """How long it still takes, told ``since_s`` ago; what is not known is said to be so."""
    if budget_left_s is not None and budget_left_s < 1:
        return "The budget is used up: what has begun still ends"
    limit = "" if budget_left_s is None else f"at most {text.elapsed(budget_left_s)} by the budget"
    left_s = state.left[1]
    if left_s is None:
        unknown = "Time left: unknown until a few rounds are measured"
        return f"{unknown}, {limit}" if limit else unknown
    shown_s = max(0.0, left_s - since_s)
    if budget_left_s is not None:
        shown_s = min(shown_s, budget_left_s)
    about = f"About {text.elapsed(shown_s)} left"
    return f"{about}, {limit}" if limit else about


def served_text(served: ev.Served | None) -> str:
    """How the model does that serves meanwhile."""
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
    """What the session goes on from."""
    if not known:
        return ""
    return f"Goes on from what is known: {known} of {total} candidates are in the database"


class TuningPanel(QWidget):
    """Lines about the session, and what the user can do with it.

    Signals
    -------
    budget_chosen(object)
        Seconds for sessions to come, None without a limit; the user moved the slider.
    """

    budget_chosen = Signal(object)

    def __init__(self, session: Session, theme: Theme, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        panel(self)
        self._session = session
        self._heard_s = 0.0
        self._left: tuple[float, float | None] = (0.0, None)
        self.now = SteadyLabel()
        self.left = SteadyLabel()
        self.known = SteadyLabel()
        self.served = SteadyLabel()
        for label, name in (
            (self.now, "Tried right now"), (self.left, "Time left"),
            (self.known, "Known before"), (self.served, "Serving"),
        ):  # fmt: skip
            named(label, name)
        for label in (self.known, self.served):
            label.setObjectName("muted")
        self.buttons = [named(QToolButton(), f"Tuning: {a}") for a in ("tune", "pause", "stop")]
        for button, action in zip(self.buttons, ("tune", "pause", "stop"), strict=True):
            button.setDefaultAction(actions[action])
        self.budget = named(
            QSlider(Qt.Orientation.Horizontal),
            "Tuning budget",
            "Seconds that the session may take from now on; of a running one, too",
        )
        self.budget.setRange(0, len(BUDGETS_S) - 1)
        self.budget.setPageStep(1)
        self.budget.setValue(self.budget.maximum())
        self.budget.valueChanged.connect(self._budget_moved)
        self.budget_label = QLabel()
        self.serve = named(
            QCheckBox("serve meanwhile"),
            "Serve while tuning",
            "From the next start of tuning on: have the page run the model all the time, "
            "and tune in what is left",
        )
        self.share = named(
            QSlider(Qt.Orientation.Horizontal),
            "Share for tuning",
            "What tuning may add to the 95th percentile of the serving model's latency",
        )
        self.share.setRange(0, len(SHARES) - 1)
        self.share.setPageStep(1)
        self.share.setValue(1)
        self.share.valueChanged.connect(self._share_moved)
        self.share_label = QLabel()
        self.serve.toggled.connect(self._name_stops)
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.addWidget(QLabel("time"), 0, 0)
        grid.addWidget(self.budget, 0, 1)
        grid.addWidget(self.budget_label, 0, 2)
        grid.addWidget(self.serve, 1, 0)
        grid.addWidget(self.share, 1, 1)
        grid.addWidget(self.share_label, 1, 2)
        grid.setColumnStretch(1, 1)
        widest = max(
            self.fontMetrics().horizontalAdvance(w) for w in ("until no more gain", "p95 + 100 %  ")
        )
        grid.setColumnMinimumWidth(2, widest)
        bar = QHBoxLayout()
        bar.setSpacing(6)
        for button in self.buttons:
            bar.addWidget(button)
        bar.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 6, 8, 6)
        column.setSpacing(4)
        column.addLayout(bar)
        for label in (self.now, self.left, self.known, self.served):
            column.addWidget(label)
        column.addLayout(grid)
        column.addStretch(1)
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self._tick)
        session.busy_changed.connect(self._busy_changed)
        self._name_stops()
        self.render(frozenset({"now"}))

    @property
    def share_of_serving(self) -> float | None:
        """What sessions may add to the p95 of a model that serves; None: it does not serve."""
        return SHARES[self.share.value()] if self.serve.isChecked() else None

    def show_budget(self, seconds: float | None) -> None:
        """Put the slider where a budget is, or next to it."""
        known = [(i, s) for i, s in enumerate(BUDGETS_S) if s is not None]
        near = len(BUDGETS_S) - 1
        if seconds:
            near = min(known, key=lambda stop: abs(stop[1] - seconds))[0]
        self.budget.blockSignals(True)
        self.budget.setValue(near)
        self.budget.blockSignals(False)
        self._name_stops()

    def render(self, changes: frozenset[str]) -> None:
        """Draw what changed; ``now`` is this panel's own."""
        if not changes & {"now", "model", "phase"}:
            return
        state = self._session.state
        if state.left != self._left:
            self._left, self._heard_s = state.left, time.monotonic()
        names = {w.workload.key: w.workload.name for w in state.workloads.values()}
        running = self._session.busy == "tune"
        self.now.setText(trying_text(state.trying, names) if running else state.phase)
        self.known.setText(known_text(state.known(), state.tried()[1]))
        self.served.setText(served_text(state.served) if running else "")
        self._tick()

    def set_theme(self, theme: Theme) -> None:
        """Nothing here has colours of its own."""

    def _tick(self) -> None:
        session, state = self._session, self._session.state
        if session.busy == "tune":
            limit_s = session.workbench.tuning.seconds_left()
            self.left.setText(left_text(state, time.monotonic() - self._heard_s, limit_s))
        elif session.paused:
            self.left.setText("Profile, compare, try candidates: tuning goes on with F5")
        else:
            self.left.setText("")

    def _busy_changed(self, job: str) -> None:
        if job == "tune":
            self._timer.start()
        else:
            self._timer.stop()
        self.serve.setEnabled(job != "tune")
        self.render(frozenset({"now"}))

    def _budget_moved(self, place: int) -> None:
        self._name_stops()
        if not self._session.set_seconds_left(BUDGETS_S[place]):
            self.budget_chosen.emit(BUDGETS_S[place])
        self._tick()

    def _share_moved(self, place: int) -> None:
        self._name_stops()
        self._session.set_share(SHARES[place])

    def _name_stops(self, *_: object) -> None:
        seconds = BUDGETS_S[self.budget.value()]
        self.budget_label.setText("until no more gain" if seconds is None else f"{seconds:.0f} s")
        self.share.setEnabled(self.serve.isChecked())
        self.share_label.setText(f"p95 + {SHARES[self.share.value()]:.0%}")
