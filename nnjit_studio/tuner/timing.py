"""The model's time: before and after the rounds, and now and then between them.

A model that serves meanwhile is timed without getting in its way: what its inferences take
is asked, not made. The page keeps the budget of such a session
(``resources/studio/governor.js``): it lets measurements pass between inferences.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.records import Kernel
from nnjit_studio.records.estimate import LEAST_PAIRS
from nnjit_studio.records.gain import NOT_COMPARED, UNCHANGED, ModelGain
from nnjit_studio.records.serving import ServingStats
from nnjit_studio.tuner.context import SessionState, TunedModel
from nnjit_studio.tuner.events import Event, ModelCompared, ModelTimed, Served, Trying
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.search.task_scheduler import WorkloadState, shares_of
from nnjit_studio.tuner.session_clock import OVER_SHARE, RESERVED_SHARE
from nnjit_studio.tuner.whole.machine import Machine
from nnjit_studio.tuner.whole.pairs import SAMPLE_MS, ModelPairs, middle_ms

WARMUP_RUNS = 3
TIMED_RUNS = 10
PROFILED_RUNS = 3
UNSEEN_RUNS = 1000
"""Of a model that takes no time by the page's clock: some of so many meet a tick of it."""
LEAST_RUNS = 1
TIMING_RUNS = WARMUP_RUNS + TIMED_RUNS + PROFILED_RUNS
PAIR_RUNS = 4
"""Of one pair: each kernel's sample, after a warm run."""
LAST_PAIRS = 24
"""At the end of a session a gain that is told by so many is not looked at any longer."""
MOST_PAIRS = 48
PAIRS_SHARE = 0.1
"""Of a session's time, for pairs between rounds: windows show the gain while it grows."""
PAIRS_INTERVAL_S = 0.5
TIMING_LIMIT_S = 5.0
"""Of the timed runs of the model, before and after."""
PATIENT_LIMIT_S = 20.0
"""Of the last pairs where the session has no time limit, or was stopped.

Else they have what its budget reserves beside the timed runs.
"""

RunsAndSteps = tuple[tuple[float, ...], tuple[float, ...]]
"""Milliseconds of some runs, and the median ms of each step."""


