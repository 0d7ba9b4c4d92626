"""Jobs: work on the workbench that the session runs one after the other, and their errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from PySide6.QtCore import QObject

from nnjit_studio.errors import BugError, NnjitError, UserError
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.ui.state.window_words import in_window
from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.workbench import ModelOnPage, Workbench, jobs

EXAMINE = "examine"
"""The job that examines the machine; a model that is opened during it waits for its end."""
RUNNING: Mapping[str, str] = MappingProxyType({
    "tune": "Tuning is running", "open": "A model is being opened",
    "try": "A candidate is being measured", "profile": "The model is being profiled",
    "diff": "A comparison is running", "faster": "A comparison is running",
    "browsers": "A comparison is running", "advise": "Advice is being measured",
    "tune_plan": "The plan is being tuned", "sizes": "Other sizes are being measured",
    "device": "The device is being measured", "export": "A bundle is being written",
    "report": "A report is being written", EXAMINE: "This machine is being examined",
    "text": "A text is being made", "backend": "The backend is being changed",
    "turbo": "A faster module is being made",
})  # fmt: skip
UNMEASURED = ("open", "export", "report", "backend", "feed", "install_peer", EXAMINE)
"""Jobs whose figures nobody reads: they run beside what is measured."""
BESIDE = "A job of the Wasm file is running."
CANCELLED = "was cancelled"
"""In the sentence of a job that its user ended."""
FILE_HINT = "Put the file back, or look at its folder and your permissions."
Work = Callable[[Workbench, OnPhase], Any]


def running(job: str) -> str:
    """What stands in the way of another job, without a full stop."""
    return RUNNING.get(job, "Another job is running")


@dataclass(frozen=True)
class Job:
    """Work that blocks, in a thread of its own."""

    name: str
    """Of the signals ``busy_changed``, ``done`` and ``problem`` of the session."""
    phase: str
    """What the window shows until the work tells a phase of its own."""
    work: Work
    """Called with the workbench and with a function that takes phases; gives a result, or an
    iterator of events."""
    needs_model: bool = True
    """It is refused while no model is open."""


def export_bundle(out: Path) -> Job:
    """Write the tuned kernel bundle; the result is its path."""
    return Job(
        "export",
        f"Writing {out.name}",
        lambda bench, phase: bench.run(jobs.export, out, on_phase=phase),
    )


@dataclass(frozen=True)
class AnySizeBundle:
    """A bundle for any size, and what a user should know of it."""

    path: Path
    notes: tuple[str, ...] = ()


def export_any_size(out: Path) -> Job:
    """Write a bundle of the open model's file that takes any size."""
    return Job(
        "export",
        f"Writing {out.name} for any size",
        lambda bench, phase: bench.run(any_size_bundle, out, on_phase=phase),
    )


def any_size_bundle(model: ModelOnPage, out: Path, on_phase: OnPhase) -> AnySizeBundle:
    """Import the file of the open model once more, for any size, and write that.

    Raises
    ------
    ModelError, UserError, BundleError
        Also where a part of the model can be compiled for one size alone.
    """
    page, path = model.page, model.current.path
    with page.cancellable("The export", on_phase) as phase, page.compiler_killed_on_cancel():
        made = jobs.export_any_size(page, path, out, model.feeds, phase, webgpu=page.backend.is_gpu)
    if made is None:
        raise UserError("The file fixes all sizes.", "Export it for its own.")
    return AnySizeBundle(*made)


def export_report(out: Path) -> Job:
    """Write the report; the result is its path."""
    return Job("report", f"Writing {out.name}", lambda bench, _: bench.run(jobs.report, out))


@dataclass(frozen=True)
class JobProblem:
    """One sentence, the next step, and the details for a bug report."""

    job: str
    error: str
    hint: str = ""
    details: str = ""
    kind: str = "bug"

    @property
    def cancelled(self) -> bool:
        """Whether the job ended because its user had it end."""
        return self.kind == UserError.kind and CANCELLED in self.error

    @property
    def cause(self) -> NnjitError:
        """The error to raise where nobody sees the window."""
        made = UserError if self.kind == "user" else BugError
        return made(self.error, self.hint)

    def __str__(self) -> str:
        return in_window(f"{self.error} {self.hint}".strip())

    @classmethod
    def of(cls, job: str, error: BaseException) -> JobProblem:
        details = "".join(traceback.format_exception(error))
        if isinstance(error, NnjitError):
            return cls(job, error.error, error.hint, details, error.kind)
        if isinstance(error, OSError) and error.filename:
            name, why = Path(str(error.filename)).name, error.strerror or error
            return cls(job, f"{name} cannot be used: {why}.", FILE_HINT, details, UserError.kind)
        text = str(error).strip() or type(error).__name__
        return cls(
            job,
            f"Something unexpected went wrong: {text.splitlines()[0].rstrip('.')}.",
            "Copy the details into a bug report.",
            details,
        )


def held_back(job: str) -> JobProblem | None:
    """Why a job that measures does not begin now; None for one that does not measure."""
    if job in UNMEASURED:
        return None
    return JobProblem(job, BESIDE, "Stop it, or wait until it has ended.", kind=UserError.kind)


def reader(
    parent: QObject, take: Callable[[Any], object], refuse: Callable[[JobProblem], object]
) -> Worker:
    """A worker whose results go to ``take``, and its errors to ``refuse``."""
    worker = Worker(parent)
    worker.returned.connect(lambda _, result: take(result))
    worker.failed.connect(lambda job, error: refuse(JobProblem.of(job, error)))
    return worker
