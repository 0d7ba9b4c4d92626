"""Measures the rows of advice that are in use as one, whenever nothing else runs."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.records import MEASURED, Row
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.tuner.whole.machine import busy_text
from nnjit_studio.ui.state.jobs import Job, JobProblem
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.measure import Visits
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.advice_forms import Plain

JOB = "in_use"
SETTLE_MS = 20
"""After the profile, which begins at once when a model is open; before the verdict."""


class SetMeasuring(QObject):
    """Keeps one wish: to measure what is open now in turns with the file as it was."""

    changed = Signal()
    """``found`` or ``waits`` is another one."""

    def __init__(self, parent: QObject, session: StudioSession, visits: Visits | None) -> None:
        super().__init__(parent)
        self._session, self._visits = session, visits
        self.found: Row | None = None
        self.own: Interval | None = None
        """Time of what is open, by the verdict; None without one."""
        self._wish: tuple[Plain, str, AdviceOptions] | None = None
        self._due = False
        session.in_use_told.connect(self._tell)
        session.busy_changed.connect(lambda _: self._begin_soon())
        session.yielded.connect(self._gave_way)
        session.done.connect(lambda job, _: self._begin_soon())
        session.problem.connect(self._failed)

    @property
    def waits(self) -> bool:
        """Whether it is being measured, or will be."""
        return self._due or self._session.worker.job == JOB

    @property
    def together(self) -> Row | None:
        """What was found, at the time of the verdict where there is one."""
        found = self.found
        if found is None or found.measured is None or self.own is None:
            return found
        return replace(found, measured=found.measured.at(self.own))

    def want(self, plain: Plain, title: str, options: AdviceOptions) -> None:
        """Measure a set anew, as soon as nothing else runs."""
        self._wish, self.found = (plain, title, options), None
        self.own = None
        self.again()

    def again(self) -> None:
        """Measure the last set, where that was stopped."""
        self._due = self._visits is not None and self._wish is not None
        self.changed.emit()
        self._begin_soon()

    def drop(self) -> None:
        """Nothing is in use any more."""
        self._wish = self.found = self.own = None
        self._due = False

    def _begin_soon(self) -> None:
        if self._due:
            QTimer.singleShot(SETTLE_MS, self, self._begin)

    def _begin(self) -> None:
        wish, visits = self._wish, self._visits
        if not self._due or wish is None or visits is None or self._session.busy:
            return
        job = Job(
            JOB, "Measuring the rows in use together",
            lambda bench, _: bench.run(jobs.measure_in_use, visits, *wish),
        )  # fmt: skip
        if self._session.run(job, unasked=True):
            self._due = False

    def _tell(self, row: Row) -> None:
        if self._wish is not None:
            self.found = row
            if row.state == MEASURED and row.measured is not None:
                ms = row.measured.ms
                estimate = Estimate(ms.median, ms.low, ms.high, row.measured.pairs)
                # The header's time until there is a verdict: it had that of the profile.
                self._session.state.take_estimate(estimate, busy_text(row.measured.rate))
            self.changed.emit()

    def _gave_way(self) -> None:
        """Another job took its place: it goes on after that."""
        if self._wish is not None and (self.found is None or self.found.state != MEASURED):
            self._due = True

    def _failed(self, problem: JobProblem) -> None:
        if problem.job == JOB:
            self.changed.emit()