class ModelTiming:
    """Times the model of a session.

    Attributes
    ----------
    before_ms, after_ms
        Median of a run with the default kernels, and with those of the end; 0 before it was timed.
    gain
        What pairs of both say at the end.
    """

    def __init__(self, session: SessionState, model: TunedModel, machine: Machine) -> None:
        self._session, self._plan, self._feeds = session, model.plan, model.feeds
        self._runner, self._served = session.context.runner, session.options.served
        self.before_ms = self.after_ms = 0.0
        self._limit_s, self._pairs_limit_s = TIMING_LIMIT_S, PATIENT_LIMIT_S
        self._pairs = ModelPairs(self._runner, self._feeds, machine)
        self._paired_s = self._pair_s = 0.0
        self.gain = ModelGain(UNCHANGED)

    def least_s(self) -> float:
        """About what :meth:`before` takes at least: a run.

        As fast as the fastest kernel that was checked, or as slow as all of those together.
        """
        states = self._session.states
        checked = [s for s in states if s.default_ms > 0]
        known_ms = sum(s.workload.uses * s.default_ms for s in checked)
        rate = max((s.workload.flops / s.default_ms for s in checked), default=0.0)
        flops = sum(s.workload.uses * s.workload.flops for s in states)
        return LEAST_RUNS * max(known_ms, flops / rate if rate else 0.0) / 1000

    def before(self) -> Iterator[Event]:
        """Time the model with its default kernels, and keep time for that at the end.

        The share of each workload in its time is set.
        """
        clock = self._session.clock
        if clock.budget_s is not None:
            self._limit_s = min(TIMING_LIMIT_S, clock.budget_s * RESERVED_SHARE / 2)
            self._pairs_limit_s = clock.budget_s * RESERVED_SHARE - self._limit_s
        runs_ms, steps_ms = yield from self._timed()
        self.before_ms = self.after_ms = middle_ms(runs_ms)
        shares = shares_of(self._plan, steps_ms)
        for state in self._session.states:
            state.share = shares.get(state.workload.key, 0.0)
        runs_s = timing_runs(self.before_ms, self._limit_s) * self.before_ms / 1000
        pairs_s = LAST_PAIRS * PAIR_RUNS * max(self.before_ms, SAMPLE_MS) / 1000
        in_turns = self._served is None
        self._paired_s, self._pair_s = clock.t_s(), pairs_s / LAST_PAIRS
        clock.timing_s = runs_s + in_turns * min(pairs_s, self._pairs_limit_s)

    def after(self) -> Iterator[Event]:
        """Time the model with its kernels of now, then in turns with the first ones.

        Where that could not end soon, the last runs between the rounds are what is known.
        """
        clock = self._session.clock
        if not (self._swapped or any(state.rounds for state in self._session.states)):
            return  # nothing has happened since it was timed
        left_s = clock.left_s()
        if left_s is not None and clock.budget_s is not None:
            if LEAST_RUNS * self.after_ms / 1000 > left_s + OVER_SHARE * clock.budget_s:
                self.cut()
                return
            self._limit_s = min(self._limit_s, left_s)
        runs_ms, _ = yield from self._timed()
        self.after_ms = middle_ms(runs_ms)
        if not self._swapped:
            self.before_ms = self.after_ms
        elif self._served is not None:
            self.gain = ModelGain(NOT_COMPARED)
        else:
            yield from self._last_pairs()

    def cut(self) -> None:
        """The time is over: the gain is what is known of it."""
        if self._swapped and self._served is None:
            self.gain = self._pairs.gain()

    def between(self) -> Iterator[Event]:
        """One inference between rounds, or pairs of them, when they are due.

        Of a serving model what it served.
        """
        clock = self._session.clock
        if self._served is not None:
            stats = clock.when_due(self._served)
            if stats is not None:
                yield served_event(clock.t_s(), stats)
            return
        if self._swapped and (yield from self._group()):
            return
        runs_ms = clock.when_due(lambda: self._runner.infer(self._feeds).runs_ms)
        if runs_ms:
            yield model_event(clock.t_s(), runs_ms)

    def _timed(self) -> Generator[Event, None, RunsAndSteps]:
        clock = self._session.clock
        yield Trying(clock.t_s(), "", "", "timing")
        if self._served is not None:
            yield served_event(clock.t_s(), self._served())
            stats, runs_ms, steps_ms = time_serving(self._runner, self._feeds, self._served)
            yield served_event(clock.t_s(), stats)
        else:
            runs_ms, steps_ms = time_model(self._runner, self._feeds, self._limit_s)
        yield model_event(clock.t_s(), runs_ms, steps_ms)
        return runs_ms, steps_ms

    @property
    def _swapped(self) -> list[WorkloadState]:
        return [s for s in self._session.states if s.incumbent is not s.default]

    def _group(self) -> Generator[Event, None, bool]:
        """As many pairs as tell an interval, once that is a small share of the time since the last.

        That is one more pair as long as the kernels stay the same. False where none was taken.
        """
        clock, began_s = self._session.clock, self._session.clock.t_s()
        pairs = max(1, LEAST_PAIRS - self._pairs.count(*self._first_and_tuned()))
        due_s = max(PAIRS_INTERVAL_S, pairs * self._pair_s / PAIRS_SHARE)
        if began_s - self._paired_s < due_s:
            return False
        taken = 0
        while taken < pairs and not clock.stop():
            yield self._pair()
            taken += 1
        self._paired_s = clock.t_s()
        self._pair_s = (self._paired_s - began_s) / max(1, taken)
        return True

    def _pair(self) -> ModelCompared:
        """One more pair."""
        self._pairs.take(*self._first_and_tuned(), self.after_ms)
        pairs, t_s = self._pairs, self._session.clock.t_s()
        return ModelCompared(t_s, tuple(pairs.first_ms), tuple(pairs.tuned_ms), pairs.gain())

    def _first_and_tuned(self) -> tuple[list[Kernel], list[Kernel]]:
        """Of the workloads whose kernel has changed."""
        swapped = self._swapped
        return [s.default for s in swapped], [s.incumbent for s in swapped]

    def _last_pairs(self) -> Iterator[Event]:
        """Pairs until the gain is told, or the time for them is over.

        The model was timed before the first round: minutes ago, on a machine that may have
        been another one for all that it tells.
        """
        clock = self._session.clock
        left_s = clock.left_s()
        limit_s = self._pairs_limit_s if left_s is None else min(self._pairs_limit_s, left_s)
        rounds = any(state.rounds for state in self._session.states)
        enough = LAST_PAIRS if rounds else LEAST_PAIRS  # what is known already is told soon
        started_s, longest_s = clock.t_s(), 2 * (self.before_ms + self.after_ms) / 1000
        self.gain = self._pairs.gain()
        for _ in range(MOST_PAIRS):
            began_s = clock.t_s()
            told = self.gain.told_apart and self.gain.pairs >= enough
            if clock.cancelled():
                limit_s = min(limit_s, PATIENT_LIMIT_S)
            if began_s + longest_s > started_s + limit_s or told:
                break
            compared = self._pair()
            self.gain = compared.gain
            yield compared
            longest_s = max(longest_s, clock.t_s() - began_s)
        if self._pairs.first_ms:
            self.before_ms = statistics.median(self._pairs.first_ms)
            self.after_ms = statistics.median(self._pairs.tuned_ms)
            yield model_event(clock.t_s(), self._pairs.tuned_ms)


