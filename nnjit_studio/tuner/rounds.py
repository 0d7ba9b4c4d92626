"""The rounds of a session: a candidate is chosen, compiled, measured, and swapped in if it won."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from nnjit_studio.records import CompileResult, MeasurePolicy
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.outcomes import COMPARED, FASTER, WON
from nnjit_studio.tuner.baseline import Spaces, is_far_off, renew_default
from nnjit_studio.tuner.checks.defaults import Checks, by_cost
from nnjit_studio.tuner.context import SessionState
from nnjit_studio.tuner.evaluator import Evaluator
from nnjit_studio.tuner.events import Drift, Event, MachineSeen, Measured, RoundDone
from nnjit_studio.tuner.requests import Requests
from nnjit_studio.tuner.search.task_scheduler import (
    ROUNDS_A_TURN,
    WorkloadState,
    model_ms,
    next_turn,
)
from nnjit_studio.tuner.sentinel import Sentinel
from nnjit_studio.tuner.session_clock import SLICE_S
from nnjit_studio.tuner.time_left import RoundClock, seconds_left
from nnjit_studio.tuner.timing import ModelTiming
from nnjit_studio.tuner.whole.machine import Machine, busy_text, is_rough

DUEL_SHARE = 0.05
"""Of the budget: the most that one challenger may take, who may be as fast as the incumbent."""
DUEL_RUNS = 12
"""But so many runs of the incumbent: fewer warm nothing up and prove nothing."""
LOST = tuple(state for state in COMPARED if state != WON)
AHEAD = 2
"""Candidates that are compiled while the page measures: the next ones as it looks then."""


SEEN_CHANGE = 0.03
"""Of the machine's rate, from which on it is told."""


