"""The open model on its page: loaded, with its inputs and the kernels that were chosen for it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.errors import CompileError, NnjitError, UserError
from nnjit_studio.model import Generated, Generation, Plan, Sampling, Token, Workload
from nnjit_studio.model.feeds import Feeds, example_feeds
from nnjit_studio.model.placement import GPU
from nnjit_studio.records import Inference, Kernel, Tap
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.serving import ServeOptions, ServingStats
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench.divided import divided, for_gpu, run_by
from nnjit_studio.workbench.open_model import OpenModel
from nnjit_studio.workbench.page import EnginePage
from nnjit_studio.workbench.phases import DONE, Phases
from nnjit_studio.workbench.runners import GpuGone, tiers_of_backend
from nnjit_studio.workbench.shared_weights import choose_together
from nnjit_studio.workbench.stored_best import stored_best

NO_PLANS: Mapping[str, Plan] = MappingProxyType({})


class ModelOnPage:
    """One model at a time on a page, run with the best kernels that are known.

    Several may share a page: each takes it when it is needed, and is loaded again where
    another one was there meanwhile.

    Attributes
    ----------
    opened
        The model as the backend runs it; None before one is open.
    feeds
        Inputs that it runs on, by name.
    events
        Of its last session, oldest first.
    registered
        Whether the page has kernels for every workload.
    serving
        Whether the page runs the model on and on.
    cold
        Phases of its opening, until something runs it first.
    opening_s
        Seconds that its last opening took.
    cold_ms
        Those phases with the first run, where a profile was what ran it.
    """

    def __init__(self, page: EnginePage) -> None:
        self.page = page
        self.opened: OpenModel | None = None
        self.feeds: Mapping[str, NDArray[Any]] = {}
        self.events: Sequence[Event] = ()
        self.registered = self.serving = False
        self.serve_options = ServeOptions()
        self.cold: Phases | None = None
        self.cold_ms: Mapping[str, float] = {}
        self.opening_s = 0.0
        self.chosen: Mapping[str, AnyCandidate | None] = {}

    @property
    def current(self) -> OpenModel:
        """The open model.

        Raises
        ------
        UserError
            When there is none.
        """
        if self.opened is None:
            raise UserError("No model is open.", "Open an .onnx file first.")
        return self.opened

    @property
    def decoder(self) -> Generation:
        """How the open model makes a text.

        Raises
        ------
        UserError
            When it is no decoder.
        """
        facts = self.current.generation
        if facts is None:
            raise UserError("No decoder is open.", "Open one that was exported with past first.")
        return facts

    def workload(self, key: str) -> Workload:
        """A workload of the open model, by its key.

        Raises
        ------
        UserError
            When there is none of it.
        """
        found = next((w for w in self.current.workloads if w.key == key), None)
        if found is None:
            raise UserError("The open model has no such workload.", "Choose one in the graph.")
        return found

    # In the page

    def load(self, opened: OpenModel, on_phase: OnPhase = quiet) -> None:
        """Load a model into the page, which drops the one before; if it fails, that one again."""
        on_phase("waiting for the page")
        self.page.hand_to(self)
        try:
            self.page.connect()
            self._send(opened, on_phase)
        except NnjitError:
            opened.weights.unlink(missing_ok=True)
            if self.opened is not None and not self.page.ended:
                with contextlib.suppress(NnjitError):  # the first error is the one to tell
                    self._send(self.opened)
            raise

    def adopt(
        self, opened: OpenModel, feeds: Mapping[str, NDArray[Any]] | None = None
    ) -> OpenModel:
        """Take a model that was loaded for the open one; what is known of the one before goes."""
        self.page.hand_to(self)
        previous, self.opened = self.opened, opened
        self.feeds = dict(feeds or example_feeds([p.spec for p in opened.plan.inputs]))
        self.chosen, self.events = {}, ()
        self.registered = self.serving = False
        self.cold, self.cold_ms = None, {}
        if previous is not None and previous.weights != opened.weights:
            previous.weights.unlink(missing_ok=True)
        return opened

    def began_cold(self, phases: Phases) -> None:
        """Keep the phases of the opening; a profile completes them, if it runs the model first."""
        phases(DONE)
        phases.ms.pop("waiting for the page", None)  # the engine's start, not the model's
        self.cold, self.opening_s = phases, sum(phases.ms.values()) / 1e3

    def load_with(self, others: Mapping[str, Plan]) -> None:
        """Load the open model again, with further plans over its memory."""
        model = self.current
        self.page.runner.load(model.plan, model.weights, others, model.mixed)

    def change_backend(self, backend: Backend, on_phase: OnPhase = quiet) -> None:
        """Run the open model on another backend; its kernels have to be registered again.

        Raises
        ------
        TargetError, PageError
            When the page has no such backend, or it cannot hold the model.
        """
        self.page.use(backend)
        self.chosen, self.registered = {}, False
        on_phase("waiting for the page")
        self.page.connect()
        if self.opened is not None:
            self.page.hand_to(self)
            if backend.is_gpu:
                self.opened = for_gpu(self.opened, self.page, self.page.target)
            self._send(self.opened, on_phase)

    def take_page(self, on_phase: OnPhase = quiet) -> None:
        """Have the page back from another model; this one is loaded again where it has to be."""
        opened = self.current
        self.page.hand_to(self)
        if not self.page.runner.holds(opened.plan):
            self._send(opened, on_phase)

    def leave(self) -> None:
        """Another model takes the page."""
        self.stop_serving()
        self.registered, self.cold = False, None

    def _send(self, opened: OpenModel, on_phase: OnPhase = quiet) -> None:
        on_phase("loading weights into the page")
        self.page.runner.load(opened.plan, opened.weights, opened.other_plans, opened.mixed)

    def _divide(self) -> bool:
        """Divide the steps of the open model between WebGPU and Wasm; whether they can be."""
        self.opened = divided(self.current, self.page.compiler)
        if self.opened.mixed:
            self._send(self.opened)
        return self.opened.mixed is not None

    # Kernels

    def choose(self, workload: str, candidate: AnyCandidate | None) -> None:
        """Settle the settings of a workload, by its key."""
        self.chosen = {**self.chosen, workload: candidate}

    def choose_known(
        self, backend: Backend | None = None, workloads: Sequence[Workload] | None = None
    ) -> dict[str, AnyCandidate | None]:
        """The best known settings of every workload: this session's, else the database's.

        ``backend`` is the page's own when None; of another one the database alone tells.
        ``workloads`` are those of another form of the open model, where they are not its own.
        """
        backend = backend or self.page.backend
        model, database = self.current, self.page.database
        if model.shares_weights and not backend.is_gpu:  # a GPU reads weights as they are
            device = self.page.connect()
            if self.page.backend.is_gpu:  # Wasm kernels for a bundle
                device = replace(device, gpu=None, tiers=tiers_of_backend(backend))
            return choose_together(model, device, self.page.compiler, database)
        mine = self.chosen if backend == self.page.backend else {}
        here = self.page.here(backend)
        return {
            w.key: mine[w.key]
            if w.key in mine
            else stored_best(database, w, here)
            if w.tunable
            else None
            for w in workloads or model.workloads
        }

    def kernels(
        self,
        tiers: Sequence[str],
        backend: Backend | None = None,
        workloads: Sequence[Workload] | None = None,
        on_phase: OnPhase = quiet,
    ) -> list[Kernel]:
        """The best known kernel of every workload in the given tiers; as :meth:`choose_known`.

        Raises
        ------
        CompileError
            When a workload has none.
        """
        chosen = self.choose_known(backend, workloads)
        on_gpu = (backend or self.page.backend).is_gpu
        every = workloads or (run_by(self.current, GPU) if on_gpu else self.current.workloads)
        return self.page.compiler.kernels_of_all(every, chosen, tiers, on_phase)

    def register_best(self, on_phase: OnPhase = quiet) -> None:
        """Give the page the best known kernels, for runs and profiles without tuning.

        A model of which the GPU cannot run some steps is divided for it.
        """
        self.take_page(on_phase)
        on_phase("compiling kernels")
        tiers = (self.page.connect().best_tier,)
        try:
            kernels = self.kernels(tiers)
        except CompileError:
            if not (self.page.backend.is_gpu and self._divide()):
                raise
            kernels = self.kernels(tiers)
        if self.page.backend.is_gpu and (wasm := run_by(self.current, "wasm")):
            kernels += self.kernels((self.page.runner.wasm_tier,), WASM, wasm)
        on_phase("registering kernels in the page")
        # Kernels that a decoder had may hold a common weight in other panels.
        self.page.runner.register(kernels, only=self.current.shares_weights)
        self.registered = True

    # Runs

    def infer(self, runs: int = 1, profile: bool = False, least_step_ms: float = 0.0) -> Inference:
        """Run the open model on its feeds with the registered kernels.

        Where the GPU is gone for good, in Wasm: the page's ``fallback_reason`` says so.
        """
        try:
            return self.page.runner.infer(self.feeds, runs, profile, least_step_ms)
        except GpuGone as gone:
            self.fall_back(gone)
            return self.page.runner.infer(self.feeds, runs, profile, least_step_ms)

    def infer_plan(self, name: str, runs: int) -> Inference:
        """Run a further plan that was loaded with the model, on feeds or what stands for them."""
        runner = self.page.runner.for_plan(name)
        feeds = {**example_feeds(runner.inputs), **self.feeds}
        return runner.infer({spec.name: feeds[spec.name] for spec in runner.inputs}, runs)

    def infer_on(self, name: str, feeds: Feeds, runs: int = 1) -> Inference:
        """Run a program of the open model, by the page's name, on these inputs."""
        runner = self.page.runner.for_plan(name) if name else self.page.runner
        return runner.infer(feeds, runs)

    def tap(self, taps: Sequence[Tap]) -> list[bytes]:
        """Run the open model once on its feeds; the bytes that the taps name."""
        return self.page.runner.tap(self.feeds, taps)

    def generate(self, ids: Sequence[int], sampling: Sampling) -> Generator[Token, None, Generated]:
        """Have the open decoder go on with a text; kernels must be registered."""
        return self.page.runner.generate(self.decoder, ids, sampling)

    def fall_back(self, gone: GpuGone) -> None:
        """Run the open model in Wasm, for the GPU cannot; ``fallback_reason`` says why."""
        self.change_backend(WASM)
        self.register_best()
        self.page.fallback_reason = gone.error

    # Serving

    def serve(self, options: ServeOptions) -> None:
        """Have the page run the open model on and on, with the best known kernels.

        Sessions keep to the budget until :meth:`stop_serving` or another model; called
        again, other options hold from then on.

        Raises
        ------
        UserError, PageError
        """
        if not self.registered:
            self.register_best()
        self.page.runner.serve(self.feeds, options)
        self.serving, self.serve_options = True, options

    def served(self) -> ServingStats:
        """What was served since the last time; the budget that was asked for holds from now on."""
        return self.page.runner.served(budget=self.serve_options.budget)

    def stop_serving(self) -> None:
        """Let the page rest."""
        if self.serving:
            self.serving = False
            self.page.runner.stop_serving()
