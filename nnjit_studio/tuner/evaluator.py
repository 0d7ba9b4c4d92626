"""One kernel, from the page's reply to a verdict, a record in the database and an event."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, TypeVar

from nnjit_studio.errors import BugError
from nnjit_studio.model import Workload
from nnjit_studio.records import (
    CompileResult,
    DeviceProfile,
    Kernel,
    KernelKey,
    MeasurePolicy,
    RunResult,
    TuningRecord,
)
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.outcomes import COMPARED, NOT_TOLD_APART, TIMED
from nnjit_studio.tuner.context import TuningContext
from nnjit_studio.tuner.events import Measured, Trying
from nnjit_studio.tuner.in_place import InPlace, Trials, settled_in_place
from nnjit_studio.tuner.other_tiers import check_other_tiers, other_tiers
from nnjit_studio.tuner.peak.ceiling import Ceiling
from nnjit_studio.tuner.protocols import Measures
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.swap_policy import (
    SwapPolicy,
    Verdict,
    convincing,
    decide,
    gflops_of,
    hopeless,
)

MAX_ERROR_RATIO = 1e9
"""Stands for infinity in events, for JSON has none."""
T = TypeVar("T")


def at_once(steps: Generator[Any, None, T]) -> T:
    """The result of a generator, whatever it yields."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Evaluator:
    """Measures, judges and records kernels.

    Parameters
    ----------
    trials
        Where winners of duels have to hold; None: they are taken at once.
    compile_now
        Builds the other tiers of a winner.
    t_s
        Seconds since the session began.

    Attributes
    ----------
    late_ms, total_ms
        Of all challengers on a GPU: waiting after it had finished, and all measuring.
    """

    def __init__(
        self,
        context: TuningContext,
        tier: str,
        thresholds: SwapPolicy,
        compile_now: Callable[[Workload, AnyCandidate | None, tuple[str, ...]], CompileResult],
        t_s: Callable[[], float],
        trials: Trials | None = None,
    ) -> None:
        self._runner, self._records, self._clock = context.runner, context.records, context.clock
        self._tier, self._thresholds = tier, thresholds
        self._ceiling = Ceiling(context.device, tier, context.runner, thresholds)
        self._others = other_tiers(tier, context.device)
        self._compile_now, self._t_s = compile_now, t_s
        self._trials = trials
        self.late_ms = self.total_ms = 0.0

    def check_default(
        self, compiled: CompileResult, state: WorkloadState, policy: MeasurePolicy
    ) -> float:
        """Compare a default kernel with the float64 reference; its median ms.

        Raises
        ------
        BugError
            When it is wrong or crashed: everything after would be built on it.
            One that seems too fast is kept: a peak probed on a busy machine is too low.
        """
        result = self._runner.measure(state.default, None, policy)
        peak = self._ceiling.peak(state.workload.kind)
        verdict = decide(result, state.workload.flops, peak, self._thresholds)
        kernels = (state.default, None)
        result, verdict = self._ceiling.judged(result, verdict, state.workload, kernels, policy)
        if verdict.state in ("won", "impossible"):
            verdict = self._with_other_tiers(verdict, compiled, state.default)
        if verdict.state not in ("won", "impossible"):
            raise BugError(
                f"The default kernel of {state.workload.name} is {verdict.state}: "
                f"{verdict.reason}.",
                "Report it together with the model.",
            )
        return self._recorded(compiled, state, result, replace(verdict, state="default")).ms

    def record_default(self, state: WorkloadState, duel: Measured) -> Measured:
        """Record the samples of a default kernel, checked before, that a duel took of it."""
        kernel, samples_ms = state.default, duel.incumbent_ms
        compiled = CompileResult(kernel.workload, None, (kernel,))
        named = (kernel.workload, kernel.settings, kernel.tier)
        result = RunResult(*named, samples_ms, (), 1, 0.0, True, gpu_clock=duel.gpu_clock)
        return self._recorded(compiled, state, result, Verdict("default", ""))

    def challenge(
        self, compiled: CompileResult, state: WorkloadState, policy: MeasurePolicy
    ) -> Generator[Trying, None, Measured]:
        """Measure a candidate in turns with the incumbent, unless it failed or its bytes are known.

        The record is in the database when this returns. Yields what begins, look by look.
        """
        if compiled.error:
            return self._recorded(compiled, state, None, Verdict("failed", compiled.error))
        kernel = compiled.kernel(self._tier)
        if kernel.sha256 in state.measured:
            same = f"the same bytes as {state.measured[kernel.sha256]}"
            return self._recorded(compiled, state, None, Verdict("duplicate", same))
        kernels = (kernel, state.incumbent)
        flops, peak = state.workload.flops, self._ceiling.peak(state.workload.kind)
        steps = looks(self._runner, *kernels, flops, peak, policy, self._thresholds)
        result, verdict = yield from self._told(steps, kernel, state, "check", "duel")
        result, verdict = self._ceiling.judged(result, verdict, state.workload, kernels, policy)
        place = None
        if verdict.state == "won" and self._trials is not None:
            trial = self._trials.of(kernel, policy.max_ms, self._thresholds)
            place = yield from self._told(trial, kernel, state, "place")
            verdict = settled_in_place(verdict, place)
        if verdict.state == "won" and self._others:
            others = self._compile_now(state.workload, compiled.candidate, self._others)
            verdict = self._with_other_tiers(verdict, others, kernel)
        if result.gpu_clock:
            self.late_ms += result.late_ms
            self.total_ms += result.total_ms
        return self._recorded(compiled, state, result, verdict, place)

    def _told(
        self, steps: Generator[int, None, T], kernel: Kernel, state: WorkloadState, *phases: str
    ) -> Generator[Trying, None, T]:
        """What the steps come to; the first is told as the first phase, all others as the last."""
        phase, then = phases[0], phases[-1]
        while True:
            try:
                pairs = next(steps)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            yield Trying(self._t_s(), state.workload.key, kernel.settings, phase, pairs)
            phase = then

    def _with_other_tiers(
        self, verdict: Verdict, compiled: CompileResult, tuned: Kernel
    ) -> Verdict:
        wrong = check_other_tiers(compiled, tuned, self._others, self._runner, self._thresholds)
        return wrong or verdict

    def _recorded(
        self,
        compiled: CompileResult,
        state: WorkloadState,
        result: RunResult | None,
        verdict: Verdict,
        place: InPlace | None = None,
    ) -> Measured:
        measured = measured_event(compiled, result, verdict, state.workload.flops, self._t_s())
        measured = replace(measured, in_place=place)
        created = self._clock.now_iso()
        self._records.commit_record(
            record_of(measured, compiled, state.key, self._ceiling.device, created)
        )
        if not compiled.error:
            kernel = compiled.kernel(self._tier)
            state.measured.setdefault(kernel.sha256, kernel.settings)
        return measured