class Rounds:
    """Runs rounds until the time is over or nothing is left to gain."""

    def __init__(
        self,
        session: SessionState,
        checks: Checks,
        spaces: Spaces,
        evaluator: Evaluator,
        requests: Requests,
        timing: ModelTiming,
        machine: Machine,
    ) -> None:
        self._session, self._checks, self._spaces = session, checks, spaces
        self._search, self._incumbents = spaces.search, spaces.incumbents
        self._evaluator, self._requests, self._timing = evaluator, requests, timing
        self._machine, self._seen_rate, self._rate = machine, 0.0, 0.0
        context, tier = session.context, session.tier
        self._runner, self._queue, self._clock = context.runner, session.queue, session.clock
        self._references = session.queue.references
        self._loaded: WorkloadState | None = None
        self._awaited: set[str] = set()
        self._round_clock = RoundClock()
        self._sentinel: Sentinel[tuple[WorkloadState, CompileResult]] = Sentinel(
            machine.pulse,
            context.clock,
            context.device.peak_gflops.get(tier),
            may_hide=context.device.target.startswith("embedded"),
        )

    def run(self) -> Generator[Event, None, str]:
        """Every turn of every workload; returns why there is no further one."""
        while True:
            yield from self._joined()
            tunable = self._session.tunable
            state = self._next(tunable)
            if reason := self._clock.stop():
                return reason
            if state is None and not self._checks.waiting:
                if self._hopeful(tunable):
                    return "time"  # for a round of another one
                return "converged" if any(s.pending for s in tunable) else "exhausted"
            if state is None or not self._is_ready(state):
                wanted = self._wanted() or state
                workload = self._checks.waiting[0] if wanted is None else wanted.workload
                made = self._references.ahead(workload)
                if workload.key not in self._awaited:  # the next one, where it comes at once
                    self._awaited.add(workload.key)
                    self._clock.wait(made, SLICE_S)
                state = self._next([s for s in tunable if self._is_ready(s)])
                if state is None:
                    if made.done() and self._clock.stop(self._checks.check_s):
                        return self._clock.stop() or "time"
                    self._clock.wait(made, SLICE_S)
                    yield from self._rest()
                    continue
            if reason := (yield from self._turn(state)):
                return reason
            state.swept = True
            self._queue.forget()

    def _joined(self) -> Iterator[Event]:
        """Workloads whose default kernel has its reference by now are tuned too."""
        waiting = len(self._checks.waiting)
        yield from self._checks.late()
        if len(self._checks.waiting) < waiting:
            self._loaded = None
            yield from self._spaces.open()
            for state in self._session.tunable:
                self._search.refresh(state)

    def _next(self, states: Sequence[WorkloadState]) -> WorkloadState | None:
        """Whose turn it is, of those whose rounds still end in time."""
        return self._hopeful([s for s in states if not self._clock.stop(s.round_s)])

    def _hopeful(self, states: Sequence[WorkloadState]) -> WorkloadState | None:
        timed = self._clock.budget_s is not None
        return next_turn(states, timed, self._session.options.exhaustive)

    def _is_ready(self, state: WorkloadState) -> bool:
        return self._references.has(state.workload)

    def _wanted(self) -> WorkloadState | None:
        """Whose reference is made next: not that of the most work, which takes the longest."""
        unseen = (s for s in self._session.tunable if not (s.swept or s.converged))
        missing = (s for s in unseen if not self._is_ready(s))
        return min(missing, key=lambda s: by_cost(s.workload), default=None)

    def _turn(self, state: WorkloadState) -> Generator[Event, None, str]:
        """Rounds of one workload; why the session ends in the middle of them, or nothing."""
        hopeful, first, rounds = not state.converged, not state.swept, 0
        self._load(state)
        while state.pending and rounds < (1 if first else ROUNDS_A_TURN):
            yield from self._rest()
            if self._clock.stop(state.round_s):
                return self._clock.stop()  # others may have shorter rounds
            yield from self._requested()
            if not state.pending or state.settled:
                break
            self._load(state)
            began_s, entry = self._clock.t_s(), self._search.take(state)
            yield self._session.trying(state, str(entry.candidate), "compile")
            made = self._queue.soon(state.workload, entry.candidate, (self._session.tier,))
            self._clock.wait(made, math.inf)
            # Asked again after the wait: an ended compile process is no verdict.
            if reason := self._clock.stop():
                state.pending.append(entry)
                return reason
            compiled = made.result()
            self._prepare(state)
            yield self._session.compiled(compiled)
            verdict = yield from self._round(state, compiled)
            yield from self._repeat_doubtful()
            rounds += verdict != "duplicate"
            state.round_s = self._clock.t_s() - began_s
            if first and self._session.options.served is None:
                continue  # while kernels are slow an inference costs several rounds
            yield from self._timing.between()
            if hopeful and state.converged:
                break
        return ""

    def _load(self, state: WorkloadState) -> None:
        """Have the workload's fixture in the page."""
        if state is not self._loaded:
            self._runner.set_fixture(self._references.get(state.workload))
            self._loaded = state

    def _rest(self) -> Iterator[Event]:
        """Pause where that was asked for; the page may have been used for anything meanwhile."""
        if (yield from self._requests.rest()):
            yield from self._incumbents.restore()
            self._loaded = None

    def _requested(self) -> Iterator[Event]:
        """What the user asked for goes first, also what was measured before."""
        later: list[tuple[str, AnyCandidate, float | None]] = []
        for workload, candidate, enough in self._requests.candidates():
            state = next((s for s in self._session.states if s.workload.key == workload), None)
            if state is None or not state.workload.tunable:
                continue
            if not state.checked or not self._at_hand(state):
                later.append((workload, candidate, enough))
                continue
            if enough is not None and candidate == state.incumbent.candidate:
                self._settle(state, enough)  # the database of this device has proven it before
                continue
            self._load(state)
            yield self._session.trying(state, settings_of(candidate), "compile")
            made = self._queue.soon(state.workload, candidate, (self._session.tier,))
            if not self._clock.wait(made, math.inf) or self._clock.cancelled():
                return  # an ended compile process is no verdict
            compiled = made.result()
            self._measure_again(state, compiled)
            state.pending = [e for e in state.pending if e.candidate != candidate]
            yield self._session.compiled(compiled)
            yield from self._round(state, compiled)
            if enough is not None:
                self._settle(state, enough)
        for request in later:
            self._requests.add(*request)

    def _at_hand(self, state: WorkloadState) -> bool:
        """Whether its reference is there; without a budget it is waited for."""
        timed = self._clock.budget_s is not None
        return self._clock.wait(self._references.ahead(state.workload), 0.0 if timed else math.inf)

    def _settle(self, state: WorkloadState, enough: float) -> None:
        """End the search of a workload whose incumbent gains enough."""
        if state.gained >= enough and not self._session.options.exhaustive:
            state.settled = True

    def _repeat_doubtful(self) -> Iterator[Event]:
        """Measure again, once, what was measured while the machine changed."""
        change = self._sentinel.check()
        yield from self._seen()
        if change is None:
            return
        names = tuple((s.workload.key, settings_of(c.candidate)) for s, c in change.doubtful)
        yield Drift(self._clock.t_s(), change.what, change.rate, names)
        for state, compiled in change.doubtful:
            self._load(state)
            self._measure_again(state, compiled)
            yield from self._round(state, compiled, again=True)

    def _seen(self) -> Iterator[Event]:
        """The machine's level, when it has changed so that one would see it."""
        rate = self._machine.level
        if rate is None or abs(rate - self._seen_rate) < SEEN_CHANGE:
            return
        self._seen_rate = rate
        yield MachineSeen(self._clock.t_s(), rate, busy_text(rate))

    def _measure_again(self, state: WorkloadState, compiled: CompileResult) -> None:
        if not compiled.error:
            state.measured.pop(compiled.kernel(self._session.tier).sha256, None)

    def _prepare(self, state: WorkloadState) -> None:
        """Let the compile process work while the page measures, and the GPU's compiler too."""
        if self._session.context.device.gpu and (made := self._queue.made_ahead()):
            self._runner.prepare(made)
        for entry in self._search.ranked(state)[:AHEAD]:
            self._queue.ahead(state.workload, entry.candidate, (self._session.tier,))
        if following := self._wanted():
            self._references.ahead(following.workload)

    def _round(
        self, state: WorkloadState, compiled: CompileResult, again: bool = False
    ) -> Generator[Event, None, str]:
        """Measure a compiled candidate and draw the consequences; the state of its verdict."""
        measured = yield from self._evaluator.challenge(compiled, state, self._policy(state))
        met = state.log_rates.get(state.incumbent.settings)
        if not state.rounds:  # before its first dot, so that none needs another place
            yield from self._renewed(state, measured)
        self._search.note(state, compiled, measured)
        self._rate = state.scale * comparable_gflops(state, measured, met)
        state.best_gflops = max(state.best_gflops, self._rate)
        if measured.state in LOST and not again:
            self._sentinel.note((state, compiled))
        state.rounds += 1
        yield measured
        if measured.state == WON:
            kernel = compiled.kernel(self._session.tier)
            speedup = (measured.speedup, measured.speedup_low, measured.speedup_high)
            yield self._incumbents.swap(state, kernel, measured.ms, speedup)
        for other in self._session.tunable:
            self._search.refresh(other)
        self._round_clock.note(self._clock.t_s())
        yield self._round_done(state, measured)
        return measured.state

    def _renewed(self, state: WorkloadState, measured: Measured) -> Iterator[Measured]:
        """Another figure of the default kernel, where the one at hand is far off."""
        samples = measured.incumbent_ms
        if measured.state not in COMPARED or not is_far_off(state, samples):
            return
        self._machine.pulse()
        if is_rough(self._machine.level):
            return
        renew_default(state, samples)
        if state.incumbent is state.default:
            yield self._evaluator.record_default(state, measured)

    def _policy(self, state: WorkloadState) -> MeasurePolicy:
        """How long a duel of this workload may take."""
        policy, seconds = self._session.options.policy, self._clock.budget_s
        if seconds is None:
            return policy
        limit_ms = max(DUEL_SHARE * seconds * 1000, DUEL_RUNS * state.best_ms)
        left_ms = max(1.0, 1000 * (self._clock.rounds_s() or 0.0))
        return replace(policy, max_ms=min(policy.max_ms, limit_ms, left_ms))

    def _round_done(self, state: WorkloadState, measured: Measured) -> RoundDone:
        tunable, exhaustive = self._session.tunable, self._session.options.exhaustive
        return RoundDone(
            t_s=self._clock.t_s(),
            workload=state.workload.key,
            round=state.rounds,
            candidate=measured.candidate,
            gflops=self._rate,
            best_gflops=state.best_gflops,
            best_candidate=settings_of(state.incumbent.candidate),
            remaining=len(state.pending),
            model_ms=model_ms(self._timing.before_ms, self._session.states),
            left_s=seconds_left(tunable, self._clock, self._round_clock, exhaustive),
        )


def comparable_gflops(state: WorkloadState, measured: Measured, met: float | None) -> float:
    """The rate of a candidate with the machine's drift taken out; 0 where it was not measured.

    Parameters
    ----------
    met
        Natural logarithm of the comparable rate of the incumbent of its duel.
    """
    log_rate = state.log_rates.get(measured.candidate)
    if measured.gflops <= 0 or met is None or log_rate is None or measured.state not in COMPARED:
        return 0.0
    proven = measured.state in (WON, FASTER)
    return math.exp(log_rate if proven else min(log_rate, met))
