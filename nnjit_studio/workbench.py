"""One model on one target: what window and command line both drive.

It joins compile process, page, tuner and database, and knows neither Qt nor
the command line.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio import __version__
from nnjit_studio.backends import (
    GpuGone,
    compiler_version,
    connect_device,
    gpu_gone,
    make_runner,
    tiers_of_backend,
)
from nnjit_studio.bundle import engine_files, write_bundle
from nnjit_studio.compiler.process import CompileProcess
from nnjit_studio.database import KernelDatabase
from nnjit_studio.diff import Diff, diff_model
from nnjit_studio.errors import CompileError, NnjitError, UserError
from nnjit_studio.faster import BackendComparison, compare_backends
from nnjit_studio.graph import Workload
from nnjit_studio.inspection import KernelInspection, inspect_kernel
from nnjit_studio.known import Here, known_device, stored_best
from nnjit_studio.link.device import device_id
from nnjit_studio.link.hub import Hub
from nnjit_studio.microbench import measure_device
from nnjit_studio.opened_model import OpenedModel, example_feeds, import_model, killed_on_cancel
from nnjit_studio.profile import DONE, ModelProfile, Phases, profile_open, run_cold
from nnjit_studio.report import write_report
from nnjit_studio.space import explain
from nnjit_studio.space.backend import WASM, Backend, choose_backend
from nnjit_studio.space.candidate import DEFAULT_SETTINGS, settings_of
from nnjit_studio.space.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.space.lab import is_lab, lab_of, lab_target
from nnjit_studio.space.lite_space import Verdict
from nnjit_studio.space.measured_device import (
    READ,
    MeasuredDevice,
    fixed_primitives,
)
from nnjit_studio.space.primitives import passes_off
from nnjit_studio.space.records import (
    DeviceProfile,
    Inference,
    Kernel,
    KernelKey,
    Tap,
    TuningRecord,
)
from nnjit_studio.space.serving import ServeOptions
from nnjit_studio.tuner.evaluator import OK_STATES
from nnjit_studio.tuner.events import Event, Failed, FellBack, Finished, SpaceBuilt, Swapped
from nnjit_studio.tuner.own_candidate import try_candidate
from nnjit_studio.tuner.session import TuneOptions, TuningSession

__all__ = ["OpenedModel", "SystemClock", "Workbench", "example_feeds"]

log = logging.getLogger(__name__)

PAGE_TIMEOUT_S = 60.0
PROFILE_RUNS = 20


class SystemClock:
    """The real :class:`~nnjit_studio.tuner.protocols.Clock`."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def now_iso(self) -> str:
        return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def _lab_badges(flags: str) -> tuple[tuple[str, str], ...]:
    lab = lab_of(flags)
    if not lab:
        return ()
    text = (
        f"The engine runs with its experimental mode {lab!r}, which no visitor of a page has. "
        "Results are stored under a target of their own and never enter a bundle."
    )
    return ((f"lab: {lab}", text),)


