"""The tuner's runner: plain calls that the engine page answers."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from nnjit_studio.device import host as device
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages import replies
from nnjit_studio.engine.messages.arrays import array_bytes, blobs_to_outputs, feeds_to_blobs
from nnjit_studio.engine.messages.connection import RequestError
from nnjit_studio.engine.messages.frames import Blob, Frame
from nnjit_studio.engine.runner.tokens import stream_tokens
from nnjit_studio.errors import BugError, PageError, TargetError, UserError
from nnjit_studio.model import (
    NUMPY_DTYPES,
    Generated,
    Generation,
    Plan,
    Sampling,
    TensorSpec,
    Token,
)
from nnjit_studio.records import (
    DeviceProfile,
    Fixture,
    Inference,
    Kernel,
    MeasurePolicy,
    Pulse,
    RateRequest,
    RunResult,
    Tap,
)
from nnjit_studio.records.serving import ServeOptions, ServingStats

CHUNK_BYTES = 8 * 1024 * 1024
GPU_LOST = "gpu-lost"
NO_PLANS: Mapping[str, Plan] = {}
SERVING_TIMEOUT_S = 600.0
"""Of a request that has to wait until the budget of a serving model allows it."""


class _Ask(Protocol):
    def __call__(
        self,
        header: Mapping[str, Any],
        blobs: Sequence[Blob] = (),
        timeout_s: float | None = None,
    ) -> Frame: ...


class PageRunner:
    """``Runner`` and ``DeviceAware`` of the tuner, over a hub with a page.

    Calls block; any thread may make them, they run one after another. Those
    about serving wait for none of the others.

    Parameters
    ----------
    target
        Name of what runs the page, such as ``embedded`` or ``chromium``.
    flags
        What it was started with, stored with every measurement.
    timeout_s
        How long one request, or one run of the model, may take.
    threads
        How many a kernel may run on, in the engine and when it is measured.

    Raises
    ------
    PageError
        From every call: when the page is gone, answers with an error or not
        in time, or :meth:`cancel` is called.
    """

    def __init__(
        self,
        hub: Hub,
        target: str,
        flags: str = "",
        timeout_s: float = 120.0,
        threads: int = 1,
    ) -> None:
        self._hub = hub
        self._target = target
        self._flags = flags
        self._timeout_s = timeout_s
        self._threads = threads
        self._plan: Plan | None = None
        self._peak: dict[str, tuple[bytes, int]] = {}
        self.memory_bytes = 0
        self._others: dict[str, Plan] = {}
        self._which: dict[str, str] = {}
        self._serving = False
        self._fields: dict[str, str] = {}
        self._turn = threading.Lock()

    def cancel(self) -> None:
        """Make every waiting call raise ``PageError("cancelled")``; later calls work."""
        self._hub.cancel()

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
        with self._exclusive() as ask:
            reply, _ = ask({"type": "probe", "peak": peak}, [data for _, data, _ in peak_kernels])
        self._peak = {tier: (data, flops) for tier, data, flops in peak_kernels}
        if not replies.flag(reply, "simd"):
            raise TargetError(
                f"The target {self._target!r} has no WebAssembly SIMD.", "Use a newer browser."
            )
        if self._threads > 1 and not replies.flag(reply, "threads"):
            raise TargetError(
                f"The target {self._target!r} has no shared memory, so kernels run on one thread.",
                "Use --threads 1 or another browser.",
            )
        return replace(
            device.host_profile(self._target),
            user_agent=replies.text(reply, "user_agent"),
            flags=self._flags,
            cores=replies.integer(reply, "cores"),
            timer_quantum_ms=replies.number(reply, "timer_quantum_ms"),
            tiers=("simd128", "relaxed-simd")[: 1 + replies.flag(reply, "relaxed_simd")],
            peak_gflops=replies.rates(reply, "peak_gflops"),
            cross_origin_isolated=replies.flag(reply, "cross_origin_isolated"),
            threads=self._threads,
        )

    def pulse(self, tier: str) -> Pulse:
        """The rate of the peak kernel that :meth:`probe` was given, and what surrounds the page."""
        if tier not in self._peak:
            raise BugError(f"A pulse of {tier} was asked for before the device was probed.")
        data, flops = self._peak[tier]
        with self._exclusive() as ask:
            header = {"type": "pulse", "flops_per_iteration": flops, **self._fields}
            reply, _ = ask(header, [data])
        return Pulse(
            replies.number(reply, "gflops"),
            replies.flag(reply, "hidden"),
            replies.optional(replies.flag, reply, "on_battery"),
        )

    def rates(self, kernels: Sequence[bytes], request: RateRequest) -> list[list[float]]:
        """Milliseconds of one iteration: for each item, one for each round."""
        with self._exclusive() as ask:
            reply, _ = ask({"type": "rates", **asdict(request)}, kernels)
        return [list(samples) for samples in replies.number_rows(reply, "samples_ms")]

    def load(self, plan: Plan, weights: Path, others: Mapping[str, Plan] = NO_PLANS) -> None:
        """Drop any model, load this one: its plan, then its weights in chunks.

        ``others`` are further plans of the model by name, over the same weights and state.

        Raises
        ------
        UserError
            When the weights file is not as long as the plan says.
        """
        nbytes = weights.stat().st_size
        if nbytes != plan.weights_bytes:
            raise UserError(
                f"The weights file {weights} has {nbytes} bytes, "
                f"the plan wants {plan.weights_bytes}.",
                "Import the model again.",
            )
        with self._exclusive() as ask:
            self._plan = None
            self._serving = False
            header = {
                "type": "load", "plan": plan.to_json(), "threads": self._threads, **self._fields,
            }  # fmt: skip
            if others:
                header["others"] = {name: other.to_json() for name, other in others.items()}
            reply, _ = ask(header)
            self.memory_bytes = replies.optional(replies.integer, reply, "memory_bytes") or 0
            with weights.open("rb") as file:
                for offset in range(0, nbytes, CHUNK_BYTES):
                    ask({"type": "weights", "offset": offset}, [file.read(CHUNK_BYTES)])
            self._plan = plan
            self._others = dict(others)

    def for_plan(self, name: str) -> PageRunner:
        """The same page, where inferences run one of the further plans that were loaded."""
        runner = copy.copy(self)
        runner._plan, runner._which = self._others[name], {"plan": name}
        return runner

    def holds(self, plan: Plan) -> bool:
        """Whether this very plan is the one that was loaded last."""
        return self._plan is plan

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Of the plan that inferences run; none before a model is loaded."""
        return tuple(port.spec for port in self._plan.inputs) if self._plan else ()

    def register(self, kernels: Sequence[Kernel], only: bool = False) -> None:
        """Hot swap, all or none: takes effect before this returns.

        ``only`` drops every other kernel.
        """
        headers = [kernel.header() for kernel in kernels]
        header = {"type": "register", "kernels": headers, "only": only}
        with self._exclusive() as ask:
            reply, _ = ask(header, [kernel.data for kernel in kernels])
        # a GPU's buffers follow from its kernels
        memory_bytes = replies.optional(replies.integer, reply, "memory_bytes")
        self.memory_bytes = memory_bytes or self.memory_bytes

    def infer(
        self,
        feeds: Mapping[str, NDArray[Any]],
        runs: int = 1,
        profile: bool = False,
        least_step_ms: float = 0.0,
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
        with self._exclusive() as ask:
            plan, inputs, blobs = self._inputs(feeds)
            header = {
                "type": "infer", "inputs": inputs, "runs": runs, "profile": profile,
                "least_step_ms": least_step_ms, **self._which,
            }  # fmt: skip
            reply, results = ask(header, blobs, self._timeout_s * max(1, runs))
            return Inference(
                blobs_to_outputs(
                    [port.spec for port in plan.outputs],
                    replies.records(reply, "outputs"),
                    results,
                ),
                replies.numbers(reply, "runs_ms"),
                replies.optional(replies.numbers, reply, "steps_ms") or (),
                replies.optional(replies.integers, reply, "steps_threads") or (),
                replies.optional(replies.numbers, reply, "steps_iqr_ms") or (),
                tuple(
                    replies.integers({"steps_chunks": row}, "steps_chunks")
                    for row in reply.get("steps_chunks") or ()
                ),
            )

    def tap(self, feeds: Mapping[str, NDArray[Any]], taps: Sequence[Tap]) -> list[bytes]:
        """Run the loaded model once and copy what the taps name; at least one, in their order.

        Raises
        ------
        UserError
            When an input is missing, unknown, or of another shape or dtype.
        PageError
            Also when a tap lies outside the plan, or all together outside a frame.
        """
        with self._exclusive() as ask:
            if self._plan is None:
                raise BugError("A tap was asked for before a model was loaded.")
            inputs, blobs = feeds_to_blobs([port.spec for port in self._plan.inputs], feeds)
            header = {
                "type": "infer", "inputs": inputs, "runs": 1, "profile": False,
                "taps": [asdict(tap) for tap in taps],
            }  # fmt: skip
            _, copies = ask(header, blobs)
        if [blob.nbytes for blob in copies] != [tap.nbytes for tap in taps]:
            raise PageError("The page sent other bytes than those asked for.")
        return [bytes(blob) for blob in copies]

    def generate(
        self, facts: Generation, ids: Sequence[int], sampling: Sampling
    ) -> Generator[Token, None, Generated]:
        """Have the loaded decoder go on with a text; tokens as they come.

        Closing the generator ends the text in the page too, behind its present token.

        Raises
        ------
        PageError
            Also when no token comes in time.
        """
        header = {
            "type": "generate", "facts": facts.to_json(), "ids": list(ids), **asdict(sampling),
        }  # fmt: skip
        with self._exclusive():
            return (yield from stream_tokens(self._hub, header, self._timeout_s))

    def set_fixture(self, fixture: Fixture, threads: int | None = None) -> None:
        """Send the inputs and references that later measurements use, large ones in parts.

        ``threads`` replaces the runner's own number for these measurements.
        """
        blobs: list[Blob] = []

        def blob(data: Blob) -> int:
            blobs.append(data)
            return len(blobs) - 1

        args = [
            {
                "role": arg.role,
                "dtype": arg.dtype,
                "nbytes": arg.nbytes,
                "pack": arg.pack,
                "blob": None if arg.data is None else blob(arg.data),
            }
            for arg in fixture.args
        ]
        dtypes = [arg.dtype for arg in fixture.args if arg.role == "output"]
        outputs = [
            {"expected": blob(_expected_bytes(expected, dtype)), "bound": blob(_f32_bytes(bound))}
            for expected, bound, dtype in zip(fixture.expected, fixture.bound, dtypes, strict=True)
        ]
        header = {
            "type": "fixture", "workload": fixture.workload, "args": args, "outputs": outputs,
            "threads": threads or self._threads, **self._fields,
        }  # fmt: skip
        with self._exclusive() as ask:
            for index, data in enumerate(blobs):
                view = memoryview(data).cast("B")
                if view.nbytes > CHUNK_BYTES:
                    part = {"type": "ahead", "blob": index, "nbytes": view.nbytes}
                    for offset in range(0, view.nbytes, CHUNK_BYTES):
                        ask({**part, "offset": offset}, [view[offset : offset + CHUNK_BYTES]])
                    blobs[index] = b""
            ask(header, blobs)

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        """Samples of the challenger beside the incumbent, on the current fixture.

        What the page cannot measure is a result with an error.
        """
        kernels = [challenger] if incumbent is None else [challenger, incumbent]
        header = {
            "type": "measure",
            "challenger": challenger.header(),
            "incumbent": None if incumbent is None else incumbent.header(),
            "policy": asdict(policy),
        }
        same = (challenger.workload, challenger.settings, challenger.tier)
        # The page itself gives up after 3 max_ms + 10 s (docs/protocol.md).
        timeout_s = policy.max_ms * 3 / 1000 + 20.0
        try:
            with self._exclusive() as ask:
                reply, _ = ask(header, [kernel.data for kernel in kernels], timeout_s)
        except RequestError as error:
            if error.code == GPU_LOST:
                raise
            return RunResult(*same, error=str(error))
        return RunResult(
            *same,
            samples_ms=replies.numbers(reply, "samples_ms"),
            incumbent_ms=replies.numbers(reply, "incumbent_ms"),
            batch=replies.integer(reply, "batch"),
            error_ratio=replies.ratio(reply, "error_ratio"),
            guard_ok=replies.flag(reply, "guard_ok"),
            stopped_early=replies.flag(reply, "stopped_early"),
            instantiate_ms=replies.number(reply, "instantiate_ms"),
            digest=replies.optional(replies.text, reply, "digest") or "",
            error=replies.text(reply, "error"),
            gpu_clock=replies.optional(replies.text, reply, "gpu_clock") or "",
            pipeline_ms=replies.optional(replies.number, reply, "pipeline_ms") or 0.0,
            late_ms=replies.optional(replies.number, reply, "late_ms") or 0.0,
            total_ms=replies.optional(replies.number, reply, "total_ms") or 0.0,
        )

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Say which kernels will be measured on the current fixture soon."""

    def serve(self, feeds: Mapping[str, NDArray[Any]], options: ServeOptions) -> None:
        """Have the page run the model on and on; what tunes it keeps to the budget from now on.

        It goes on beside all other calls, until :meth:`stop_serving` or the next
        :meth:`load`. Called again it begins anew.

        Raises
        ------
        UserError
            When an input is missing, unknown, or of another shape or dtype.
        """
        _, inputs, blobs = self._inputs(feeds)
        header = {"type": "serve", "inputs": inputs, **asdict(options)}
        self._serving = options.budget is not None
        try:
            self._hub.request(header, blobs, self._timeout_s)
        except PageError:
            self._serving = False
            raise

    def served(self, hold: bool | None = None, budget: float | None = None) -> ServingStats:
        """What the page served since the last time; answered also while it measures.

        ``hold`` stops all tuning at the page's gate, or lets it go on; ``budget`` replaces
        that of :meth:`serve`, unless that was full speed.
        """
        asked = {"hold": hold, "budget": budget}
        header = {"type": "served"} | {k: v for k, v in asked.items() if v is not None}
        reply, _ = self._hub.request(header, (), self._timeout_s)
        stats = ServingStats(
            replies.numbers(reply, "latencies_ms"),
            replies.integers(reply, "generations"),
            replies.flags(reply, "touched"),
            replies.number(reply, "elapsed_ms"),
            replies.number(reply, "tuning_ms"),
            replies.optional(replies.number, reply, "reference_p95_ms"),
            replies.text(reply, "error"),
        )
        if stats.error:
            raise PageError(f"The model stopped serving: {stats.error}", "Load the model again.")
        return stats

    def stop_serving(self) -> None:
        """Let the page rest; harmless when it does not serve."""
        self._hub.request({"type": "serve_stop"}, (), self._timeout_s)
        self._serving = False

    def _inputs(
        self, feeds: Mapping[str, NDArray[Any]]
    ) -> tuple[Plan, list[dict[str, Any]], list[memoryview]]:
        if self._plan is None:
            raise BugError("An inference was asked for before a model was loaded.")
        return (self._plan, *feeds_to_blobs([port.spec for port in self._plan.inputs], feeds))

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[_Ask]:
        """The turn of one call: its requests are not mixed with those of another."""
        cancels = self._hub.cancels

        def ask(
            header: Mapping[str, Any],
            blobs: Sequence[Blob] = (),
            timeout_s: float | None = None,
        ) -> Frame:
            limit_s = timeout_s or self._timeout_s
            if self._serving:
                limit_s = max(limit_s, SERVING_TIMEOUT_S)
            return self._hub.request(header, blobs, limit_s, cancels)

        with self._turn:
            yield ask


def _expected_bytes(expected: NDArray[Any], dtype: str) -> memoryview:
    """References of floats travel as f32 whatever the output's dtype, others as they are."""
    return array_bytes(expected.astype(NUMPY_DTYPES["f32" if dtype == "f16" else dtype]))


def _f32_bytes(array: NDArray[Any]) -> memoryview:
    return array_bytes(array.astype(NUMPY_DTYPES["f32"]))
