"""Default kernels compared with their references: what a session does first, and in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, KernelKey, MeasurePolicy
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.tuner.baseline import state_of, stored_default
from nnjit_studio.tuner.context import SessionState
from nnjit_studio.tuner.evaluator import Evaluator
from nnjit_studio.tuner.events import Event
from nnjit_studio.tuner.other_tiers import tiers_of
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.swap_policy import gflops_of, import_scipy

CHECK_SHARE = 0.25
"""Of the budget: after so much of it tuning begins with what was checked by then."""
AHEAD = 3
"""References that may be there before they are used."""
CHECK_LIMIT = 0.05
"""Of the budget: the most that the samples of one check may take."""


class Checks:
    """Compares each default kernel with its reference before anything is built on it.

    The reference of a large product can take longer than the budget: others are tuned meanwhile,
    and a workload whose check does not come in time is not tuned.

    Parameters
    ----------
    rest
        Pauses where the user has asked for it.

    Attributes
    ----------
    check_s
        What the last check took.
    """

    def __init__(
        self, session: SessionState, evaluator: Evaluator, rest: Callable[[], Iterator[Event]]
    ) -> None:
        self._session, self._evaluator, self._rest = session, evaluator, rest
        self._waiting: list[tuple[WorkloadState, CompileResult]] = []
        self.check_s = 0.0

    @property
    def waiting(self) -> list[Workload]:
        """Those that are compiled and not checked, the next one first."""
        return [state.workload for state, _ in self._waiting]

    def begin(self, workloads: Sequence[Workload]) -> Iterator[Event]:
        """Compile all, and check until :data:`CHECK_SHARE` of the budget is over, one at least.

        ``workloads`` are most work first, as the states are afterwards. Fewer of them where the
        session was cancelled, or the time is over.
        """
        session, context, queue = self._session, self._session.context, self._session.queue
        order = sorted(workloads, key=by_cost)
        for workload in order:
            queue.put(workload, None, tiers_of(context.device))
        queue.background(import_scipy)
        version = context.compiler.version
        keys = [KernelKey.of(w, context.device, session.tier, version) for w in order]
        stored = [context.records.records(key) for key in keys]
        for i, (workload, key) in enumerate(zip(order, keys, strict=True)):
            if not (i or stored[i]):
                queue.references.ahead(workload)  # its process begins while kernels are made
            yield from self._rest()
            if session.clock.stop() or not session.clock.wait(queue.next(), math.inf):
                return
            compiled = queue.get()
            yield session.compiled(compiled)
            state = state_of(compiled, workload, key)
            session.states.append(state)
            known = stored_default(state, stored[i])
            if known is not None:
                _start_from(state, known.median_ms)
                continue
            self._waiting.append((state, compiled))
            if not self._soon(CHECK_SHARE) or session.clock.stop(self.check_s):
                continue
            if i + 1 < len(keys) and not stored[i + 1]:  # made while the page measures
                queue.references.ahead(order[i + 1])
            yield from self._check()
        if self._waiting and not any(s.checked for s in session.states) and self._soon(1.0):
            yield from self._check()
        place = {workload.key: i for i, workload in enumerate(workloads)}
        session.states.sort(key=lambda s: place[s.workload.key])

    def late(self) -> Iterator[Event]:
        """Check those whose reference is there by now, and have the next ones made."""
        references = self._session.queue.references
        while self._waiting:
            futures = [references.ahead(workload) for workload in self.waiting[:AHEAD]]
            if not futures[0].done() or self._session.clock.stop(self.check_s):
                return
            yield from self._check()

    def _soon(self, share: float) -> bool:
        """Whether the first one's reference comes before such a share of the budget is over."""
        clock = self._session.clock
        future = self._session.queue.references.ahead(self.waiting[0])
        most_s = math.inf
        if clock.budget_s is not None:
            most_s = share * clock.budget_s - clock.t_s()
        return clock.wait(future, most_s)

    def _check(self) -> Iterator[Event]:
        state, compiled = self._waiting[0]
        session = self._session
        began_s = session.clock.t_s()
        yield session.trying(state, DEFAULT_SETTINGS, "check")
        session.context.runner.set_fixture(session.queue.references.get(state.workload))
        policy = check_policy(session.options.policy, state.workload, session.clock.budget_s)
        _start_from(state, self._evaluator.check_default(compiled, state, policy))
        self.check_s = session.clock.t_s() - began_s
        del self._waiting[0]


def by_cost(workload: Workload) -> tuple[bool, int]:
    """What is tuned first; then what is small, since its reference is there soon."""
    return not workload.tunable, workload.flops


def check_policy(
    policy: MeasurePolicy, workload: Workload, budget_s: float | None = None
) -> MeasurePolicy:
    """Short samples for workloads that will not be tuned: there the check matters, not the rate."""
    if budget_s is not None:
        policy = replace(policy, max_ms=min(policy.max_ms, CHECK_LIMIT * budget_s * 1e3))
    return policy if workload.tunable else replace(policy, pairs=2, min_sample_ms=1, warmup_ms=5)


def _start_from(state: WorkloadState, ms: float) -> None:
    state.checked = True
    state.default_ms = state.best_ms = ms
    state.best_gflops = gflops_of(state.workload.flops, ms)
    if state.best_gflops > 0:
        state.log_rates[DEFAULT_SETTINGS] = math.log(state.best_gflops)
