"""One candidate of the user's own, outside any session."""

from __future__ import annotations

from collections.abc import Iterator

from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records import KernelKey, MeasurePolicy
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.outcomes import WON
from nnjit_studio.tuner.context import TuningContext, compiled_event
from nnjit_studio.tuner.evaluator import Evaluator, at_once
from nnjit_studio.tuner.events import Event, Swapped
from nnjit_studio.tuner.in_place import Trials
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.session_clock import SessionClock
from nnjit_studio.tuner.swap_policy import SwapPolicy

QUICK_MS = 600.0
"""Of samples: somebody waits for the answer."""


def try_candidate(
    workload: Workload,
    candidate: AnyCandidate,
    incumbent: AnyCandidate | None,
    context: TuningContext,
    policy: MeasurePolicy = MeasurePolicy(max_ms=QUICK_MS),  # noqa: B008
    trials: Trials | None = None,
) -> Iterator[Event]:
    """Compile and check a candidate, and time it in turns with the incumbent.

    A winner is registered. The same gates as in a session. Bytes that were measured before
    are measured again.

    Parameters
    ----------
    incumbent
        Settings of the kernel that runs now, None for the default schedule.
    trials
        In the running model, where a winner has to hold; None takes it at once.

    Raises
    ------
    CompileError
        When the incumbent does not compile any more.
    """
    clock, tier, compiler = SessionClock(context.clock), context.device.best_tier, context.compiler
    running = compiler.compile(workload, incumbent, (tier,))
    if running.error:
        raise CompileError(
            f"The kernel that runs now does not compile: {running.error}", "Report it."
        )
    compiled = compiler.compile(workload, candidate, (tier,))
    yield compiled_event(compiled, tier, clock.t_s())
    key = KernelKey.of(workload, context.device, tier, compiler.version)
    kernel = running.kernel(tier)
    state = WorkloadState(workload, key, default=kernel, incumbent=kernel)
    context.runner.set_fixture(compiler.fixture(workload))
    evaluator = Evaluator(context, tier, SwapPolicy(), compiler.compile, clock.t_s, trials)
    measured = at_once(evaluator.challenge(compiled, state, policy))
    yield measured
    if measured.state == WON:
        context.runner.register([compiled.kernel(tier)])
        before = measured.gflops / measured.speedup if measured.speedup else 0.0
        settings = settings_of(candidate)
        yield Swapped(clock.t_s(), workload.key, settings, before, measured.gflops)
