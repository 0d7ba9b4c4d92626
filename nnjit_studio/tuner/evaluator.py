"""One candidate, from a compiled kernel to a verdict and its record."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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
from nnjit_studio.tuner.events import KnownCandidate, Measured
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.swap_policy import (
    SwapPolicy,
    Verdict,
    convincing,
    decide,
    gflops_of,
    hopeless,
)
from nnjit_studio.tuner.task_scheduler import WorkloadState

MAX_ERROR_RATIO = 1e9
"""Stands for infinity in events, for JSON has none."""
OK_STATES = ("won", "slower", "default")
T = TypeVar("T")


def at_once(steps: Generator[Any, None, T]) -> T:
    """What a generator returns, for whom what it yields does not matter."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Outcome:
    """All that is known of a candidate after its round; parts it never reached are None."""

    compiled: CompileResult
    verdict: Verdict
    kernel: Kernel | None = None
    result: RunResult | None = None
    flops: int = 0

    @property
    def samples_ms(self) -> tuple[float, ...]:
        return self.result.samples_ms if self.result else ()

    @property
    def ms(self) -> float:
        """Median of one run; 0 when there is no sample."""
        return statistics.median(self.samples_ms) if self.samples_ms else 0.0

    @property
    def gflops(self) -> float:
        return gflops_of(self.flops, self.ms)


def evaluate(
    compiled: CompileResult,
    state: WorkloadState,
    runner: Runner,
    device: DeviceProfile,
    policy: MeasurePolicy,
    thresholds: SwapPolicy,
) -> Generator[int, None, Outcome]:
    """Measure a challenger beside the incumbent, unless it failed or its bytes are known.

    Yields as :func:`looks` does.
    """
    if compiled.error:
        return Outcome(compiled, Verdict("failed", compiled.error))
    tier, flops = state.key.tier, state.workload.flops
    kernel = compiled.kernel(tier)
    if kernel.sha256 in state.measured:
        same = f"the same bytes as {state.measured[kernel.sha256]}"
        return Outcome(compiled, Verdict("duplicate", same), kernel)
    peak = device.peak(tier, state.workload.kind)
    result, verdict = yield from looks(
        runner, kernel, state.incumbent, flops, peak, policy, thresholds
    )
    return Outcome(compiled, verdict, kernel, result, flops)


def duel(
    runner: Runner,
    challenger: Kernel,
    incumbent: Kernel,
    flops: int,
    peak_gflops: float | None,
    policy: MeasurePolicy,
    thresholds: SwapPolicy,
) -> tuple[RunResult, Verdict]:
    """What :func:`looks` comes to."""
    return at_once(looks(runner, challenger, incumbent, flops, peak_gflops, policy, thresholds))


def looks(
    runner: Runner,
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
        result = more if result is None else _joined(result, more)
        verdict = decide(result, flops, peak_gflops, thresholds)
        if verdict.state == "won":
            open_still = not convincing(result, verdict)
        else:
            open_still = verdict.state == "slower" and not result.stopped_early
            open_still = open_still and not hopeless(result, thresholds)
        full = len(result.samples_ms) == pairs and _sampling_ms(result) < policy.max_ms
        if not (open_still and full):
            break
    assert result is not None
    if verdict.state == "won" and not convincing(result, verdict):
        why = f"{verdict.reason}, too few for a machine as busy as this"
        verdict = replace(verdict, state="slower", reason=why)
    return result, verdict


def _joined(before: RunResult, more: RunResult) -> RunResult:
    return replace(
        more,
        samples_ms=before.samples_ms + more.samples_ms,
        incumbent_ms=before.incumbent_ms + more.incumbent_ms,
        instantiate_ms=before.instantiate_ms,
        pipeline_ms=before.pipeline_ms,
        late_ms=before.late_ms + more.late_ms,
        total_ms=before.total_ms + more.total_ms,
    )


def _sampling_ms(result: RunResult) -> float:
    """What the samples took: the incumbent's last about as long as the challenger's."""
    return 2 * result.batch * sum(result.samples_ms)


def record_of(
    outcome: Outcome, key: KernelKey, device: DeviceProfile, created: str, state: str = ""
) -> TuningRecord:
    """The database's record of an outcome; ``state`` replaces the verdict's (``default``)."""
    kernel = outcome.kernel
    return TuningRecord(
        key=key,
        workload=outcome.compiled.workload,
        settings=settings_of(outcome.compiled.candidate),
        state=state or outcome.verdict.state,
        median_ms=outcome.ms,
        gflops=outcome.gflops,
        samples_ms=outcome.samples_ms,
        sha256=kernel.sha256 if kernel else "",
        wasm=kernel.data if kernel else b"",
        panels=kernel.panels if kernel else (),
        parallel_extent=kernel.parallel_extent if kernel else 1,
        compile_ms=outcome.compiled.ms,
        browser=device.user_agent,
        flags=device.flags,
        timer_quantum_ms=device.timer_quantum_ms,
        created=created,
        error="" if (state or outcome.verdict.state) in OK_STATES else outcome.verdict.reason,
        gpu_clock=outcome.result.gpu_clock if outcome.result else "",
        pipeline_ms=outcome.result.pipeline_ms if outcome.result else 0.0,
    )


def measured_event(outcome: Outcome, workload: str, t_s: float) -> Measured:
    result = outcome.result
    ratio = result.error_ratio if result is not None and not result.error else 0.0
    verdict = outcome.verdict
    return Measured(
        t_s=t_s,
        workload=workload,
        candidate=settings_of(outcome.compiled.candidate),
        state=verdict.state,
        reason=verdict.reason,
        gflops=outcome.gflops,
        ms=outcome.ms,
        samples_ms=outcome.samples_ms,
        speedup=verdict.speedup,
        speedup_low=verdict.low,
        speedup_high=verdict.high,
        error_ratio=ratio if ratio < MAX_ERROR_RATIO else MAX_ERROR_RATIO,
        incumbent_ms=result.incumbent_ms if result is not None else (),
        gpu_clock=result.gpu_clock if result is not None else "",
        pipeline_ms=result.pipeline_ms if result is not None else 0.0,
    )


def stored_winner(records: Sequence[TuningRecord]) -> TuningRecord | None:
    """The last record that won, or None.

    The last one, not the fastest: each winner beat the one before it in a
    direct comparison, while rates of different days do not compare.
    """
    return next((r for r in reversed(records) if r.state == "won"), None)


def known_results(
    records: Sequence[TuningRecord], known: Collection[str]
) -> tuple[KnownCandidate, ...]:
    """The last measurement of each known candidate; a former winner that was beaten is slower."""
    last = {r.settings: r for r in records if r.settings in known}
    winner = stored_winner(records)
    return tuple(
        KnownCandidate(
            r.settings,
            "slower" if r.state == "won" and r is not winner else r.state,
            r.gflops,
            r.median_ms,
        )
        for r in last.values()
    )