def duel(
    runner: Measures,
    challenger: Kernel,
    incumbent: Kernel,
    flops: int,
    peak_gflops: float | None,
    policy: MeasurePolicy,
    thresholds: SwapPolicy,
) -> tuple[RunResult, Verdict]:
    """The result and verdict of :func:`looks`."""
    return at_once(looks(runner, challenger, incumbent, flops, peak_gflops, policy, thresholds))


def looks(
    runner: Measures,
    challenger: Kernel,
    incumbent: Kernel,
    flops: int,
    peak_gflops: float | None,
    policy: MeasurePolicy,
    thresholds: SwapPolicy,
) -> Generator[int, None, tuple[RunResult, Verdict]]:
    """Samples in pairs until the matter is settled, and the verdict over all of them.

    Yields, before each look, how many pairs there will be after it.

    The challenger is judged after as many pairs as each of ``thresholds.looks``
    says. It ends with a proven win, a gain that is out of reach, a kernel that is
    wrong, the last look, or about ``policy.max_ms`` of samples. A win that is not
    :func:`~nnjit_studio.tuner.swap_policy.convincing` by then is none.
    """
    result: RunResult | None = None
    for pairs in thresholds.looks:
        taken = len(result.samples_ms) if result else 0
        yield pairs
        more = runner.measure(challenger, incumbent, replace(policy, pairs=pairs - taken))
        result = more if result is None else result.with_more(more)
        verdict = decide(result, flops, peak_gflops, thresholds)
        if verdict.state == "won":
            open_still = not convincing(result, verdict)
        else:
            open_still = verdict.state in COMPARED and not result.stopped_early
            open_still = open_still and not hopeless(result, thresholds)
        full = len(result.samples_ms) == pairs and _sampling_ms(result) < policy.max_ms
        if not (open_still and full):
            break
    assert result is not None
    if verdict.state == "won" and not convincing(result, verdict):
        why = f"{verdict.reason}, too few for a machine as busy as this"
        verdict = replace(verdict, state=NOT_TOLD_APART, reason=why)
    return result, verdict


def _sampling_ms(result: RunResult) -> float:
    """What the samples took: the incumbent's last about as long as the challenger's."""
    return 2 * result.batch * sum(result.samples_ms)


def measured_event(
    compiled: CompileResult, result: RunResult | None, verdict: Verdict, flops: int, t_s: float
) -> Measured:
    """What is known of a candidate after its round; ``result`` is None if it was not measured."""
    samples_ms = result.samples_ms if result else ()
    ms = statistics.median(samples_ms) if samples_ms else 0.0
    ratio = result.error_ratio if result and not result.error else 0.0
    return Measured(
        t_s=t_s,
        workload=compiled.workload,
        candidate=settings_of(compiled.candidate),
        state=verdict.state,
        reason=verdict.reason,
        gflops=gflops_of(flops, ms),
        ms=ms,
        samples_ms=samples_ms,
        speedup=verdict.speedup,
        speedup_low=verdict.low,
        speedup_high=verdict.high,
        error_ratio=ratio if ratio < MAX_ERROR_RATIO else MAX_ERROR_RATIO,
        incumbent_ms=result.incumbent_ms if result else (),
        gpu_clock=result.gpu_clock if result else "",
        pipeline_ms=result.pipeline_ms if result else 0.0,
    )


def record_of(
    measured: Measured,
    compiled: CompileResult | None,
    key: KernelKey,
    device: DeviceProfile,
    created: str,
) -> TuningRecord:
    """The database's record of a measurement; ``created`` is ISO 8601 in UTC.

    ``compiled`` is None for a plan, which has no kernel of its own.
    """
    kernel = compiled.kernel(key.tier) if compiled and not compiled.error else None
    return TuningRecord(
        key=key,
        workload=measured.workload,
        settings=measured.candidate,
        state=measured.state,
        median_ms=measured.ms,
        gflops=measured.gflops,
        samples_ms=measured.samples_ms,
        sha256=kernel.sha256 if kernel else "",
        wasm=kernel.data if kernel else b"",
        panels=kernel.panels if kernel else (),
        parallel_extent=kernel.parallel_extent if kernel else 1,
        compile_ms=compiled.ms if compiled else 0.0,
        browser=device.user_agent,
        flags=device.flags,
        timer_quantum_ms=device.timer_quantum_ms,
        created=created,
        error="" if measured.state in TIMED else measured.reason,
        gpu_clock=measured.gpu_clock,
        pipeline_ms=measured.pipeline_ms,
        speedup=measured.speedup,
        speedup_low=measured.speedup_low,
        speedup_high=measured.speedup_high,
        in_place=str(measured.in_place or ""),
    )
