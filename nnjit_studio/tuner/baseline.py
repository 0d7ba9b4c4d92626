"""Where tuning starts: default kernels that are right, and the model timed with them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.errors import BugError
from nnjit_studio.model import Workload
from nnjit_studio.records import (
    CompileResult,
    DeviceProfile,
    KernelKey,
    MeasurePolicy,
    RunResult,
    TuningRecord,
)
from nnjit_studio.tuner.evaluator import Outcome
from nnjit_studio.tuner.events import ModelTimed
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.swap_policy import SwapPolicy, Verdict, decide
from nnjit_studio.tuner.task_scheduler import WorkloadState

WARMUP_RUNS = 3
TIMED_RUNS = 10
PROFILED_RUNS = 3
TIMING_RUNS = WARMUP_RUNS + TIMED_RUNS + PROFILED_RUNS
TURNS = 4
TURN_RUNS = 2
BESIDE_RUNS = TIMING_RUNS + 2 * TURNS * (1 + TURN_RUNS)
"""Of a tuned model, and then with its first and its tuned kernels in turns."""


TWIN_POLICY = MeasurePolicy(pairs=1, min_sample_ms=0.1, min_quanta=1, warmup_ms=0, max_ms=1)
"""For a kernel of another tier than the tuned one: it is compared with the reference, not timed."""


def state_of(compiled: CompileResult, workload: Workload, key: KernelKey) -> WorkloadState:
    """The state of a workload whose default kernel was compiled.

    Raises
    ------
    BugError
        When it was not: the model cannot run without it.
    """
    if compiled.error:
        raise BugError(
            f"The default kernel of {workload.name} could not be compiled: {compiled.error}.",
            "Report it together with the model.",
        )
    kernel = compiled.kernel(key.tier)
    return WorkloadState(
        workload, key, default=kernel, incumbent=kernel, measured={kernel.sha256: kernel.settings}
    )


def stored_default(state: WorkloadState, records: Sequence[TuningRecord]) -> TuningRecord | None:
    """An earlier check of the very same default kernel."""
    same = (r for r in records if r.state == "default" and r.sha256 == state.default.sha256)
    return next(same, None)


def check_policy(policy: MeasurePolicy, workload: Workload) -> MeasurePolicy:
    """Short samples for workloads that will not be tuned: there the check matters, not the rate."""
    return policy if workload.tunable else replace(policy, pairs=2, min_sample_ms=1, warmup_ms=5)


def judge_default(
    compiled: CompileResult,
    state: WorkloadState,
    result: RunResult,
    device: DeviceProfile,
    thresholds: SwapPolicy,
) -> Outcome:
    """Compare a default kernel with the float64 reference.

    Raises
    ------
    BugError
        When it is wrong or crashed: everything after would be built on it.
        One that seems too fast is kept: a peak probed on a busy machine is too low.
    """
    peak = device.peak(state.key.tier, state.workload.kind)
    verdict = decide(result, state.workload.flops, peak, thresholds)
    if verdict.state not in ("won", "impossible"):
        raise wrong_default(state, verdict)
    return Outcome(compiled, verdict, state.default, result, state.workload.flops)


def wrong_default(state: WorkloadState, verdict: Verdict) -> BugError:
    """The error of a default kernel that failed its check."""
    return BugError(
        f"The default kernel of {state.workload.name} is {verdict.state}: {verdict.reason}.",
        "Report it together with the model.",
    )


def time_turn(runner: Runner, feeds: Mapping[str, NDArray[Any]]) -> tuple[float, ...]:
    """Milliseconds of :data:`TURN_RUNS` runs with the kernels of now, after a warm one."""
    runner.infer(feeds)
    return runner.infer(feeds, TURN_RUNS).runs_ms


def timing_runs(run_ms: float, limit_s: float) -> int:
    """How many runs of a model :func:`time_model` makes, all together."""
    fitting = int(limit_s * 1000 / run_ms) if run_ms > 0 else TIMING_RUNS
    return TIMING_RUNS if fitting >= TIMING_RUNS else max(2, fitting)


def time_model(
    runner: Runner, feeds: Mapping[str, NDArray[Any]], limit_s: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Milliseconds of some runs, and the median ms of each step.

    Warm runs come first, then :data:`TIMED_RUNS`, then the profile's own. A
    model too slow for that in ``limit_s`` is warmed up once, and the runs of
    its profile are the timed ones: what a step's clock costs is nothing there.
    """
    first_ms = runner.infer(feeds).runs_ms[0]
    runs = timing_runs(first_ms, limit_s)
    if runs < TIMING_RUNS:
        slow = runner.infer(feeds, runs - 1, profile=True)
        return slow.runs_ms, slow.steps_ms
    runner.infer(feeds, WARMUP_RUNS - 1)
    timed = runner.infer(feeds, TIMED_RUNS)
    profiled = runner.infer(feeds, PROFILED_RUNS, profile=True)
    return timed.runs_ms, profiled.steps_ms


def model_event(t_s: float, runs_ms: Sequence[float], steps_ms: Sequence[float] = ()) -> ModelTimed:
    return ModelTimed(t_s, statistics.median(runs_ms), tuple(runs_ms), tuple(steps_ms))
