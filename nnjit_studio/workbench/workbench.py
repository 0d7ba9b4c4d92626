"""Everything that window and command line hold: database, compiler, page, open model, tuning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.database import KernelDatabase
from nnjit_studio.engine.browsers.sandbox import UNTOUCHED, Sandbox
from nnjit_studio.model import GenerationRequest, ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.workbench.divided import for_gpu
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import (
    OpenModel,
    define_model,
    import_decoder,
    import_model,
    import_sizes,
)
from nnjit_studio.workbench.page import EnginePage
from nnjit_studio.workbench.phases import Phases
from nnjit_studio.workbench.tuning import Tuning

AS_IT_IS = ImportOptions()
P = ParamSpec("P")
T = TypeVar("T")


class Workbench:
    """One model on one target; its parts do the work.

    Calls block, and are made one at a time; from other threads only the page's ``cancel``, what
    :class:`Tuning` says of itself, what the process looks up in files, and the jobs ``explain``,
    ``inspect`` and ``records``.

    Parameters
    ----------
    database
        Path of the kernel database; made when missing.
    target, flags, sandbox, threads, backend, importing
        As of :class:`EnginePage`.
    opens
        How the database is opened: for writing, for reading alone, or as it can be.

    Attributes
    ----------
    database
        What is known of kernels and devices.
    process
        Imports models and makes kernels.
    page
        Where kernels run.
    model
        The open model, on this page.
    tuning
        Sessions on the open model.
    """

    def __init__(
        self,
        database: Path,
        target: str = "embedded",
        flags: str = "",
        sandbox: Sandbox = UNTOUCHED,
        threads: int = 1,
        opens: Callable[[Path], KernelDatabase] = KernelDatabase.open,
        backend: Backend = WASM,
        importing: ImportOptions = AS_IT_IS,
    ) -> None:
        self.database = opens(database)
        self.process = CompileProcess()
        self.page = EnginePage(
            self.process, self.database, target, flags, sandbox, threads, backend, importing
        )
        self.model = ModelOnPage(self.page)
        self.tuning = Tuning(self.model)

    @property
    def compiler(self) -> Compiler:
        """Of the kernels that run now."""
        return self.page.compiler

    def start(self) -> None:
        """Warm up the compile process."""
        threading.Thread(target=self.process.start, name="nnjit-warm-up", daemon=True).start()

    def close(self) -> None:
        """End what runs, then the page with its compile process, then the database."""
        self.tuning.drop()
        self.page.end()
        self.page.close()
        self.database.close()

    def run(
        self, job: Callable[Concatenate[ModelOnPage, P], T], *args: P.args, **given: P.kwargs
    ) -> T:
        """Do a job of :mod:`nnjit_studio.workbench.jobs` on the open model.

        The window calls jobs by this alone, so that a test's workbench may play them.
        """
        return job(self.model, *args, **given)

    def open_model(
        self,
        path: Path,
        on_phase: OnPhase = quiet,
        feeds: Feeds | None = None,
        on_imported: Callable[[OpenModel], None] = lambda opened: None,
    ) -> OpenModel:
        """Import a model and load it into the page. On failure the old model stays, where there
        still is a page; its kernels have to be registered again. ``on_imported`` may show the
        model while it is loaded.

        Raises
        ------
        ModelError, UserError, PageError
        """
        phases = Phases(on_phase)
        with self.page.working():
            opened = import_model(self.page, path, phases, feeds)
            if self.page.backend.is_gpu:
                opened = for_gpu(opened, self.page, self.page.target)
            on_imported(opened)
            self.model.load(opened, phases)
        self.tuning.drop()
        self.model.adopt(opened, feeds)
        self.model.began_cold(phases)
        return opened

    def open_sizes(
        self, path: Path, inputs: Sequence[Feeds], on_phase: OnPhase = quiet
    ) -> tuple[OpenModel, tuple[str, ...]]:
        """Import a model once for inputs of several sizes and load it into the page.

        See :func:`nnjit_studio.workbench.open_model.import_sizes`.
        """
        with self.page.working():
            opened, notes = import_sizes(self.page, path, inputs, on_phase)
            return self._load(opened, on_phase), notes

    def open_decoder(
        self, path: Path, request: GenerationRequest, on_phase: OnPhase = quiet
    ) -> OpenModel:
        """Import a decoder and load it into the page.

        Raises
        ------
        ModelError, UserError, PageError
        """
        with self.page.working():
            return self._load(import_decoder(self.page, path, request, on_phase), on_phase)

    def open_workload(self, spec: str) -> OpenModel:
        """Open a model of one kernel, from a workload's spelling.

        Raises
        ------
        UserError, PageError
        """
        return self._load(define_model(self.page, spec))

    def open_offline(
        self, path: Path, on_phase: OnPhase = quiet, feeds: Feeds | None = None
    ) -> OpenModel:
        """Import a model without a page: enough to export what the database knows."""
        return self.model.adopt(import_model(self.page, path, on_phase, feeds), feeds)

    def _load(self, opened: OpenModel, on_phase: OnPhase = quiet) -> OpenModel:
        self.model.load(opened, on_phase)
        self.tuning.drop()
        return self.model.adopt(opened)
