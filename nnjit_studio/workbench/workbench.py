"""What is done with an open model: tune, look inside, profile, compare, export.

Both the window and the command line drive a :class:`Workbench`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from nnjit_studio.analysis.backends import BackendComparison, compare_backends
from nnjit_studio.analysis.diff import Diff, diff_model
from nnjit_studio.analysis.kernel import KernelInspection, inspect_kernel
from nnjit_studio.analysis.profile import ModelProfile, Phases, profile_open, run_cold
from nnjit_studio.analysis.report import write_report
from nnjit_studio.bundle import engine_files, write_bundle
from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.doctor.microbench import measure_device
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.records import Kernel, KernelKey
from nnjit_studio.records.backend import WASM, Backend, choose_backend
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, settings_of
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.records.lab import is_lab
from nnjit_studio.space import explain
from nnjit_studio.space.lite_space import Verdict
from nnjit_studio.tuner import TunedModel, TuneOptions, TuningContext, TuningSession
from nnjit_studio.tuner.evaluator import OK_STATES
from nnjit_studio.tuner.events import (
    Event,
    Failed,
    FellBack,
    Finished,
    Paused,
    SpaceBuilt,
    Swapped,
)
from nnjit_studio.tuner.own_candidate import try_candidate
from nnjit_studio.workbench.model import Events, ModelBench
from nnjit_studio.workbench.open_model import OpenedModel, killed_on_cancel
from nnjit_studio.workbench.page import SystemClock
from nnjit_studio.workbench.runners import gpu_gone, tiers_of_backend
from nnjit_studio.workbench.stored_best import known_device

log = logging.getLogger(__name__)

PROFILE_RUNS = 20


class Workbench(ModelBench):
    """One model on one target: opens it, tunes it in the page, exports what was found."""

    _session: TuningSession | None = None

    def tune(
        self, seconds: float | None = None, full_speed: bool = False, exhaustive: bool = False
    ) -> Iterator[Event]:
        """Tune the open model, which may be serving; events as in ``tuner.events``.

        Ends after ``Paused`` too: :meth:`resume` goes on, and all else may be done before.
        """
        self.drop_paused()
        yield from self._until_paused(self._tuned(seconds, full_speed, exhaustive))

    def pause(self, pausing: bool = True) -> bool:
        """Have the running session pause after its round; False when none runs. Thread-safe."""
        session = self._session
        if session is not None:
            session.pause(pausing)
        return session is not None

    def resume(self, stop: bool = False) -> Iterator[Event]:
        """Go on with the paused session; where the backend has changed, with a new one.

        With ``stop`` it only times the model and sums up.

        Raises
        ------
        UserError
            When no session is paused.
        """
        rested, session = self._rested, self._session
        if rested is None or session is None:
            raise UserError("No tuning is paused.", "Start it: it goes on from what is known.")
        events, runner = rested
        if runner is self.runner:
            self._rested = None
            self._cancelled.clear()
            if stop:
                self.cancel()
            yield from self._until_paused(events)
        elif stop:
            self.drop_paused()
        else:
            yield from self.tune(session.seconds_left)

    def set_seconds_left(self, seconds: float | None) -> bool:
        """Give the session so many seconds from now on; False when there is none. Thread-safe."""
        session = self._session
        if session is not None:
            session.set_seconds_left(seconds)
        return session is not None

    def seconds_left(self) -> float | None:
        """Of the session's budget; None without a limit or a session. Thread-safe."""
        session = self._session
        return None if session is None else session.seconds_left

    def set_serving_budget(self, share: float) -> None:
        """Change what tuning may add to the latency of the serving model. Thread-safe."""
        self._serve_options = replace(self._serve_options, budget=share)

    def _until_paused(self, events: Events) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Paused):
                self._rested = events, self.runner
            yield event
            if self._rested is not None:
                return

    def _tuned(self, seconds: float | None, full_speed: bool, exhaustive: bool) -> Events:
        model = self._need_model()
        self._take_page_back(lambda phase: None)
        self._cold = None
        self._cancelled.clear()
        events: list[Event] = []
        self.events = events
        session = TuningSession(
            TunedModel(model.graph.name, model.plan, model.workloads, self._feeds, model.packable),
            self._tuning_context(),
            TuneOptions(
                seconds=seconds,
                exhaustive=exhaustive,
                full_speed=full_speed,
                served=self._served if self._serving else None,
            ),
            self._cancelled.is_set,
        )
        self._session = session
        serving = self._serving
        try:
            for event in session.run():
                events.append(event)
                if isinstance(event, SpaceBuilt):
                    # Until something wins here, the default is the best: winners of other
                    # targets were never compared with it.
                    self.choose(event.workload, None)
                    self._registered = True
                elif isinstance(event, Swapped):
                    self.choose(event.workload, parse_candidate(event.candidate))
                elif isinstance(event, Failed) and (gone := gpu_gone(self.runner)):
                    self._fall_back(gone)
                    yield FellBack(event.t_s, gone.error, self.target)
                chosen = self._chosen
                yield event
                if isinstance(event, Paused):  # anything may have been done with the page
                    self._take_page_back(lambda phase: None)
                    self._chosen, self._registered = chosen, True
                    if serving and not self._serving:
                        self.serve(self._serve_options)
        finally:
            self._session = None

    def _tuning_context(self) -> TuningContext:
        return TuningContext(
            self.runner, self.compiler, self.database, self.connect(), SystemClock()
        )

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
            self._tuning_context(),
        ):
            if isinstance(event, Swapped):
                self.choose(workload, candidate)
            yield event

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
        self.choose(workload, candidate)
        then, now = (known[s].gflops if s in known else 0.0 for s in (before, settings))
        yield Swapped(0.0, workload, settings, then, now, from_database=True)

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
        plan, other = model.on(WASM).plan, model.on(Backend("webgpu")).plan
        if on_gpu and other.steps != plan.steps:
            plan = replace(plan, gpu_steps=other.steps)
        return write_bundle(
            out,
            plan,
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