class Workbench:
    """Opens models, tunes them in the page, exports what was found.

    Parameters
    ----------
    database
        Path of the kernel database; made when missing.
    target
        Name of what runs the page, for the kernels' identity.
    flags
        Browser flags that are stored with every measurement.
    badges
        Facts the window must show: text and tooltip.
    threads
        How many a kernel may run on.
    read_only
        Nothing is tuned, so the database stays as it is; another Studio may be writing it.
    backend
        Which kernels run; :meth:`use_backend` changes it.

    Attributes
    ----------
    fallback_reason
        Why Wasm runs in place of the GPU that was asked for; empty where it does not.
    """

    def __init__(
        self,
        database: Path,
        target: str = "embedded",
        flags: str = "",
        badges: Sequence[tuple[str, str]] = (),
        threads: int = 1,
        read_only: bool = False,
        backend: Backend = WASM,
    ) -> None:
        reads = KernelDatabase.open_for_reading
        self.database = reads(database) if read_only else KernelDatabase.open(database)
        self.backend, self._engine, self._flags = backend, lab_target(target, flags), flags
        self.threads = threads
        self.fallback_reason = ""
        self._fixed = fixed_primitives(self.database.devices())
        self.compiler = CompileProcess()
        self.compiler.passes_off = passes_off(self._fixed)
        self.hub = Hub()
        self._use(backend)
        self.device: DeviceProfile | None = None
        self.model: OpenedModel | None = None
        self.events: list[Event] = []
        self._feeds: dict[str, NDArray[Any]] = {}
        self._chosen: dict[str, AnyCandidate | None] = {}
        self._registered = False
        self._lent = False
        self._cold: Phases | None = None
        self._cold_ms: Mapping[str, float] = {}
        self._session: TuningSession | None = None
        self._serving = False
        self._badges = (*badges, *_lab_badges(flags))
        self._folder = Path(tempfile.mkdtemp(prefix="nnjit-"))
        self._cancelled = threading.Event()
        self._models_opened = 0
        self._opening = False

    def start(self) -> None:
        """Start the hub and warm up the compile process."""
        self.hub.start()
        threading.Thread(target=self.compiler.start, name="nnjit-warm-up", daemon=True).start()

    def close(self) -> None:
        """In this order: hub, compile process, database, files."""
        self.cancel()
        self.hub.close()
        self.compiler.close()
        self.database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def page_url(self) -> str:
        return self.hub.url

    def badges(self) -> list[tuple[str, str]]:
        if not self.fallback_reason:
            return list(self._badges)
        text = f"{self.fallback_reason} The model runs in Wasm now."
        return [*self._badges, ("WebGPU lost: Wasm runs", text)]

    def launched_with(self, flags: str) -> None:
        """Note the flags of the browser that will open the page."""
        if not is_lab(self._engine):
            self._engine = lab_target(self._engine, flags)
            self._badges += _lab_badges(flags)
        self._flags = flags
        self._use(self.backend)

    def cancel(self) -> None:
        """End what runs soon: an import, a session, work on the page; safe from any thread."""
        self._cancelled.set()
        if self._opening:
            self.runner.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called since the last job began."""
        return self._cancelled.is_set()

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

    def open_model(
        self,
        path: Path,
        on_phase: Callable[[str], None] = lambda phase: None,
        feeds: Mapping[str, NDArray[Any]] | None = None,
    ) -> OpenedModel:
        """Import a model and load it into the page. On failure the old model stays, where there
        still is a page; its kernels have to be registered again.

        Raises
        ------
        ModelError, UserError, PageError
        """
        self._cancelled.clear()
        self._opening = True
        phases = Phases(on_phase)
        try:
            opened = self.import_model(path, phases)
            self._load(opened, phases)
        finally:
            self._opening = False
        self._adopt(opened, feeds)
        self._keep_ledger(phases)
        return opened

    def _keep_ledger(self, phases: Phases) -> None:
        """Of a model that was just opened; a profile completes it, if it is what runs it first."""
        phases(DONE)
        phases.ms.pop("waiting for the page", None)  # the engine's start, not the model's
        self._cold, self._cold_ms = phases, {}

    def open_workload(self, spec: str) -> OpenedModel:
        """Open a model of one kernel, from a workload's spelling; see ``compiler.builders``.

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

    def _adopt(self, opened: OpenedModel, feeds: Mapping[str, NDArray[Any]] | None) -> None:
        self._feeds = dict(feeds or example_feeds([p.spec for p in opened.plan.inputs]))
        previous, self.model = self.model, opened
        self._chosen = {}
        self._registered = self._serving = False
        self.events = []
        if previous is not None:
            previous.weights.unlink(missing_ok=True)

    def use_feeds(self, feeds: Mapping[str, NDArray[Any]]) -> None:
        """Run the open model on these inputs from now on."""
        self._need_model()
        self._feeds = dict(feeds)

    def import_model(
        self, path: Path, on_phase: Callable[[str], None] = lambda phase: None
    ) -> OpenedModel:
        """Import alone, without a page."""
        self._models_opened += 1
        weights = self._folder / f"weights-{self._models_opened}.bin"
        return import_model(self.compiler, path, weights, self._cancelled.is_set, on_phase)

    def connect(self) -> DeviceProfile:
        """Wait for the page and learn what it can do; done once."""
        if self.device is None:
            self.hub.wait_for_page(PAGE_TIMEOUT_S)
            self.device = connect_device(
                self.runner, self.target, self.compiler, self.database, self._fixed
            )
        return self.device

    def _use(self, backend: Backend) -> None:
        """Settle the backend, before anything is asked of the page."""
        self.backend = backend
        self.target = backend.target(self._engine)
        self.compiler.version = compiler_version(backend)
        self.runner = make_runner(self.hub, self._engine, backend, self._flags, self.threads)

    def prefer_backend(self, backend: Backend) -> None:
        """Settle the backend of the models to come, before the page was asked anything."""
        if self.device is None and self.model is None:
            self._use(backend)

    def compare_backends(
        self, on_phase: Callable[[str], None] = lambda phase: None, runs: int = PROFILE_RUNS
    ) -> BackendComparison:
        """Wasm beside WebGPU on the open model; afterwards the backend is what it was.

        Raises
        ------
        UserError
            When no model is open, or it was cancelled.
        TargetError, PageError
        """
        self._need_model()
        mine = self.backend
        gpu = mine if mine.is_gpu else choose_backend("webgpu", "auto", self._engine)
        with self.cancellable("The comparison", on_phase) as phase:
            try:
                return compare_backends(self, gpu, runs, phase)
            finally:
                self.use_backend(mine)

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
            on_phase("loading weights into the page")
            self.runner.load(self.model.plan, self.model.weights)

    def _fall_back(self, gone: GpuGone) -> None:
        """Run the open model in Wasm, for the GPU cannot; ``fallback_reason`` says why."""
        self._change(WASM, lambda phase: None)
        self.register_best()
        self.fallback_reason = gone.error

    def measure_device(
        self, on_phase: Callable[[str], None] = lambda phase: None
    ) -> MeasuredDevice:
        """Run the device experiments in the page and store what they find, for sessions to come.

        A model that serves stops: it would be measured too. What the session
        knows of the device is replaced; primitives that all stored devices
        agree on are fixed from the next start on.

        Raises
        ------
        UserError
            When it was cancelled; nothing is stored then.
        PageError, CompileError
        """

        with self.cancellable("Measuring the device", on_phase) as phase:
            phase("waiting for the page")
            probed = self.connect()
            if probed.gpu is not None:
                raise UserError(
                    "The device experiments are kernels of the processor.",
                    "Use --backend wasm; a GPU's limits are probed at every start.",
                )
            self.stop_serving()
            measured = measure_device(
                self.runner,
                self.compiler,
                probed,
                created=SystemClock().now_iso(),
                versions=self.versions(),
                on_phase=phase,
            )
        self.database.commit_device(measured)
        self.device = known_device(self.database, probed)
        return measured

    @contextlib.contextmanager
    def cancellable(
        self, what: str, on_phase: Callable[[str], None]
    ) -> Iterator[Callable[[str], None]]:
        """A job on the page that :meth:`cancel` ends at its next phase or request.

        Raises
        ------
        UserError
            When it was cancelled.
        """
        cancelled = UserError(f"{what} was cancelled.")

        def phase(text: str) -> None:
            if self._cancelled.is_set():
                raise cancelled
            on_phase(text)

        self._cancelled.clear()
        self._opening = True
        try:
            yield phase
        except NnjitError:
            if not self._cancelled.is_set():
                raise
            raise cancelled from None
        finally:
            self._opening = False

    def profile(
        self,
        on_phase: Callable[[str], None] = lambda phase: None,
        runs: int = PROFILE_RUNS,
        cold: bool = False,
    ) -> ModelProfile:
        """Where the open model's time and memory go, with the kernels that it runs now.

        Its cold start is in it where this is what ran the model first, and with ``cold``, which
        opens the file anew; and in later profiles of the model.

        Raises
        ------
        ModelError, UserError
            When no model is open, or it was cancelled.
        PageError, CompileError
        """
        model = self._need_model()
        with self.cancellable("Profiling", on_phase) as phase:
            if cold:
                model = self._open_again(model, phase)
            ledger, self._cold = self._cold, None
            if ledger is not None and not self._registered:
                ledger.on_phase = phase
                self._cold_ms = run_cold(self, ledger)
            elif not self._registered:
                self.register_best(phase)
            return profile_open(self, model, runs, phase, self._cold_ms)

    def _open_again(self, model: OpenedModel, on_phase: Callable[[str], None]) -> OpenedModel:
        """The open model from its file anew; what its session found stays."""
        chosen, events = self._chosen, self.events
        phases = Phases(on_phase)
        opened = self.import_model(model.path, phases)
        self._load(opened, phases)
        self._adopt(opened, self._feeds)
        self._chosen, self.events = chosen, events
        self._keep_ledger(phases)
        return opened

    def diff(self, name: str = "", on_phase: Callable[[str], None] = lambda phase: None) -> Diff:
        """Tensors of the open model beside native ONNX Runtime, with the kernels that it runs now.

        Parameters
        ----------
        name
            Of a tensor, a step or an ONNX node; all that can be compared without one.

        Raises
        ------
        UserError
            When no model is open, nothing can be compared, or it was cancelled.
        PageError, CompileError
        """
        self._need_model()
        with (
            self.cancellable("The comparison", on_phase) as phase,
            killed_on_cancel(self.compiler, self._cancelled.is_set),
        ):
            if not self._registered:
                self.register_best(phase)
            return diff_model(self, name, on_phase=phase)

    def fixed_primitives(self) -> dict[str, str]:
        """Settings on which all devices of the database agree."""
        return fixed_primitives(self.database.devices())

    def measured_device(self) -> MeasuredDevice | None:
        """What was last measured of this device in this target, in any session."""
        return self.database.device(device_id(), self.target)

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
        self._serving = True

    def stop_serving(self) -> None:
        """Let the page rest."""
        if self._serving:
            self._serving = False
            self.runner.stop_serving()

    def tune(
        self, seconds: float | None = None, full_speed: bool = False, exhaustive: bool = False
    ) -> Iterator[Event]:
        """Tune the open model, which may be serving; events as in ``tuner.events``."""
        model = self._need_model()
        self._take_page_back(lambda phase: None)
        self._cold = None
        self._cancelled.clear()
        self.events = []
        session = TuningSession(
            model.graph.name,
            model.plan,
            model.workloads,
            self.runner,
            self.compiler,
            self.database,
            self.connect(),
            SystemClock(),
            self._feeds,
            TuneOptions(
                seconds=seconds,
                packable=model.packable,
                exhaustive=exhaustive,
                full_speed=full_speed,
                served=self.runner.served if self._serving else None,
            ),
            self._cancelled.is_set,
        )
        self._session = session
        try:
            for event in session.run():
                self.events.append(event)
                if isinstance(event, SpaceBuilt):
                    # Until something wins here, the default is the best: winners of other
                    # targets were never compared with it.
                    self._chosen[event.workload] = None
                    self._registered = True
                elif isinstance(event, Swapped):
                    self._chosen[event.workload] = parse_candidate(event.candidate)
                elif isinstance(event, Failed) and (gone := gpu_gone(self.runner)):
                    self._fall_back(gone)
                    yield FellBack(event.t_s, gone.error, self.target)
                yield event
        finally:
            self._session = None

    def explain(self, workload: str, settings: str) -> list[Verdict]:
        """Every rule's answer on a candidate of one of the model's workloads, by key.

        For the window's own thread: it waits for nothing.

        Raises
        ------
        UserError
            When the text is no candidate, the workload has no lite space, or no page
            has told yet what the device is.
        """
        found = self._workload(workload)
        packable = workload in self._need_model().packable
        candidate = parse_candidate(settings)
        if self.device is None:
            raise UserError("The device is not known yet.", "Wait for the page to connect.")
        return explain(candidate, found, self.device, packable)

    def inspect(self, workload: str, settings: str = "") -> KernelInspection:
        """A kernel of one of the model's workloads from the inside, in the device's best tier.

        It waits for the compile process alone, so it may run beside a session.

        Parameters
        ----------
        settings
            Of a candidate, ``default`` for the default schedule; empty for the best known.

        Raises
        ------
        UserError
            When the text is no candidate, or no page has told yet what the device is.
        """
        found = self._workload(workload)
        if self.device is None:
            raise UserError("The device is not known yet.", "Wait for the page to connect.")
        if settings:
            candidate = None if settings == DEFAULT_SETTINGS else parse_candidate(settings)
        else:
            candidate = self.choose_known()[workload]
        packable = workload in self._need_model().packable
        return inspect_kernel(
            self.compiler, found, candidate, self.device, packable, self.bandwidth_gbs()
        )

    def run_kernel(self, workload: str, settings: str) -> Iterator[Event]:
        """Run the open model with this kernel of a workload, until it is tuned or opened again.

        The database keeps its verdicts: the next session starts from the last winner.

        Raises
        ------
        UserError
            When it was not measured on this device, or it was wrong.
        CompileError, PageError
        """
        found, device = self._workload(workload), self.connect()
        candidate = None if settings == DEFAULT_SETTINGS else parse_candidate(settings)
        tier = device.best_tier
        key = KernelKey.of(found, device, tier, self.compiler.version)
        known = {r.settings: r for r in self.database.records(key) if r.samples_ms}
        if candidate is not None and (
            settings not in known or known[settings].state not in OK_STATES
        ):
            raise UserError(
                f"It is not known that {settings} computes the right values here.",
                "Measure it first; what is wrong does not run.",
            )
        result = self.compiler.compile(found, candidate, (tier,))
        if result.error:
            raise CompileError(f"{found.name} does not compile: {result.error}")
        if not self._registered:
            self.register_best()
        self.runner.register(result.kernels)
        before = settings_of(self.choose_known()[workload])
        self._chosen[workload] = candidate
        then, now = (known[s].gflops if s in known else 0.0 for s in (before, settings))
        yield Swapped(0.0, workload, settings, then, now, from_database=True)

    def try_candidate(self, workload: str, settings: str) -> Iterator[Event]:
        """Compile, check and time a candidate of the user's beside the kernel that runs.

        Raises
        ------
        UserError, PageError
        """
        found, candidate = self._workload(workload), parse_candidate(settings)
        if not found.tunable:
            raise UserError(f"{found.name} has no schedule template.", "Choose another workload.")
        if not self._registered:
            self.register_best()
        incumbent = self.choose_known()[workload]
        for event in try_candidate(
            found,
            candidate,
            incumbent,
            self.runner,
            self.compiler,
            self.database,
            self.connect(),
            SystemClock(),
        ):
            if isinstance(event, Swapped):
                self._chosen[workload] = candidate
            yield event

    def request(self, workload: str, settings: str) -> bool:
        """Have a running session measure the candidate next; False when none runs. Thread-safe.

        Raises
        ------
        UserError
            When the text is no candidate.
        """
        candidate, session = parse_candidate(settings), self._session
        if session is None:
            return False
        session.request(workload, candidate)
        return True

    def _workload(self, key: str) -> Workload:
        found = next((w for w in self._need_model().workloads if w.key == key), None)
        if found is None:
            raise UserError("The open model has no such workload.", "Choose one in the graph.")
        return found

    def _need_model(self) -> OpenedModel:
        if self.model is None:
            raise UserError("No model is open.", "Open an .onnx file first.")
        return self.model

    def choose(self, workload: str, candidate: AnyCandidate | None) -> None:
        """Settle the settings of a workload of the open model, by its key."""
        self._chosen[workload] = candidate

    def choose_known(self, backend: Backend | None = None) -> dict[str, AnyCandidate | None]:
        """The best known settings of every workload: this session's, else the database's.

        ``backend`` is the workbench's own when None; of another one the database alone tells.
        """
        model, backend = self._need_model(), backend or self.backend
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
        model = self._need_model()
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

    def bandwidth_gbs(self) -> Mapping[int, float]:
        """Measured 10^9 bytes a second that threads read from memory, by their number.

        Empty where the device experiments never ran on this device and target. Of a GPU:
        what its probe copied, under 1.
        """
        device = self.connect()
        if device.gpu is not None:
            return {1: device.gpu.copy_gbs} if device.gpu.copy_gbs else {}
        measured = self.database.device(device.device_id, device.target)
        return measured.bandwidth_gbs(READ) if measured else {}

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

    def export(self, out: Path, samples: bool = True, webgpu: bool | None = None) -> Path:
        """Write the bundle: best known kernels of both tiers, plan, weights, engine.

        Parameters
        ----------
        webgpu
            Whether kernels for WebGPU go with them. None: where the workbench runs them, or
            the database has a winner of a GPU, and every workload compiles.

        Raises
        ------
        UserError
            In a lab mode: its kernels were chosen for an engine that no visitor has.
        CompileError
            When ``webgpu`` is asked for and a workload has no kernel there.
        """
        model = self._need_model()
        if is_lab(self.target):
            raise UserError(
                f"Results of the target {self.target} do not enter a bundle.",
                "Tune without --lab, then export.",
            )
        facts = ("device_id", "target", "user_agent", "flags")
        tuned_on = {name: getattr(self.device, name) for name in facts} if self.device else {}
        if self.device and self.device.gpu:
            tuned_on["adapter"] = self.device.gpu.name
        on_gpu = self._gpu_kernels(webgpu)
        return write_bundle(
            out,
            model.plan,
            model.weights,
            [*self.kernels(tiers_of_backend(WASM), WASM), *on_gpu],
            name=model.graph.name,
            tuned_on=tuned_on,
            samples=self._feeds if samples else None,
            engine_files=engine_files(gpu=bool(on_gpu)),
        )

    def _gpu_kernels(self, wanted: bool | None) -> list[Kernel]:
        """Kernels for WebGPU that go into a bundle; see :meth:`export`."""
        backend = self.backend if self.backend.is_gpu else Backend("webgpu", "navigator")
        if wanted is None:
            wanted = self.backend.is_gpu or any(self.choose_known(backend).values())
            if not wanted:
                return []
            try:
                return self.kernels(tiers_of_backend(backend), backend)
            except CompileError as e:
                log.warning("The bundle has no kernels for WebGPU: %s", e.error)
                return []
        return self.kernels(tiers_of_backend(backend), backend) if wanted else []

    def report(self, out: Path) -> Path:
        """Write the self-contained HTML report of the last session."""
        self._need_model()
        if not any(isinstance(e, Finished) for e in self.events):
            raise UserError("There is no finished session to report.", "Tune the model first.")
        write_report(
            out,
            [e.to_json() for e in self.events],
            created=SystemClock().now_iso(),
            versions=self.versions(),
        )
        return out

    def versions(self) -> dict[str, str]:
        """What produced the results: program, compiler and engine."""
        engine = self.device.user_agent if self.device else "no page yet"
        return {
            "nnjit-studio": __version__,
            "compiler": self.compiler.version,
            "engine": engine,
        }

    def records(self, limit: int = 5000) -> list[TuningRecord]:
        """Records of the kernel database, newest first."""
        return self.database.all_records(limit=limit)
