"""The session of the window: jobs on the workbench in, refreshed state out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from nnjit_studio.advice.records import Advice, Row
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.errors import UserError
from nnjit_studio.generation.session import TextEvent, TextSession
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.survey import Survey
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.tuner import events as ev
from nnjit_studio.tuner.whole.machine import busy_text
from nnjit_studio.ui.state import event_log
from nnjit_studio.ui.state.jobs import Job, JobProblem, held_back, reader
from nnjit_studio.ui.state.latest_events import LatestEvents
from nnjit_studio.ui.state.openings import Openings
from nnjit_studio.ui.state.plan import is_plan
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.state.yielded import Answer, Asked, Imported, Phase, Work, phases, problems
from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.workbench import Workbench, jobs
from nnjit_studio.workbench.jobs.page_form import PageForm
from nnjit_studio.workbench.jobs.refused import RefusedRun

log = logging.getLogger(__name__)

SERVE_EVERY_MS = 100.0
"""From one request to the next, of a model that serves while it is tuned in the window."""


class StudioSession(QObject):
    """Runs the jobs of the window one after the other and keeps their state.

    ``results`` are what jobs on the open model returned last, by their names.
    """

    surveyed = Signal(object)
    """``Survey``: A file was read; its raw graph can be shown, whatever becomes of it."""
    asked = Signal(object)
    """``Survey``: The user is to say sizes; nothing runs meanwhile."""
    abandoned = Signal()
    """The user did not: what was open before is shown again."""
    imported = Signal(object)
    """``OpenModel``: A model that is about to be open, unless ``problem`` tells otherwise."""
    refreshed = Signal(frozenset)
    """What changed: names of ``state.VIEWS``."""
    busy_changed = Signal(str)
    """The name of the running job, or ``""``."""
    done = Signal(str, object)
    """A job returned; ``pause`` when tuning did, to go on later."""
    yielded = Signal()
    """A job that nobody asked for gave way to a user's."""
    problem = Signal(object)
    """``JobProblem``: A job failed; what was shown before is still true."""
    records = Signal(list)
    """What the kernel database has of the open model's workloads, newest first."""
    verdict_told = Signal(object)
    """``Verdict``: What is known of the open model in each engine, while that is measured."""
    refused_told = Signal(object)
    """``RefusedRun``: What is known of a model that was not imported, while it is measured."""
    advice_told = Signal(object)
    """``Advice``: What is known of other forms of the open model, while they are measured."""
    in_use_told = Signal(object)
    """``Row``: What is known of the rows of advice that are in use, while they are measured."""
    device_changed = Signal(object)
    """``MeasuredDevice or None``: The measurements of this device were read or taken again."""

    def __init__(self, workbench: Workbench, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.workbench = workbench
        self.state = SessionState()
        self.texts = TextSession(workbench.page)
        self.events = LatestEvents()
        self.results: dict[str, object] = {}
        self.budget_s: float | None = None
        self._started_s, self._idle_phase = 0.0, ""
        self._serving = self._stopping = self._unasked = self._ending = self._leaving = False
        self.held = False
        """Something is measured beside the session: nothing that measures begins."""
        self._then: Callable[[], object] | None = None
        self.openings = Openings(workbench)
        self._told = {Survey: self.surveyed, Verdict: self.verdict_told, Advice: self.advice_told}
        self._told |= {RefusedRun: self.refused_told, Row: self.in_use_told}
        self._next: tuple[str, str, Work] | None = None
        self.worker = Worker(self)
        self.worker.yielded.connect(self._take)
        self.worker.returned.connect(self._returned)
        self.worker.failed.connect(self._failed)
        self.reader = reader(self, self.records.emit, self.problem.emit)
        self.device_reader = reader(self, self.device_changed.emit, self.problem.emit)

    @property
    def busy(self) -> str:
        """The job that a user asked for, running or about to; others give way to it."""
        if self._next is not None:
            return self._next[0]
        return "" if self._unasked else self.worker.job

    @property
    def running(self) -> str:
        """The job that runs, asked for or not."""
        return self.worker.job

    @property
    def elapsed_s(self) -> float:
        """Seconds since the running job began; 0 when idle."""
        return time.monotonic() - self._started_s if self.busy else 0.0

    # Jobs

    def run(self, job: Job, unasked: bool = False) -> bool:
        """Run a job; False when another one is running, or it needs a model and none is open.

        One that is ``unasked`` for disables nothing, and ends for the next one of a user's.
        """
        held = unasked and (self.held or self.worker.job)
        if held or (job.needs_model and self.state.model is None):
            return False
        bench = self.workbench
        return self._start(job.name, job.phase, lambda emit: job.work(bench, phases(emit)), unasked)

    def give_way(self) -> None:
        """Have a job that nobody asked for end soon; ``yielded`` tells who began it."""
        if self._unasked and self.worker.job and self._next is None:
            self._leaving = True
            self.workbench.page.cancel()

    def when_idle(self, then: Callable[[], object]) -> None:
        """Have something called when the running job has ended."""
        self._then = then

    def after(self, job: str, then: Callable[[], object]) -> bool:
        """Whether this job runs now; ``then`` is called when it has ended, the last one alone."""
        if self.busy == job:
            self._then = then
        return self.busy == job

    def open(self, path: Path, answer: Answer = lambda survey: {}) -> bool:
        """Read a file and import it; False when another job is running.

        ``answer`` is called in the job's thread. Where it knows no inputs, the job ends and
        ``asked`` tells the window.
        """
        work = self.openings.file(path, answer)
        return self._start("open", f"Reading {path.name}", work)

    def open_sample(self, name: str = "") -> bool:
        """Write a sample model, if need be, and open it; False when another job is running."""
        return self._start("open", "Opening the sample model", self.openings.sample(name))

    def open_form(self, path: Path, form: PageForm, feeds: Feeds, made: Row | None = None) -> bool:
        """Open the open model again, imported and run in another way; on failure it stays as it is.

        Another model is opened as before all this. ``made`` is the row that makes the file first.
        """
        work = self.openings.form(path, form, feeds, made)
        return self._start("open", "Opening the model in another form", work)

    def read_records(self) -> bool:
        """Read the kernel database in the second worker, also while tuning."""
        return self.reader.start("records", lambda _: self.workbench.run(jobs.records))

    def read_device(self) -> bool:
        """Read what was last measured of this device, in a worker of its own."""
        return self.device_reader.start("device", lambda _: self.workbench.page.measured_device())

    def try_candidate(self, settings: str) -> bool:
        """Measure a candidate of the selected workload: next in a running session, or at once.

        False when another job is running.
        """
        key = self.state.selected
        if self.busy == "tune":
            return self.workbench.tuning.request(key, settings)
        return self.run(
            Job(
                "try",
                f"Measuring {settings}",
                lambda bench, _: bench.run(jobs.try_candidate, key, settings),
            )
        )

    # Tuning

    @property
    def paused(self) -> bool:
        """Whether a session of the open model waits to go on; other jobs may run meanwhile."""
        return self.state.paused

    def tune(self, seconds: float | None = None, share: float | None = None) -> bool:
        """Tune the open model; False when there is none or a job is running.

        With ``share`` the model serves meanwhile, and tuning may add so much to its p95.
        """
        if self.state.model is None or self.busy:
            return False
        self.budget_s, self._serving = seconds, share is not None
        serve = None if share is None else ServeOptions(SERVE_EVERY_MS, share)
        tuning = self.workbench.tuning
        return self._start("tune", "Starting", lambda _: tuning.start(seconds, serve=serve))

    def pause(self) -> None:
        """Have the running session pause after its round, or go on with the paused one."""
        if self.paused:
            self.resume()
        elif self.busy == "tune" and self.workbench.tuning.pause():
            self.state.set_phase("Pausing after this round")
            self.refresh()

    def resume(self, stop: bool = False) -> bool:
        """Go on with the paused session, or end it; False when there is none or a job runs."""
        tuning, phase = self.workbench.tuning, "Stopping" if stop else "Resuming"
        return self.paused and self._start("tune", phase, lambda _: tuning.resume(stop=stop))

    def set_seconds_left(self, seconds: float | None) -> bool:
        """Change the budget of the session; False when there is none."""
        if self.busy != "tune" and not self.paused:
            return False
        self.budget_s = None if seconds is None else self.elapsed_s + seconds
        return self.workbench.tuning.set_seconds_left(seconds)

    def set_share(self, share: float) -> None:
        """Change what tuning may add to the p95 of the model that serves."""
        if self._serving:
            self.workbench.tuning.set_serving_budget(share)

    def cancel_all(self) -> None:
        """End whatever runs soon, what nobody asked for too; nothing follows."""
        self._next, self._stopping, self._ending = None, True, True
        self.workbench.page.end()

    def cancel(self) -> None:
        """End the running job soon, or the paused session with its summary."""
        if self._next is not None:
            self._next = None
            self.busy_changed.emit("")
        elif self.worker.job:
            self._stopping = True
            self.state.set_phase("Stopping")
            self.refresh()
            self.workbench.page.cancel()
        else:
            self.resume(stop=True)

    # State

    def select(self, key: str) -> None:
        """Select a workload in all views."""
        if self.state.select(key):
            self.refresh()

    def select_next(self, step: int) -> None:
        """Select the workload ``step`` places further down by share of time."""
        keys = [w.workload.key for w in self.state.by_share()]
        if keys:
            selected = self.state.selected
            place = keys.index(selected) + step if selected in keys else 0
            self.select(keys[place % len(keys)])

    def refresh(self) -> None:
        """Tell the views what changed since they were told last."""
        changes = self.state.take_changes()
        if changes:
            self.refreshed.emit(changes)

    def _start(self, job: str, phase: str, work: Work, unasked: bool = False) -> bool:
        if self.busy or self._ending:
            return False
        if self.held and (problem := held_back(job)) is not None:
            self.problem.emit(problem)
            return False
        if self.worker.job:
            self._next = job, phase, work
            self.workbench.page.cancel()
            self.busy_changed.emit(job)
            return True
        self._unasked, self._stopping = unasked, False
        self._started_s, self._idle_phase = time.monotonic(), self.state.phase
        self.worker.start(job, work)
        self.state.set_phase(phase)
        self.busy_changed.emit(self.busy)
        self.refresh()
        return True

    def _give_way(self) -> bool:
        """Whether what ended was to make room; a user's job that waited for it runs now."""
        waiting, self._next, self._unasked = self._next, None, False
        leaving, self._leaving = self._leaving, False
        if waiting is None and not leaving:
            return False
        self.state.set_phase(self._idle_phase)
        self.yielded.emit()
        if waiting is not None:
            return self._start(*waiting)
        self.busy_changed.emit("")
        self.refresh()
        return True

    def _take(self, items: list[Any]) -> None:
        events = [item for item in items if isinstance(item, ev.Event)]
        self.events.keep(event for event in events if not is_plan(event))
        self.state.reduce(events)
        self.state.take_text(item for item in items if isinstance(item, TextEvent))
        telling = (item for item in items if isinstance(item, (Phase, Advice, RefusedRun)))
        told = [words for item in telling if (words := _phase_of(item))]
        if told:
            self.state.set_phase(told[-1][:1].upper() + told[-1][1:])
        if self._stopping and self.state.summary is None:
            self.state.set_phase("Stopping")
        if self._next is not None or self._leaving:  # the first cancel may have come too early
            self.workbench.page.cancel()
        for item in items:
            if isinstance(item, Survey):
                self.state.survey = item
            if type(item) in self._told:
                self._told[type(item)].emit(item)
            elif isinstance(item, Imported):
                self.imported.emit(item.model)
            elif isinstance(item, Phase):
                log.info("%s", item.text)
            elif isinstance(item, ev.Event):
                event_log.note(item)
        for problem in problems(events):
            self.problem.emit(problem)
        self.refresh()

    def _returned(self, job: str, result: Any) -> None:
        log.info("%s ended after %.1f s", job, time.monotonic() - self._started_s)
        if self._give_way():
            return
        if isinstance(result, Asked):
            self.state.set_phase(self._idle_phase)
            self._end(job)
            self.asked.emit(result.survey)
            return
        if job == "open":
            self.state.open(result)
            self.results = {}
        elif job != "tune":
            self.state.set_phase(self._idle_phase)
        self.results[job] = result
        if isinstance(result, ModelProfile):
            self.state.take_profile([step.ms for step in result.steps])
            self.state.take_estimate(result.warm.estimate, busy_text(result.machine_rate))
        if job == "check_text":
            self.state.take_check(result)
        if job == "device":
            self.device_changed.emit(result)
        self._end(job)
        self.done.emit("pause" if job == "tune" and self.paused else job, result)
        self._go_on()

    def _failed(self, job: str, error: BaseException) -> None:
        if self._give_way():
            return
        expected = isinstance(error, UserError)  # its sentence is enough
        level = logging.INFO if expected and self._stopping else logging.ERROR
        log.log(level, "%s failed: %s", job, error, exc_info=None if expected else error)
        if job == "tune":
            self.state.fail()
        else:
            self.state.set_phase(self._idle_phase)
        self._end(job)
        self.problem.emit(JobProblem.of(job, error))
        self._go_on()

    def _go_on(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def _follow_model(self) -> None:
        """Show the steps that run now: another backend may fuse some of them."""
        model, shown = self.workbench.model.opened, self.state.model
        if model is None or shown is None or model.path != shown.path:
            return
        if model.plan.steps != shown.plan.steps:
            self.state.open(model)

    def _end(self, job: str) -> None:
        self._follow_model()
        self.busy_changed.emit("")
        self.refresh()
        if job in ("open", "tune", "try"):
            self.read_records()


def _phase_of(item: Phase | Advice | RefusedRun) -> str:
    return item.text if isinstance(item, Phase) else item.phase
