"""One candidate of the user's own, outside any session."""

from __future__ import annotations

from collections.abc import Iterator

from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, KernelKey, MeasurePolicy
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.tuner.evaluator import at_once, evaluate, measured_event, record_of
from nnjit_studio.tuner.events import Compiled, Event, Swapped
from nnjit_studio.tuner.other_tiers import other_tiers, with_twins
from nnjit_studio.tuner.protocols import Clock, Compiler, Records, Runner
from nnjit_studio.tuner.swap_policy import SwapPolicy, gflops_of
from nnjit_studio.tuner.task_scheduler import WorkloadState

QUICK_MS = 600.0
"""Of samples: somebody waits for the answer."""


def try_candidate(
    workload: Workload,
    candidate: AnyCandidate,
    incumbent: AnyCandidate | None,
    runner: Runner,
    compiler: Compiler,
    records: Records,
    device: DeviceProfile,
    clock: Clock,
    policy: MeasurePolicy = MeasurePolicy(max_ms=QUICK_MS),  # noqa: B008
) -> Iterator[Event]:
    """Compile, check and time a candidate beside the incumbent; a winner is registered.

    The same gates as in a session. Bytes that were measured before are measured again.

    Parameters
    ----------
    incumbent
        Settings of the kernel that runs now, None for the default schedule.

    Raises
    ------
    CompileError
        When the incumbent does not compile any more.
    """
    began_s = clock.monotonic_s()

    def t_s() -> float:
        return clock.monotonic_s() - began_s

    tier, thresholds = device.best_tier, SwapPolicy()
    running = compiler.compile(workload, incumbent, (tier,))
    if running.error:
        raise CompileError(
            f"The kernel that runs now does not compile: {running.error}", "Report it."
        )
    compiled = compiler.compile(workload, candidate, (tier,))
    nbytes = sum(len(k.data) for k in compiled.kernels)
    yield Compiled(
        t_s(),
        workload.key,
        settings_of(candidate),
        compiled.ms,
        nbytes,
        compiled.pass_ms,
        compiled.error,
    )
    key = KernelKey.of(workload, device, tier, compiler.version)
    kernel = running.kernel(tier)
    state = WorkloadState(workload, key, default=kernel, incumbent=kernel)
    runner.set_fixture(compiler.fixture(workload))
    outcome = at_once(evaluate(compiled, state, runner, device, policy, thresholds))
    others = other_tiers(tier, device)
    if outcome.verdict.state == "won" and others:
        twins = compiler.compile(workload, candidate, others)
        outcome = with_twins(outcome, twins, others, runner, thresholds)
    records.commit_record(record_of(outcome, key, device, clock.now_iso()))
    yield measured_event(outcome, workload.key, t_s())
    if outcome.verdict.state == "won" and outcome.kernel is not None:
        runner.register([outcome.kernel])
        before = outcome.gflops / outcome.verdict.speedup if outcome.verdict.speedup else 0.0
        after = gflops_of(workload.flops, outcome.ms)
        yield Swapped(t_s(), workload.key, settings_of(candidate), before, after)
