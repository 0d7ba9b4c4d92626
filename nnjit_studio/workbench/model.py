"""The open model: loaded into the page, with the kernels that were chosen for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.analysis.profile import DONE, Phases
from nnjit_studio.errors import CompileError, NnjitError, UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Inference, Kernel, Tap, TuningRecord
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.serving import ServeOptions, ServingStats
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench.open_model import OpenedModel, example_feeds, import_model
from nnjit_studio.workbench.page import PageBench
from nnjit_studio.workbench.runners import GpuGone, compiler_version, tiers_of_backend
from nnjit_studio.workbench.stored_best import Here, stored_best

Events = Generator[Event, None, None]
"""A session, which goes on when the next event is asked for."""


class ModelBench(PageBench):
    """One model at a time on the page, run with the best kernels that are known.

    Attributes
    ----------
    model
        The open one, as the backend runs it.
    events
        Of its last session, oldest first.
    """

    model: OpenedModel | None = None
    events: Sequence[Event] = ()
    _feeds: Mapping[str, NDArray[Any]] = MappingProxyType({})
    _chosen: Mapping[str, AnyCandidate | None] = MappingProxyType({})
    _models_opened = 0
    _registered = False
    _serving = False
    _serve_options = ServeOptions()
    _rested: tuple[Events, object] | None = None
    """A session that pauses, and the runner that it has."""
    _lent = False
    _cold: Phases | None = None
    _cold_ms: Mapping[str, float] = MappingProxyType({})

    def open_model(
        self,
        path: Path,
        on_phase: Callable[[str], None] = lambda phase: None,
        feeds: Mapping[str, NDArray[Any]] | None = None,
        on_imported: Callable[[OpenedModel], None] = lambda opened: None,
    ) -> OpenedModel:
        """Import a model and load it into the page. On failure the old model stays, where there
        still is a page; its kernels have to be registered again. ``on_imported`` may show the
        model while it is loaded.

        Raises
        ------
        ModelError, UserError, PageError
        """
        self._cancelled.clear()
        self._opening = True
        phases = Phases(on_phase)
        try:
            opened = self.import_model(path, phases)
            on_imported(opened)
            self._load(opened, phases)
        finally:
            self._opening = False
        self.drop_paused()
        self._adopt(opened, feeds)
        self._keep_ledger(phases)
        return opened

    def close(self) -> None:
        """As of the page; a session that pauses ends first."""
        self.drop_paused()
        super().close()

    def drop_paused(self) -> None:
        """End a session that pauses, without a summary; what it measured is in the database."""
        if self._rested is not None:
            self._rested[0].close()
            self._rested = None

    def open_workload(self, spec: str) -> OpenedModel:
        """Open a model of one kernel, from a workload's spelling; see ``compiler.spelling``.

        Raises
        ------
        UserError, PageError
        """
        self._models_opened += 1
        weights = self._folder / f"weights-{self._models_opened}.bin"
        made = self.compiler.define_model(spec, weights)
        opened = OpenedModel(
            Path(spec), made.graph, made.workloads, made.plan, weights, made.packable
        )
        self._load(opened)
        self._adopt(opened, None)
        return opened

    def open_offline(
        self,
        path: Path,
        on_phase: Callable[[str], None] = lambda phase: None,
        feeds: Mapping[str, NDArray[Any]] | None = None,
    ) -> OpenedModel:
        """Import a model without a page: enough to export what the database knows."""
        opened = self.import_model(path, on_phase)
        self._adopt(opened, feeds)
        return opened

    def import_model(
        self, path: Path, on_phase: Callable[[str], None] = lambda phase: None
    ) -> OpenedModel:
        """Import alone, without a page."""
        self._models_opened += 1
        weights = self._folder / f"weights-{self._models_opened}.bin"
        # A GPU's convolutions are direct; its kernels run a plan with tiles too.
        tiles = not self.backend.is_gpu
        opened = import_model(self.compiler, path, weights, self._cancelled.is_set, on_phase, tiles)
        return opened.on(self.backend)

    def _load(
        self, opened: OpenedModel, on_phase: Callable[[str], None] = lambda phase: None
    ) -> None:
        """Load a model into the page, which drops the one before; if it fails, that one again."""
        on_phase("waiting for the page")
        try:
            self.connect()
            on_phase("loading weights into the page")
            self.runner.load(opened.plan, opened.weights)
        except NnjitError:
            opened.weights.unlink(missing_ok=True)
            if self.model is not None:
                with contextlib.suppress(NnjitError):  # the first error is the one to tell
                    self.runner.load(self.model.plan, self.model.weights)
            raise

    def _adopt(self, opened: OpenedModel, feeds: Mapping[str, NDArray[Any]] | None) -> None:
        self._feeds = dict(feeds or example_feeds([p.spec for p in opened.plan.inputs]))
        previous, self.model = self.model, opened
        self._chosen = {}
        self._registered = self._serving = False
        self.events = ()
        if previous is not None:
            previous.weights.unlink(missing_ok=True)

    def _keep_ledger(self, phases: Phases) -> None:
        """Of a model that was just opened; a profile completes it, if it is what runs it first."""
        phases(DONE)
        phases.ms.pop("waiting for the page", None)  # the engine's start, not the model's
        self._cold, self._cold_ms = phases, {}

    def records(self) -> list[TuningRecord]:
        """What the kernel database has of the open model's workloads, newest first."""
        workloads = self.model.workloads if self.model is not None else ()
        return self.database.records_of(workload.key for workload in workloads)

    def use_feeds(self, feeds: Mapping[str, NDArray[Any]]) -> None:
        """Run the open model on these inputs from now on."""
        self._need_model()
        self._feeds = dict(feeds)

    def lend_page(self) -> None:
        """Let somebody else use the page; the open model is loaded again when it is needed."""
        self.stop_serving()
        self._lent, self._registered, self._cold = True, False, None

    def _take_page_back(self, on_phase: Callable[[str], None]) -> None:
        if self._lent:
            model = self._need_model()
            if not self.runner.holds(model.plan):
                on_phase("loading weights into the page")
                self.runner.load(model.plan, model.weights)
            self._lent = False

    def prefer_backend(self, backend: Backend) -> None:
        """Settle the backend of the models to come, before the page was asked anything."""
        if self.device is None and self.model is None:
            self._use(backend)

    def use_backend(
        self, backend: Backend, on_phase: Callable[[str], None] = lambda phase: None
    ) -> DeviceProfile:
        """Run the open model, and all later ones, on another backend; if that fails, on the old.

        A model that serves stops; best known kernels are registered when they are needed.

        Raises
        ------
        TargetError, PageError
            When the page has no such backend, or it cannot hold the model.
        """
        if backend == self.backend:
            return self.connect()
        self.stop_serving()
        before = self.backend
        try:
            self._change(backend, on_phase)
        except NnjitError:
            with contextlib.suppress(NnjitError):  # the first error is the one to tell
                self._change(before, on_phase)
            raise
        self.fallback_reason = ""
        return self.connect()

    def _change(self, backend: Backend, on_phase: Callable[[str], None]) -> None:
        self._use(backend)
        self.device, self._chosen, self._registered = None, {}, False
        on_phase("waiting for the page")
        self.connect()
        if self.model is not None:
            self.model = self.model.on(backend)
            on_phase("loading weights into the page")
            self.runner.load(self.model.plan, self.model.weights)

    def _fall_back(self, gone: GpuGone) -> None:
        """Run the open model in Wasm, for the GPU cannot; ``fallback_reason`` says why."""
        self._change(WASM, lambda phase: None)
        self.register_best()
        self.fallback_reason = gone.error

    def serve(self, options: ServeOptions) -> None:
        """Have the page run the open model on and on, with the best known kernels.

        Sessions keep to the budget until :meth:`stop_serving` or another model; called
        again, other options hold from then on.

        Raises
        ------
        UserError, PageError
        """
        if not self._registered:
            self.register_best()
        self.runner.serve(self._feeds, options)
        self._serving, self._serve_options = True, options

    def _served(self) -> ServingStats:
        """What was served since the last time; the budget that was asked for holds from now on."""
        return self.runner.served(budget=self._serve_options.budget)

    def stop_serving(self) -> None:
        """Let the page rest."""
        if self._serving:
            self._serving = False
            self.runner.stop_serving()

    def choose(self, workload: str, candidate: AnyCandidate | None) -> None:
        """Settle the settings of a workload of the open model, by its key."""
        self._chosen = {**self._chosen, workload: candidate}

    def choose_known(self, backend: Backend | None = None) -> dict[str, AnyCandidate | None]:
        """The best known settings of every workload: this session's, else the database's.

        ``backend`` is the workbench's own when None; of another one the database alone tells.
        """
        backend = backend or self.backend
        model = self._need_model().on(backend)
        mine = self._chosen if backend == self.backend else {}
        here = self._here(backend)
        chosen: dict[str, AnyCandidate | None] = {}
        for workload in model.workloads:
            settings = None
            if workload.key in mine:
                settings = mine[workload.key]
            elif workload.tunable:
                settings = stored_best(self.database, workload, here)
            chosen[workload.key] = settings
        return chosen

    def _here(self, backend: Backend | None = None) -> Here:
        backend = backend or self.backend
        return Here(
            compiler_version(backend),
            backend.target(self._engine),
            1 if backend.is_gpu else self.threads,
            self.device if backend == self.backend else None,
            tiers_of_backend(backend),
            backend.software,
        )

    def kernels(self, tiers: Sequence[str], backend: Backend | None = None) -> list[Kernel]:
        """The best known kernel of every workload in the given tiers, of a backend's.

        Raises
        ------
        CompileError
            When a workload has none.
        """
        model = self._need_model().on(backend or self.backend)
        chosen = self.choose_known(backend)
        kernels: list[Kernel] = []
        for workload in model.workloads:
            result = self.compiler.compile(workload, chosen[workload.key], tiers)
            if result.error:
                raise CompileError(f"{workload.name} does not compile: {result.error}")
            kernels += result.kernels
        return kernels

    def register_best(self, on_phase: Callable[[str], None] = lambda phase: None) -> None:
        """Give the page the best known kernels, for runs and profiles without tuning."""
        self._take_page_back(on_phase)
        on_phase("compiling kernels")
        kernels = self.kernels((self.connect().best_tier,))
        on_phase("registering kernels in the page")
        self.runner.register(kernels)
        self._registered = True

    def infer(self, runs: int = 1, profile: bool = False, least_step_ms: float = 0.0) -> Inference:
        """Run the open model on its feeds with the registered kernels.

        Where the GPU is gone for good, in Wasm: ``fallback_reason`` says so.
        """
        try:
            return self.runner.infer(self._feeds, runs, profile, least_step_ms)
        except GpuGone as gone:
            self._fall_back(gone)
            return self.runner.infer(self._feeds, runs, profile, least_step_ms)

    def infer_plan(self, name: str, runs: int) -> Inference:
        """Run a further plan that was loaded with the model, on feeds or what stands for them."""
        runner = self.runner.for_plan(name)
        feeds = {**example_feeds(runner.inputs), **self._feeds}
        return runner.infer({spec.name: feeds[spec.name] for spec in runner.inputs}, runs)

    def tap(self, taps: Sequence[Tap]) -> list[bytes]:
        """Run the open model once on its feeds; the bytes that the taps name."""
        return self.runner.tap(self._feeds, taps)

    def onnx_nodes(self) -> list[tuple[str, tuple[str, ...]]]:
        """Name and outputs of the open model's ONNX nodes; native ONNX Runtime is ready then."""
        return self.compiler.open_reference(self._need_model().path)

    def onnx_attributes(self) -> dict[str, dict[str, str]]:
        """Operator and attributes of the open model's ONNX nodes; any thread may ask."""
        return self.compiler.onnx_attributes(self._need_model().path)

    def onnx_tensors(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Tensors of the open model on its feeds, by native ONNX Runtime."""
        return self.compiler.reference_tensors(self._feeds, names)

    def _workload(self, key: str) -> Workload:
        found = next((w for w in self._need_model().workloads if w.key == key), None)
        if found is None:
            raise UserError("The open model has no such workload.", "Choose one in the graph.")
        return found

    def _need_model(self) -> OpenedModel:
        if self.model is None:
            raise UserError("No model is open.", "Open an .onnx file first.")
        return self.model
