"""The one session of the window: jobs on the workbench in, refreshed state out."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from nnjit_studio.analysis.profile import ModelProfile
from nnjit_studio.doctor.checks import checks
from nnjit_studio.doctor.examination import examine
from nnjit_studio.errors import BugError, NnjitError, UserError
from nnjit_studio.generation.session import TextEvent, TextRequest, TextSession
from nnjit_studio.records.backend import Backend
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.samples import first
from nnjit_studio.space.lite_space import Verdict
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.widgets.text import short_key
from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.workbench import Workbench, jobs

log = logging.getLogger(__name__)

SERVE_EVERY_MS = 100.0
"""From one request to the next, of a model that serves while it is tuned in the window."""


@dataclass(frozen=True)
class Problem:
    """An error as the message bar shows it: one sentence, the next step, the details."""

    job: str
    error: str
    hint: str = ""
    details: str = ""
    kind: str = "bug"

    @property
    def cause(self) -> NnjitError:
        """The error to raise where nobody looks at the window."""
        made = UserError if self.kind == "user" else BugError
        return made(self.error, self.hint)

    @classmethod
    def of(cls, job: str, error: BaseException) -> Problem:
        details = "".join(traceback.format_exception(error))
        if isinstance(error, NnjitError):
            return cls(job, error.error, error.hint, details, error.kind)
        text = str(error) or type(error).__name__
        return cls(
            job,
            f"Something unexpected went wrong: {text.splitlines()[0].rstrip('.')}.",
            "Copy the details into a bug report.",
            details,
        )


@dataclass(frozen=True)
class Phase:
    """A job's word about what it is doing."""

    text: str


@dataclass(frozen=True)
class Imported:
    """A model on its way into the page: it can be shown, and nothing else yet."""

    model: Any


