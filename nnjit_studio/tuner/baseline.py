"""The start of tuning: default kernels that are right, and lite spaces with their known results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nnjit_studio.errors import BugError
from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, KernelKey, MeasurePolicy, TuningRecord
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.tuner.context import SessionState
from nnjit_studio.tuner.evaluator import Evaluator
from nnjit_studio.tuner.events import Event, SpaceBuilt
from nnjit_studio.tuner.incumbents import Incumbents
from nnjit_studio.tuner.other_tiers import tiers_of
from nnjit_studio.tuner.search.search_strategy import SearchStrategy
from nnjit_studio.tuner.search.stored_records import (
    known_results,
    settled,
    stored_speedup,
    stored_winner,
)
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.swap_policy import gflops_of, import_scipy

FAR_OFF = 0.1
"""A share: a default's figure this far outside of the interval of a new one is replaced."""


def check_defaults(
    session: SessionState,
    workloads: Sequence[Workload],
    evaluator: Evaluator,
    rest: Callable[[], Iterator[Event]],
) -> Iterator[Event]:
    """Compile and check the default kernel of every workload, until the session is cancelled.

    Parameters
    ----------
    rest
        Pauses where the user has asked for it.
    """
    context, queue = session.context, session.queue
    for workload in workloads:
        queue.put(workload, None, tiers_of(context.device))
    queue.background(import_scipy)
    version = context.compiler.version
    keys = [KernelKey.of(w, context.device, session.tier, version) for w in workloads]
    stored = [context.records.records(key) for key in keys]
    for i, (workload, key) in enumerate(zip(workloads, keys, strict=True)):
        yield from rest()
        if session.clock.cancelled():
            return
        compiled = queue.get()
        yield session.compiled(compiled)
        state = state_of(compiled, workload, key)
        session.states.append(state)
        known = stored_default(state, stored[i])
        if known is not None:
            _start_from(state, known.median_ms)
            continue
        yield session.trying(state, DEFAULT_SETTINGS, "check")
        context.runner.set_fixture(queue.fixture(workload))
        if i + 1 < len(keys) and not stored[i + 1]:  # made while the page measures
            queue.fixture_ahead(workloads[i + 1])
        policy = check_policy(session.options.policy, workload)
        _start_from(state, evaluator.check_default(compiled, state, policy))


def _start_from(state: WorkloadState, ms: float) -> None:
    state.default_ms = state.best_ms = ms
    state.best_gflops = gflops_of(state.workload.flops, ms)
    if state.best_gflops > 0:
        state.log_rates[DEFAULT_SETTINGS] = math.log(state.best_gflops)


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
    """The newest figure of the very same default kernel."""
    ours = state.default.sha256
    same = (r for r in reversed(records) if r.state == "default" and r.sha256 == ours)
    return next(same, None)


def is_far_off(state: WorkloadState, incumbent_ms: Sequence[float]) -> bool:
    """Whether the default kernel's figure does not fit samples that a duel took of the incumbent.

    It may have been measured while the machine was busy, maybe in an earlier session.
    """
    if not incumbent_ms or state.speedup is None:
        return False
    now, held = Estimate.of(incumbent_ms), state.default_ms / state.speedup[0]
    return not now.low * (1 - FAR_OFF) <= held <= now.high * (1 + FAR_OFF)


def renew_default(state: WorkloadState, incumbent_ms: Sequence[float]) -> None:
    """Take the figure of the default kernel from such samples."""
    assert state.speedup is not None
    now = Estimate.of(incumbent_ms)
    state.best_ms, state.default_ms = now.ms, now.ms * state.speedup[0]
    state.best_gflops = gflops_of(state.workload.flops, now.ms)
    met = state.log_rates.get(state.incumbent.settings)
    state.scale = state.best_gflops / math.exp(met) if met is not None else 1.0


def check_policy(policy: MeasurePolicy, workload: Workload) -> MeasurePolicy:
    """Short samples for workloads that will not be tuned: there the check matters, not the rate."""
    return policy if workload.tunable else replace(policy, pairs=2, min_sample_ms=1, warmup_ms=5)


def build_spaces(
    session: SessionState,
    packable: frozenset[str],
    search: SearchStrategy,
    incumbents: Incumbents,
) -> Iterator[Event]:
    """The lite space of each tunable workload; what the database knows of it is taken up."""
    context = session.context
    workloads = [s.workload for s in session.tunable]
    search.remember(context.records.history(workloads), {s.key for s in session.states})
    for state in session.tunable:
        space = build_lite_space(state.workload, context.device, state.workload.key in packable)
        records = context.records.records(state.key)
        winner = stored_winner(records)
        kernel = None if winner is None else incumbents.rebuilt(winner, state)
        if kernel is None:
            # A winner of other bytes makes doubtful what was compared with it.
            records = [r for r in records if r.state != "won"]
        records = settled(records, context.device.user_agent)
        settings = [str(e.candidate) for e in space.entries]
        known = {r.settings for r in records} & set(settings)
        state.candidates = len(space.entries)
        state.pending = [e for e in space.entries if str(e.candidate) not in known]
        state.measured |= {r.sha256: r.settings for r in records if r.sha256}
        state.log_rates |= {r.settings: math.log(r.gflops) for r in records if r.gflops > 0}
        yield SpaceBuilt(
            session.clock.t_s(),
            state.workload.key,
            tuple(settings),
            tuple(e.reason for e in space.entries),
            space.naive_size,
            len(known),
            known_results(records, known),
        )
        if winner is not None and kernel is not None:
            chain = stored_speedup(records)
            yield incumbents.swap(state, kernel, winner.median_ms, chain, from_database=True)
        search.open(state, records)