def timing_runs(run_ms: float, limit_s: float) -> int:
    """How many runs of a model :func:`time_model` makes, all together."""
    fitting = int(limit_s * 1000 / run_ms) if run_ms > 0 else TIMING_RUNS
    return TIMING_RUNS if fitting >= TIMING_RUNS else max(LEAST_RUNS, fitting)


def time_model(runner: Runner, feeds: Mapping[str, NDArray[Any]], limit_s: float) -> RunsAndSteps:
    """Run and profile the model.

    Warm runs come first, then :data:`TIMED_RUNS`, then the profile's own. A
    model too slow for that in ``limit_s`` is warmed up once, and the runs of
    its profile are the timed ones: what a step's clock costs is nothing there.
    Where a second run would last beyond ``limit_s``, the first is all there is.
    """
    first = runner.infer(feeds, 1, profile=True)
    runs = timing_runs(first.runs_ms[0], limit_s)
    if runs == LEAST_RUNS:
        return first.runs_ms, first.steps_ms
    if runs < TIMING_RUNS:
        slow = runner.infer(feeds, runs - 1, profile=True)
        return slow.runs_ms, slow.steps_ms
    runner.infer(feeds, WARMUP_RUNS - 1)
    timed = runner.infer(feeds, TIMED_RUNS)
    if not statistics.median(timed.runs_ms):
        timed = runner.infer(feeds, UNSEEN_RUNS)
    profiled = runner.infer(feeds, PROFILED_RUNS, profile=True)
    return timed.runs_ms, profiled.steps_ms


def time_serving(
    runner: Runner, feeds: Mapping[str, NDArray[Any]], served: Callable[[], ServingStats]
) -> tuple[ServingStats, tuple[float, ...], tuple[float, ...]]:
    """As :func:`time_model`, with a single inference of its own, which waits for its turn.

    Returns
    -------
    tuple
        What was served meanwhile, ms of these inferences, and ms of each step.
    """
    own = runner.infer(feeds, profile=True)
    stats = served()
    return stats, stats.latencies_ms or own.runs_ms, own.steps_ms


def model_event(t_s: float, runs_ms: Sequence[float], steps_ms: Sequence[float] = ()) -> ModelTimed:
    return ModelTimed(t_s, middle_ms(runs_ms), tuple(runs_ms), tuple(steps_ms))


def served_event(t_s: float, stats: ServingStats) -> Served:
    return Served(
        t_s,
        len(stats.latencies_ms),
        stats.percentile(50),
        stats.percentile(95),
        stats.reference_p95_ms,
        stats.duty,
        stats.latencies_ms,
        stats.generations,
    )