class Session(QObject):
    """Runs the jobs of the window one after the other and keeps their state.

    Signals
    -------
    imported(OpenModel)
        A model that is about to be open, unless ``problem`` tells otherwise.
    refreshed(frozenset)
        Names of the views to draw again (``state.VIEWS``).
    busy_changed(str)
        The running job (``examine``, ``open``, ``tune``, ``try``, ``keep``, ``export``, ``report``,
        ``device``, ``profile``, ``diff``, ``backend``, ``faster``, ``text``, ``check_text``) or
        ``""``.
    done(str, object)
        A job returned; ``pause`` when tuning did, to go on later.
    problem(Problem)
        A job failed; what was shown before is still true.
    records(list)
        What the kernel database has of the open model's workloads, newest first.
    device_changed(MeasuredDevice or None)
        What is known of this device was read or measured anew.
    """

    imported = Signal(object)
    refreshed = Signal(frozenset)
    busy_changed = Signal(str)
    done = Signal(str, object)
    problem = Signal(object)
    records = Signal(list)
    device_changed = Signal(object)

    def __init__(self, workbench: Workbench, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.workbench = workbench
        self.state = SessionState()
        self.texts = TextSession(workbench.page)
        self.events: list[ev.Event] = []
        self.budget_s: float | None = None
        self._serving = False
        self._started_s = 0.0
        self._idle_phase = ""
        self._stopping = False
        self.worker = Worker(self)
        self.worker.yielded.connect(self._take)
        self.worker.returned.connect(self._returned)
        self.worker.failed.connect(self._failed)
        self.reader = Worker(self)
        self.reader.returned.connect(lambda _, rows: self.records.emit(rows))
        self.reader.failed.connect(lambda job, e: self.problem.emit(Problem.of(job, e)))
        self.device_reader = Worker(self)
        self.device_reader.returned.connect(lambda _, device: self.device_changed.emit(device))
        self.device_reader.failed.connect(lambda job, e: self.problem.emit(Problem.of(job, e)))

    @property
    def busy(self) -> str:
        return self.worker.job

    @property
    def elapsed_s(self) -> float:
        """Seconds since the running job began; 0 when idle."""
        return time.monotonic() - self._started_s if self.busy else 0.0

    def open(self, path: Path) -> bool:
        """Import a model; False when another job is running."""
        workbench = self.workbench
        return self._start(
            "open",
            f"Opening {path.name}",
            lambda emit: _open_model(workbench, path, emit),
        )

    def open_sample(self) -> bool:
        """Write the sample model, if need be, and open it; False when another job is running."""
        workbench = self.workbench

        def work(emit: Callable[[Any], None]) -> Any:
            path = first.sample_model(_told(emit))
            return _open_model(workbench, path, emit)

        return self._start("open", "Opening the sample model", work)

    def examine(self, survey: bool) -> bool:
        """Look at the machine, with ``survey`` at browsers and GPUs too; False when busy."""
        page, folder = self.workbench.page, self.workbench.database.path.parent

        def work(emit: Callable[[Any], None]) -> Any:
            found = examine(
                page.connect, lambda: page.sandbox, folder, survey, page.sandbox.asked_off,
                on_phase=_told(emit),
            )  # fmt: skip
            return list(checks(found))

        return self._start("examine", "Looking at this machine", work)

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

    @property
    def paused(self) -> bool:
        """Whether a session of the open model waits to go on; other jobs may run meanwhile."""
        return self.state.paused

    def pause(self) -> None:
        """Have the running session pause after its round, or go on with the paused one."""
        if self.paused:
            self.resume()
        elif self.busy == "tune" and self.workbench.tuning.pause():
            self.state.set_phase("Pausing after this round")
            self.refresh()

    def resume(self) -> bool:
        """Go on with the paused session; False when there is none or a job is running."""
        tuning = self.workbench.tuning
        return self.paused and self._start("tune", "Resuming", lambda _: tuning.resume())

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

    def explain(self, settings: str) -> list[Verdict]:
        """What the rules of the lite space say of a candidate of the selected workload.

        Raises
        ------
        UserError
            When the text is no candidate, or no workload with a lite space is selected.
        """
        return self.workbench.run(jobs.explain, self.state.selected, settings)

    def try_candidate(self, settings: str) -> bool:
        """Measure a candidate of the selected workload: next in a running session, or at once.

        False when another job is running.
        """
        workbench, key = self.workbench, self.state.selected
        if self.busy == "tune":
            return workbench.tuning.request(key, settings)
        return self._start(
            "try",
            f"Measuring {settings}",
            lambda _: workbench.run(jobs.try_candidate, key, settings),
        )

    def run_kernel(self, workload: str, settings: str) -> bool:
        """Run the model with a kernel that was measured; False when another job is running."""
        workbench = self.workbench
        return self._start(
            "keep",
            f"Registering {settings}",
            lambda _: workbench.run(jobs.run_kernel, workload, settings),
        )

    def export(self, out: Path) -> bool:
        workbench = self.workbench
        return self._start(
            "export", f"Writing {out.name}", lambda _: workbench.run(jobs.export, out)
        )

    def report(self, out: Path) -> bool:
        workbench = self.workbench
        return self._start(
            "report", f"Writing {out.name}", lambda _: workbench.run(jobs.report, out)
        )

    def read_records(self) -> bool:
        """Read the kernel database in the second worker, also while tuning."""
        workbench = self.workbench
        return self.reader.start("records", lambda _: workbench.run(jobs.records))

    def measure_device(self) -> bool:
        """Run the device experiments; False when another job is running."""
        workbench = self.workbench
        return self._start(
            "device",
            "Measuring the device",
            lambda emit: workbench.run(jobs.measure_device, _told(emit)),
        )

    def profile(self, cold: bool = False) -> bool:
        """Profile the open model, ``cold`` from its file anew; False without one or when busy."""
        workbench = self.workbench
        return self.state.model is not None and self._start(
            "profile",
            "Profiling the model",
            lambda emit: workbench.run(jobs.profile, _told(emit), cold=cold),
        )

    def make_text(self, request: TextRequest) -> bool:
        """Have a decoder go on with a text; False when another job is running."""
        texts = self.texts
        return self._start(
            "text",
            f"Opening {request.path.name}",
            lambda emit: texts.generate(request, _told(emit)),
        )

    def check_text(self) -> bool:
        """Compare the last text with native ONNX Runtime; False when another job is running."""
        texts = self.texts
        return self._start(
            "check_text",
            "Comparing the text with ONNX Runtime",
            lambda emit: texts.check(_told(emit)),
        )

    def diff(self, node: str = "") -> bool:
        """Compare one step, or all, with ONNX Runtime; False without a model or when busy."""
        workbench = self.workbench
        return self.state.model is not None and self._start(
            "diff",
            f"Comparing {node or 'all tensors'} with ONNX Runtime",
            lambda emit: workbench.run(jobs.diff, node, _told(emit)),
        )

    def use_backend(self, name: str, backend: Backend) -> bool:
        """Run kernels of another backend; False when another job is running."""
        workbench = self.workbench
        return self._start(
            "backend",
            f"Changing to {name}",
            lambda emit: workbench.run(jobs.use_backend, backend, _told(emit)),
        )

    def faster(self) -> bool:
        """Compare Wasm with WebGPU; False when there is no model or a job is running."""
        workbench = self.workbench
        return self.state.model is not None and self._start(
            "faster",
            "Comparing Wasm with WebGPU",
            lambda emit: workbench.run(jobs.compare_backends, _told(emit)),
        )

    def read_device(self) -> bool:
        """Read what was last measured of this device, in a worker of its own."""
        workbench = self.workbench
        return self.device_reader.start("device", lambda _: workbench.page.measured_device())

    def cancel(self) -> None:
        """End the running job soon, or the paused session with its summary."""
        if self.paused and not self.busy:
            tuning = self.workbench.tuning
            self._start("tune", "Stopping", lambda _: tuning.resume(stop=True))
        elif self.busy:
            self._stopping = True
            self.state.set_phase("Stopping")
            self.refresh()
            self.workbench.page.cancel()

    def select(self, key: str) -> None:
        if self.state.select(key):
            self.refresh()

    def refresh(self) -> None:
        """Tell the views what changed since they were told last."""
        changes = self.state.take_changes()
        if changes:
            self.refreshed.emit(changes)

    def _start(self, job: str, phase: str, work: Callable[[Callable[[Any], None]], Any]) -> bool:
        if self.busy:
            return False
        self._idle_phase = self.state.phase
        self._started_s = time.monotonic()
        self._stopping = False
        self.worker.start(job, work)
        self.state.set_phase(phase)
        self.busy_changed.emit(job)
        self.refresh()
        return True

    def _take(self, items: list[Any]) -> None:
        phases = [item for item in items if isinstance(item, Phase)]
        events = [item for item in items if isinstance(item, ev.Event)]
        passing = (ev.Trying, ev.Paused, ev.Resumed)
        self.events.extend(e for e in events if not isinstance(e, passing))
        self.state.reduce(events)
        self.state.take_text(item for item in items if isinstance(item, TextEvent))
        if phases:
            text = phases[-1].text
            self.state.set_phase(text[:1].upper() + text[1:])
        if self._stopping and self.state.summary is None:
            self.state.set_phase("Stopping")
        for item in items:
            if isinstance(item, Imported):
                self.imported.emit(item.model)
            _note(item)
        for event in events:
            if isinstance(event, ev.FellBack):
                told = "The model runs in Wasm now; choose WebGPU again to try it once more."
                self.problem.emit(Problem(ev.FellBack.name, event.reason, told, kind="user"))
            if isinstance(event, ev.Failed) and ev.FellBack not in map(type, events):
                said = {k: str(event.error.get(k, "")) for k in ("error", "hint", "kind")}
                details = json.dumps(event.error, indent=2, default=str)
                self.problem.emit(Problem("tune", details=details, **said))
        self.refresh()

    def _returned(self, job: str, result: object) -> None:
        log.info("%s ended after %.1f s", job, time.monotonic() - self._started_s)
        if job == "open":
            self.state.open(result)  # type: ignore[arg-type]
        elif job != "tune":
            self.state.set_phase(self._idle_phase)
        if isinstance(result, ModelProfile):
            self.state.take_profile([step.ms for step in result.steps])
        if job == "check_text":
            self.state.take_check(result)  # type: ignore[arg-type]
        if job == "device":
            self.device_changed.emit(result)
        self._end(job)
        self.done.emit("pause" if job == "tune" and self.paused else job, result)

    def _failed(self, job: str, error: BaseException) -> None:
        expected = isinstance(error, UserError)  # a sentence says it all
        log.error("%s failed: %s", job, error, exc_info=None if expected else error)
        if job == "tune":
            self.state.fail()
        else:
            self.state.set_phase(self._idle_phase)
        self._end(job)
        self.problem.emit(Problem.of(job, error))

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


def _told(emit: Callable[[Any], None]) -> Callable[[str], None]:
    """Phases of a job, emitted."""
    return lambda text: emit(Phase(text))


def _open_model(workbench: Workbench, path: Path, emit: Callable[[Any], None]) -> Any:
    return workbench.open_model(
        path,
        _told(emit),
        on_imported=lambda model: emit(Imported(model)),
    )


def _note(item: object) -> None:
    """One line of the log for what a reader would look for later."""
    match item:
        case Phase():
            log.info("%s", item.text)
        case ev.SessionStarted():
            log.info("tuning %s: %d workloads", item.model, len(item.workloads))
        case ev.SpaceBuilt():
            log.info("%s: %d candidates", short_key(item.workload), len(item.candidates))
        case ev.Compiled() if item.error:
            log.warning("%s %s: %s", short_key(item.workload), item.candidate, item.error)
        case ev.Measured() if item.state in ("wrong", "impossible", "failed"):
            where = short_key(item.workload)
            log.warning("%s %s is %s: %s", where, item.candidate, item.state, item.reason)
        case ev.Drift():
            log.warning("%s", item.what)
        case ev.FellBack():
            log.warning("%s The model runs in Wasm now.", item.reason)
        case ev.Swapped():
            speeds = f"{item.gflops_before:.1f} -> {item.gflops:.1f} GFLOP/s"
            log.info("%s now runs %s: %s", short_key(item.workload), item.candidate, speeds)
        case ev.ModelTimed():
            log.info("model: %.2f ms", item.ms)
        case ev.Finished():
            log.info("tuning ended (%s) after %.1f s", item.reason, item.t_s)
