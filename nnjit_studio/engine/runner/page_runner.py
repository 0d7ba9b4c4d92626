"""The runner of the tuner and the workbench: plain calls that the engine page answers."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.arrays import feeds_to_blobs
from nnjit_studio.engine.messages.connection import PageLost, RequestError
from nnjit_studio.engine.messages.replies import read
from nnjit_studio.engine.runner import requests
from nnjit_studio.engine.runner.link import Ask, LeftS, PageLink, unlimited
from nnjit_studio.engine.runner.probes import gpu_device, page_device
from nnjit_studio.engine.runner.recovery import GPU_LOST, GpuGone, Recovery
from nnjit_studio.engine.runner.requests import Model
from nnjit_studio.engine.runner.tokens import stream_tokens
from nnjit_studio.errors import BugError, PageError, TargetError
from nnjit_studio.model import Generated, Generation, Plan, Sampling, TensorSpec, Token
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.segments import MixedPlan
from nnjit_studio.records import (
    TIERS,
    DeviceProfile,
    Fixture,
    Inference,
    Kernel,
    MeasurePolicy,
    Pulse,
    RateRequest,
    RunResult,
    Tap,
    Trial,
)
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.serving import ServeOptions, ServingStats

NO_PLANS: Mapping[str, Plan] = {}
T = TypeVar("T")


class PageRunner:
    """Calls to the engine page of a hub.

    Calls block; any thread may make them, they run one after another. Those
    about serving wait for none of the others. When the page or its GPU is lost
    and someone opens the page again, its model, kernels and fixture are sent to
    the next one and the call is repeated.

    Parameters
    ----------
    engine
        Name of what runs the page, such as ``embedded`` or ``chromium``.
    flags
        What it was started with, stored with every measurement.
    timeout_s
        How long one request, or one run of the model, may take.
    threads
        How many a kernel may run on, in the engine and when it is measured.

    Attributes
    ----------
    backend
        What runs the kernels.
    memory_bytes, wasm_tier
        Of the loaded model; the page's best, after :meth:`probe_gpu`.

    Raises
    ------
    PageError
        From every call: when the page is gone, answers with an error or not
        in time, or :meth:`cancel` is called.
    GpuGone
        From every call, after :data:`MOST_LOSSES` of a GPU in a row.
    """

    def __init__(
        self,
        hub: Hub,
        engine: str,
        flags: str = "",
        timeout_s: float = 120.0,
        threads: int = 1,
        backend: Backend = WASM,
    ) -> None:
        self.memory_bytes, self.wasm_tier = 0, TIERS[0]
        self._target = backend.target(engine)
        self._flags = flags
        self._threads = threads
        self._fields = backend.fields()
        self.backend = backend
        self._link = PageLink(hub, timeout_s)
        self._recovery = Recovery(hub, self._send_again)
        self._held = self._recovery.held
        self._which = ""
        self._left_s: LeftS = unlimited
        self._peak: dict[str, tuple[bytes, int]] = {}

    @property
    def losses(self) -> int:
        """How often the page or its GPU was lost and restored."""
        return self._recovery.losses

    @property
    def gone(self) -> GpuGone | None:
        """Why the GPU was given up with the present model; None while it was not."""
        return self._recovery.gone

    def cancel(self) -> None:
        """Make every waiting call raise ``PageError("cancelled")``; later calls work."""
        self._link.hub.cancel()

    def probe(self, peak_kernels: Sequence[tuple[str, bytes, int]] = ()) -> DeviceProfile:
        """The device and the engine, with the measured peak of each tier given.

        Parameters
        ----------
        peak_kernels
            Tier, module and floating-point operations of one iteration.

        Raises
        ------
        TargetError
            When the engine has no Wasm SIMD, or no shared memory for the threads asked for.
        """
        peak = [{"tier": tier, "flops_per_iteration": flops} for tier, _, flops in peak_kernels]
        with self._link.turn() as ask:
            reply, _ = ask({"type": "probe", "peak": peak}, [data for _, data, _ in peak_kernels])
        device = page_device(reply, self._target, self._threads)
        self._peak = {tier: (data, flops) for tier, data, flops in peak_kernels}
        return replace(device, flags=self._flags)

    def probe_gpu(self, peak: tuple[bytes, int]) -> DeviceProfile:
        """The adapter, with its measured peak; ``peak`` is a kernel document and its FLOPs a run.

        Raises
        ------
        TargetError
            When there is no adapter, or it is software and that was not asked for.
        """
        page = self.probe()
        self.wasm_tier = page.best_tier
        header = {"type": "gpu_probe", "implementation": self.backend.implementation}
        with self._link.turn() as ask:
            reply, _ = ask({**header, "flops": peak[1]}, [peak[0]])
        device = gpu_device(reply, page)
        assert device.gpu is not None
        if device.gpu.is_fallback and not self.backend.software:
            raise TargetError(
                f"The only adapter of {page.target} is {device.gpu.name}.",
                "Add --gpu software to use it nevertheless, or use --backend wasm.",
            )
        self._peak = dict.fromkeys(device.tiers, peak)
        return device

    def pulse(self, tier: str) -> Pulse:
        """The rate of the peak kernel of the last probe, and what surrounds the page."""
        if tier not in self._peak:
            raise BugError(f"A pulse of {tier} was asked for before the device was probed.")
        data, flops = self._peak[tier]
        header = {"type": "pulse", "flops_per_iteration": flops, **self._fields}
        return self.steady(lambda ask: read(ask(header, [data])[0], Pulse, ("hidden",)))

    def rates(self, kernels: Sequence[bytes], request: RateRequest) -> list[list[float]]:
        """Milliseconds of one iteration: for each item, one for each round."""
        with self._link.turn() as ask:
            return requests.rates(ask, kernels, request)

    def load(
        self,
        plan: Plan,
        weights: Path,
        others: Mapping[str, Plan] = NO_PLANS,
        mixed: MixedPlan | None = None,
    ) -> None:
        """Drop any model, load this one: its plan, then its weights in chunks.

        ``others`` are further plans by name, over the same weights and state; a GPU runs the plan
        as ``mixed`` divides it. ``UserError`` when the weights file is not as long as it says.
        """
        model = Model(plan, weights, dict(others), mixed if self.backend.is_gpu else None)
        requests.check_weights(model)
        self._recovery.gone = None  # another model may fit
        self._held.model = None
        self._held.kernels = {}
        self.steady(lambda ask: self._send_model(ask, model))
        self._held.model = model

    def for_plan(self, name: str) -> PageRunner:
        """The same page, where inferences run one of the further plans that were loaded."""
        runner = copy.copy(self)
        runner._which = name
        return runner

    def within(self, left_s: LeftS) -> PageRunner:
        """The same page, whose calls raise ``PageError`` when so many seconds are over; it ends
        what it was asked for before it answers the next one."""
        runner = copy.copy(self)
        runner._left_s = left_s
        return runner

    def holds(self, plan: Plan) -> bool:
        """Whether this very plan is the one that was loaded last."""
        return self._held.model is not None and self._held.model.plan is plan

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Of the plan that inferences run; none before a model is loaded."""
        return self._plan.input_specs if self._held.model else ()

    def register(self, kernels: Sequence[Kernel], only: bool = False) -> None:
        """Hot swap, all or none: takes effect before this returns.

        ``only`` drops every other kernel.
        """
        self.steady(lambda ask: self._send_kernels(ask, kernels, only))
        with self._recovery.lock:
            kept = {} if only else self._held.kernels
            # a divided model may call a workload on both sides
            self._held.kernels = {**kept, **{(k.workload, k.tier in TIERS): k for k in kernels}}

    def infer(
        self, feeds: Feeds, runs: int = 1, profile: bool = False, least_step_ms: float = 0.0
    ) -> Inference:
        """Run the loaded model ``runs`` times on these inputs.

        Parameters
        ----------
        profile
            Time every step.
        least_step_ms
            How long a profiled step is looked at; a shorter one is repeated at once.

        Raises
        ------
        UserError
            When an input is missing, unknown, or of another shape or dtype.
        """
        which = {"plan": self._which} if self._which else {}
        fields = {"runs": runs, "profile": profile, "least_step_ms": least_step_ms, **which}
        timeout_s = self._link.timeout_s * max(1, runs)
        return self.steady(lambda ask: requests.infer(ask, self._plan, feeds, fields, timeout_s))

    def tap(self, feeds: Feeds, taps: Sequence[Tap]) -> list[bytes]:
        """Run the loaded model once and copy what the taps name; at least one, in their order.

        Errors as of :meth:`infer`; a ``PageError`` also when a tap lies outside the plan, or all
        together outside a frame.
        """
        return self.steady(lambda ask: requests.tap(ask, self._plan, feeds, taps))

    def generate(
        self, facts: Generation, ids: Sequence[int], sampling: Sampling
    ) -> Generator[Token, None, Generated]:
        """Have the loaded decoder go on with a text; tokens as they come.

        Closing the generator ends the text in the page too, after its current token.

        Raises
        ------
        PageError
            Also when no token comes in time.
        """
        header = {"type": "generate", "facts": asdict(facts), "ids": list(ids)}
        header |= asdict(sampling)
        with self._link.turn():
            return (yield from stream_tokens(self._link.hub, header, self._link.timeout_s))

    def set_fixture(self, fixture: Fixture, threads: int | None = None) -> None:
        """Send the inputs and references that later measurements use, large ones in parts.

        ``threads`` replaces the runner's own number for these measurements.
        """
        self._held.fixture = None
        self.steady(lambda ask: self._send_fixture(ask, fixture, threads))
        self._held.fixture = fixture, threads

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Say which kernels will be measured on the current fixture soon.

        A GPU compiles their pipelines while it measures; on software that would slow it down.
        """
        if not self.backend.is_gpu or self.backend.software:
            return
        header = {"type": "prepare", "kernels": [kernel.header() for kernel in kernels]}
        with contextlib.suppress(RequestError), self._link.turn() as ask:
            ask(header, [kernel.data for kernel in kernels])

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        """Samples of the challenger and of the incumbent, on the current fixture.

        What the page cannot measure, and a kernel with which the page is lost twice, is a
        result with an error.
        """
        same = (challenger.workload, challenger.settings, challenger.tier)
        pages_lost = 0

        def call() -> RunResult:
            nonlocal pages_lost
            try:
                with self._link.turn(self._left_s) as ask:
                    return requests.measure(ask, challenger, incumbent, policy)
            except RequestError as error:
                if error.code == GPU_LOST:
                    raise
                return RunResult(*same, error=str(error))
            except PageLost as lost:
                pages_lost += 1
                if pages_lost < 2:
                    raise
                self._recovery.restore(lost)
                return RunResult(*same, error=f"The page was lost with it twice: {lost.error}")

        return self._recovery.steady(call)

    def trial(self, feeds: Feeds, kernels: Sequence[Kernel], policy: MeasurePolicy) -> Trial:
        """Run the model with these kernels and without, in turns; a refusal is in ``error``."""
        given = feeds, kernels, policy, self._which
        return self.steady(lambda ask: requests.trial(ask, self._plan, *given))

    def serve(self, feeds: Feeds, options: ServeOptions) -> None:
        """Have the page run the model continuously; from now on tuning keeps to the budget.

        It continues during all other calls, until :meth:`stop_serving` or the next
        :meth:`load`. Another call starts it afresh. Errors as of :meth:`infer`.
        """

        def call() -> None:
            inputs, blobs = feeds_to_blobs(self._plan.input_specs, feeds)
            self._link.serving = options.budget is not None
            try:
                self._link.ask({"type": "serve", "inputs": inputs, **asdict(options)}, blobs)
            except PageError:
                self._link.serving = False
                raise

        self._recovery.steady(call)

    def served(self, hold: bool | None = None, budget: float | None = None) -> ServingStats:
        """What the page served since the last time; answered also while it measures.

        ``hold`` stops all tuning at the page's gate, or lets it go on; ``budget`` replaces
        that of :meth:`serve`, unless that was full speed.
        """
        asked = {"hold": hold, "budget": budget}
        header = {"type": "served"} | {k: v for k, v in asked.items() if v is not None}
        return requests.serving_stats(self._link.ask(header)[0])

    def stop_serving(self) -> None:
        """End serving; harmless when the page does not serve."""
        self._link.ask({"type": "serve_stop"})
        self._link.serving = False

    @property
    def _plan(self) -> Plan:
        """Of the inferences."""
        model = self._held.model
        if model is None:
            raise BugError("An inference was asked for before a model was loaded.")
        return model.others[self._which] if self._which else model.plan

    def steady(self, request: Callable[[Ask], T]) -> T:
        """A call of one turn that is repeated when the page or its GPU was lost under it."""

        def call() -> T:
            with self._link.turn(self._left_s) as ask:
                return request(ask)

        return self._recovery.steady(call)

    def _send_again(self) -> None:
        """Give the page that is there what the lost one held."""
        held = self._held
        with self._link.turn() as ask:
            if held.model is not None:
                self._send_model(ask, held.model)
                if held.kernels:
                    self._send_kernels(ask, list(held.kernels.values()), only=False)
            if held.fixture is not None:
                self._send_fixture(ask, *held.fixture)

    def _send_model(self, ask: Ask, model: Model) -> None:
        self._link.serving = False
        fields = {"threads": self._threads, **self._fields}
        self.memory_bytes = requests.send_model(ask, model, fields)

    def _send_kernels(self, ask: Ask, kernels: Sequence[Kernel], only: bool) -> None:
        # a GPU's buffers follow from its kernels
        self.memory_bytes = requests.send_kernels(ask, kernels, only) or self.memory_bytes

    def _send_fixture(self, ask: Ask, fixture: Fixture, threads: int | None) -> None:
        fields = {"threads": threads or self._threads, **self._fields}
        requests.send_fixture(ask, fixture, fields)
