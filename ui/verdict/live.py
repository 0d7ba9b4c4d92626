"""The verdict while its model is tuned: its bars follow the running model, and say how old they
are."""

from __future__ import annotations

import time
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer

from nnjit_studio.records.gain import ModelGain
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.verdict.panel import VerdictPanel
from nnjit_studio.ui.widgets import text
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.live import may_follow, so_far, stands, times
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.text import timing

JOBS = ("tune", "tune_plan")
EVERY_S = 3.0
"""From one look at the pairs to the next: bars that jump cannot be read."""
AGE_MS = 1000


class LiveVerdict(QObject):
    """Shows the last measured verdict of the open model with what tuning has gained since.

    The pairs are those that a session takes of the whole model between its rounds, within its own
    budget, and the duels of rounds of the plan: nothing is measured for the bars alone.
    """

    def __init__(self, session: StudioSession, panel: VerdictPanel) -> None:
        super().__init__(panel)
        self._session, self._panel = session, panel
        self.measured: Verdict | None = None
        self.answer: Verdict | None = None
        """Of the open model, the last one that was measured to its end and states a ratio."""
        self._shown: tuple[Verdict, float] | None = None
        self._seen: object = None
        session.verdict_told.connect(self._keep)
        session.refreshed.connect(lambda _: self.look())
        session.busy_changed.connect(self._busy_changed)
        session.done.connect(self._done)
        panel.told.connect(self._told)
        self._timer = QTimer(self, interval=AGE_MS)
        self._timer.timeout.connect(self._age)

    def look(self) -> None:
        """Show what new pairs say, unless the last ones were shown just now."""
        gain, told = self._gain()
        measured, now_s = self.measured, time.monotonic()
        if measured is None or gain is None or told == self._seen:
            return
        if self._shown is not None and now_s - self._shown[1] < EVERY_S:
            return
        self._seen = told
        machine = self._session.state.machine
        self._shown = so_far(measured, gain, machine.rate if machine else None), now_s
        self._timer.start()
        self._age()

    def _gain(self) -> tuple[Interval | None, object]:
        """How much faster the model is than untuned, and what tells it from the last answer."""
        state, job = self._session.state, self._session.busy
        if state.code == "WGSL":
            return None, None  # the verdict is of Wasm
        if job == JOBS[0] and state.compared is not None:
            return _interval(state.compared.gain), state.compared
        if job == JOBS[1] and state.plan is not None and state.plan.gain is not None:
            before = self.measured.gain if self.measured else None
            gain = state.plan.gain
            return times(before, gain) if before else gain, gain
        return None, None

    def _age(self) -> None:
        if self._shown is not None and self.measured is not None:
            verdict, shown_s = self._shown
            age = text.elapsed(time.monotonic() - shown_s)
            self._panel.show_verdict(verdict, words(verdict, self.measured, age))

    def _keep(self, verdict: Verdict) -> None:
        if not verdict.phase and verdict.ratio is not None:
            self.answer = verdict
        if self.answer is not None and stands(self.answer, verdict):
            verdict = self.answer
        if may_follow(verdict):
            self.measured = replace(verdict, phase="")

    def _busy_changed(self, job: str) -> None:
        if job in JOBS:
            self._seen = self._session.state.compared

    def _told(self, verdict: Verdict | None) -> None:
        """What was measured, or opened, takes the place of what follows from pairs."""
        if self._shown is not None and verdict is not self._shown[0]:
            self._shown = None
            self._timer.stop()

    def _done(self, job: str, _: object) -> None:
        if job in ("open", "feed"):
            self.measured = self.answer = None


def _interval(gain: ModelGain) -> Interval | None:
    if gain.ratio is None or gain.low is None or gain.high is None:
        return None
    return Interval(gain.ratio, gain.low, gain.high)


def words(verdict: Verdict, measured: Verdict, age: str) -> str:
    """The figures below the headline, where they come from, and how old they are."""
    if verdict.ratio is None or verdict.ratio != measured.ratio:
        busy = "machine busy: rough"
        return f"{_figures(verdict, busy)}. Tuning: from pairs in the running model, {age} ago."
    gain = verdict.gain if verdict.gain != measured.gain else None
    since = f"gain [{gain.low:.2f}..{gain.high:.2f}] not told apart" if gain else "too busy to tell"
    return f"{_figures(measured)}. Tuning since: {since}, {age} ago."


def again(known: Verdict, later: Verdict) -> str:
    """The figures of an answer that stands, and what was found when it was measured again.

    With the headline's figure above it there is room for two lines in a window of 1280 pixels.
    """
    ours = later.ours
    found = f": {timing(ours.ms, rough=True)}" if ours and ours.ms else ""
    busy = f"at {later.rate:.0%} of the usual rate"
    why = busy if later.state == "busy" else "too few pairs"
    return f"{_figures(known)}. Again, {why}, no ratio{found}."


def _figures(verdict: Verdict, busy: str = "rough") -> str:
    ours, ratio = verdict.ours, verdict.ratio
    parts = [timing(ours.ms, verdict.busy)] if ours and ours.ms else []
    if ratio is not None:
        parts.append(f"ratio [{ratio.low:.2f}..{ratio.high:.2f}]")
    if verdict.busy:
        parts.append(busy)
    return ", ".join(parts)
