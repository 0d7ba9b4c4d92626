"""A tuning session: a generator of events from the first kernels to the summary."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.model import Plan, Workload
from nnjit_studio.records import (
    CompileResult,
    DeviceProfile,
    Kernel,
    KernelKey,
    MeasurePolicy,
    TuningRecord,
)
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.tuner.baseline import (
    BESIDE_RUNS,
    TURNS,
    check_policy,
    judge_default,
    model_event,
    state_of,
    stored_default,
    time_model,
    time_turn,
    timing_runs,
    wrong_default,
)
from nnjit_studio.tuner.evaluator import (
    Outcome,
    evaluate,
    known_results,
    measured_event,
    record_of,
    stored_winner,
)
from nnjit_studio.tuner.events import (
    Compiled,
    Drift,
    Event,
    Failed,
    Finished,
    Paused,
    Resumed,
    RoundDone,
    SessionStarted,
    SpaceBuilt,
    Swapped,
    Trying,
)
from nnjit_studio.tuner.other_tiers import other_tiers, tiers_of, with_twins
from nnjit_studio.tuner.protocols import Clock, Compiler, Records, Runner
from nnjit_studio.tuner.queue import KernelQueue
from nnjit_studio.tuner.search_strategy import SearchOrder
from nnjit_studio.tuner.sentinel import Sentinel
from nnjit_studio.tuner.serving import Ask, served_event, time_serving
from nnjit_studio.tuner.session_clock import RESERVED_SHARE, Pace
from nnjit_studio.tuner.settled import settled
from nnjit_studio.tuner.summary import (
    compile_summary,
    seconds_to_within,
    target_json,
    workload_summaries,
)
from nnjit_studio.tuner.swap_policy import SwapPolicy, decide, gflops_of
from nnjit_studio.tuner.task_scheduler import (
    ROUNDS_A_TURN,
    WorkloadState,
    model_ms,
    next_turn,
    shares_of,
)
from nnjit_studio.tuner.time_left import RoundClock, rounds_left

TIMING_LIMIT_S = 5.0
"""Of the timed runs of the model, before and after."""
DUEL_SHARE = 0.05
"""Of the budget: the most that one challenger may take, who may be as fast as the incumbent."""
DUEL_RUNS = 12
"""But so many runs of the incumbent: fewer warm nothing up and prove nothing."""
PULSES = 3
"""Of the peak kernel, when a rate seems to pass the peak."""
AHEAD = 2
"""Candidates that are compiled while the page measures: the next ones as it looks then."""


@dataclass(frozen=True)
class TuneOptions:
    """What the user may choose.

    Attributes
    ----------
    seconds
        Budget from the lite spaces to the summary; the check of the default
        kernels comes before. With a budget every tunable workload gets
        ``MIN_ROUNDS`` candidates where time allows. None: until nothing is
        left to gain.
    exhaustive
        Go on until every space is exhausted, though nothing is expected of it.
    full_speed
        Run the model less often in between.
    tier
        Instruction tier to tune; None takes the device's best.
    packable
        Keys of the workloads whose B is a weight that may be packed.
    served
        Given when the model serves meanwhile: its inferences since the last call.
        Then the session runs it only to profile it.
    """

    seconds: float | None = 30.0
    policy: MeasurePolicy = field(default_factory=MeasurePolicy)
    thresholds: SwapPolicy = field(default_factory=SwapPolicy)
    exhaustive: bool = False
    full_speed: bool = False
    tier: str | None = None
    packable: frozenset[str] = frozenset()
    served: Ask | None = None


def _tunable_on(device: DeviceProfile, workload: Workload) -> Workload:
    """The workload; not tunable where it has templates for Wasm and none for this GPU."""
    if device.gpu is None or not workload.tunable:
        return workload
    try:
        build_lite_space(workload, device, packable=False)
    except UserError:
        return replace(workload, tunable=False)
    return workload


class TuningSession:
    """Tunes a model that the runner has loaded; :meth:`run` may be consumed once.

    Parameters
    ----------
    workloads
        Every workload of the plan, tunable or not.
    feeds
        Inputs for the inferences between rounds, by name.
    cancelled
        Asked before every round; True ends the session with its summary.

    Raises
    ------
    UserError
        When the device lacks the tier asked for.
    """

    def __init__(
        self,
        model_name: str,
        plan: Plan,
        workloads: Sequence[Workload],
        runner: Runner,
        compiler: Compiler,
        records: Records,
        device: DeviceProfile,
        clock: Clock,
        feeds: Mapping[str, NDArray[Any]],
        options: TuneOptions,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._tier = options.tier or device.best_tier
        if self._tier not in device.tiers:
            raise UserError(
                f"The target has no {self._tier} kernels.",
                f"Choose one of its tiers: {', '.join(device.tiers)}.",
            )
        self._model = model_name
        self._plan = plan
        self._workloads = [
            _tunable_on(device, w) for w in sorted(workloads, key=lambda w: -w.uses * w.flops)
        ]
        self._runner, self._compiler, self._records = runner, compiler, records
        self._device, self._clock, self._feeds = device, clock, feeds
        self._options, self._cancelled = options, cancelled
        self._target = target_json(device, self._tier)
        self._states: list[WorkloadState] = []
        self._compile_ms: list[float] = []
        self._pipeline_ms: list[float] = []
        self._late_ms = self._measuring_ms = 0.0
        self._model_ms = {"before": 0.0, "after": 0.0}
        self._best_s = 0.0
        self._progress: list[tuple[float, float]] = []
        self._tuning_s = 0.0
        self._requests: deque[tuple[str, AnyCandidate]] = deque()
        self._order = SearchOrder(device, self._tier, options.thresholds.min_gain)
        self._pace = Pace(clock, cancelled, options.full_speed, options.seconds)
        self._round_clock = RoundClock()
        self._pausing = False
        self._sentinel: Sentinel[tuple[WorkloadState, CompileResult]] = Sentinel(
            lambda: runner.pulse(self._tier),
            clock,
            device.peak_gflops.get(self._tier),
            may_hide=device.target.startswith("embedded"),
        )

    def run(self) -> Iterator[Event]:
        """Yield every event; the last one is ``Finished`` or ``Failed``.

        Closing the generator early ends the compile-ahead thread. A model
        that was never timed, because of an early cancel, counts 0 ms. After
        ``Paused`` the session rests until it is asked for the next event.
        """
        options = self._options
        self._pace = Pace(self._clock, self._cancelled, options.full_speed, options.seconds)
        try:
            with KernelQueue(self._compiler) as queue:
                yield SessionStarted(
                    self._pace.t_s(),
                    self._model,
                    tuple(w.key for w in self._workloads),
                    self._target,
                )
                reason = yield from self._stages(queue)
                yield Finished(
                    t_s=self._pace.t_s(),
                    reason=reason,
                    model=self._model,
                    model_ms=self._model_ms,
                    compile_ms=compile_summary(self._compile_ms),
                    seconds_to_best=self._best_s,
                    seconds_to_within_3_percent=seconds_to_within(self._progress, 0.03),
                    workloads=workload_summaries(self._states),
                    target=self._target,
                    pipeline_ms=compile_summary(self._pipeline_ms) if self._pipeline_ms else {},
                    late_share=self._late_ms / self._measuring_ms if self._measuring_ms else 0.0,
                )
        except NnjitError as error:
            yield Failed(self._pace.t_s(), error.to_json())

    def _stages(self, queue: KernelQueue) -> Generator[Event, None, str]:
        yield from self._baseline(queue)
        if self._pace.cancelled():
            return "cancelled"
        self._runner.register([s.default for s in self._states])
        steps_ms = yield from self._time_model("before", TIMING_LIMIT_S)
        shares = shares_of(self._plan, steps_ms)
        for state in self._states:
            state.share = shares.get(state.workload.key, 0.0)
        self._model_ms["after"] = self._model_ms["before"]
        seconds, before_ms = self._pace.budget_s, self._model_ms["before"]
        limit_s = TIMING_LIMIT_S if seconds is None else seconds * RESERVED_SHARE
        limit_s = min(TIMING_LIMIT_S, limit_s)
        beside = self._options.served is None and BESIDE_RUNS * before_ms <= limit_s * 1000
        runs = BESIDE_RUNS if beside else timing_runs(before_ms, limit_s)
        timing_s = runs * before_ms / 1000
        self._tuning_s = self._pace.t_s()
        self._pace.start_budget(timing_s)
        yield from self._build_spaces(queue)
        self._note_progress()
        reason = yield from self._rounds(queue)
        yield from self._time_model("after", limit_s)
        if beside:
            yield from self._time_beside()
        return reason

    # The first kernels

    def _baseline(self, queue: KernelQueue) -> Iterator[Event]:
        """Compile and check the default kernel of every workload."""
        for workload in self._workloads:
            queue.put(workload, None, tiers_of(self._device))
        version = self._compiler.version
        keys = [KernelKey.of(w, self._device, self._tier, version) for w in self._workloads]
        past = [self._records.records(key) for key in keys]
        for i, (workload, key) in enumerate(zip(self._workloads, keys, strict=True)):
            yield from self._rest(queue)
            if self._pace.cancelled():
                return
            compiled = queue.get()
            yield self._compiled(compiled)
            state = state_of(compiled, workload, key)
            self._states.append(state)
            known = stored_default(state, past[i])
            if known is None:
                yield self._trying(state, DEFAULT_SETTINGS, "check")
                self._runner.set_fixture(queue.fixture(workload))
                if i + 1 < len(keys) and not past[i + 1]:  # made while the page measures
                    queue.fixture_ahead(self._workloads[i + 1])
            state.default_ms = known.median_ms if known else self._check(compiled, state)
            state.best_ms = state.default_ms
            state.best_gflops = gflops_of(workload.flops, state.default_ms)
            if state.best_gflops > 0:
                state.log_rates[DEFAULT_SETTINGS] = math.log(state.best_gflops)

    def _check(self, compiled: CompileResult, state: WorkloadState) -> float:
        options = self._options
        policy = check_policy(options.policy, state.workload)
        result = self._runner.measure(state.default, None, policy)
        outcome = judge_default(compiled, state, result, self._device, options.thresholds)
        outcome = self._at_true_peak(outcome, state)
        others = other_tiers(self._tier, self._device)
        outcome = with_twins(outcome, compiled, others, self._runner, options.thresholds)
        if outcome.verdict.state not in ("won", "impossible"):
            raise wrong_default(state, outcome.verdict)
        self._commit(outcome, state, "default")
        return outcome.ms

    def _at_true_peak(self, outcome: Outcome, state: WorkloadState) -> Outcome:
        """Judge an impossible rate once more: the peak may have been probed in a slow moment."""
        if outcome.verdict.state != "impossible" or outcome.result is None:
            return outcome
        known = self._device.peak_gflops
        rates = [self._runner.pulse(self._tier).gflops for _ in range(PULSES)]
        self._device = replace(
            self._device, peak_gflops={**known, self._tier: max(known[self._tier], *rates)}
        )
        peak = self._device.peak(self._tier, state.workload.kind)
        verdict = decide(outcome.result, outcome.flops, peak, self._options.thresholds)
        return replace(outcome, verdict=verdict)

    # The lite spaces and what is known of them

    def _build_spaces(self, queue: KernelQueue) -> Iterator[Event]:
        tunable = [s.workload for s in self._tunable()]
        self._order.remember(self._records.history(tunable), {s.key for s in self._states})
        for state in self._tunable():
            packable = state.workload.key in self._options.packable
            space = build_lite_space(state.workload, self._device, packable)
            past = self._records.records(state.key)
            winner = stored_winner(past)
            kernel = None if winner is None else self._rebuilt(winner, state, queue)
            if kernel is None:
                # A winner of other bytes makes doubtful what was compared with it.
                past = [r for r in past if r.state != "won"]
            past = settled(past, self._device.user_agent)
            settings = [str(e.candidate) for e in space.entries]
            known = {r.settings for r in past} & set(settings)
            state.candidates = len(space.entries)
            state.pending = [e for e in space.entries if str(e.candidate) not in known]
            state.measured |= {r.sha256: r.settings for r in past if r.sha256}
            state.log_rates |= {r.settings: math.log(r.gflops) for r in past if r.gflops > 0}
            yield SpaceBuilt(
                self._pace.t_s(),
                state.workload.key,
                tuple(settings),
                tuple(e.reason for e in space.entries),
                space.naive_size,
                len(known),
                known_results(past, known),
            )
            if winner is not None and kernel is not None:
                yield self._swap(state, kernel, winner.median_ms, stored=True)
            self._order.open(state, past)

    def _rebuilt(
        self, winner: TuningRecord, state: WorkloadState, queue: KernelQueue
    ) -> Kernel | None:
        """A stored winner, compiled anew: a database is no place to take code from.

        None when these are not the bytes that were measured.
        """
        try:
            candidate = parse_candidate(winner.settings)
        except UserError:
            return None
        compiled = queue.at_once(state.workload, candidate, (self._tier,))
        same = not compiled.error and compiled.kernel(self._tier).sha256 == winner.sha256
        return compiled.kernel(self._tier) if same else None

    # Rounds

    def _rounds(self, queue: KernelQueue) -> Generator[Event, None, str]:
        """A first round for each workload, then turns by payoff, until nothing is left to gain."""
        current = None
        while True:
            tunable = self._tunable()
            timed = self._pace.budget_s is not None
            state = next_turn(tunable, timed, self._options.exhaustive)
            if reason := self._pace.stop():
                return reason
            if state is None:
                return "converged" if any(s.pending for s in tunable) else "exhausted"
            if state is not current:
                self._runner.set_fixture(queue.fixture(state.workload))
            current, hopeful, first = state, not state.converged, not state.swept
            rounds = 0
            while state.pending and rounds < (1 if first else ROUNDS_A_TURN):
                yield from self._rest(queue, state)
                if reason := self._pace.stop():
                    return reason
                yield from self._take_requests(state, queue)
                if not state.pending:
                    break
                entry = self._order.take(state)
                yield self._trying(state, str(entry.candidate), "compile")
                compiled = queue.at_once(state.workload, entry.candidate, (self._tier,))
                # Asked again after the wait: an ended compile process is no verdict.
                if reason := self._pace.stop():
                    return reason
                self._prepare(state, queue)
                yield self._compiled(compiled)
                verdict = yield from self._round(state, compiled, queue)
                yield from self._repeat_doubtful(state, queue)
                rounds += verdict != "duplicate"
                if first and not self._options.served:
                    continue  # while kernels are slow an inference costs several rounds
                yield from self._live()
                if hopeful and state.converged:
                    break
            state.swept = True
            queue.forget()

    # What the user asks for meanwhile

    def pause(self, pausing: bool = True) -> None:
        """Have the session rest after its round, or no more. Thread-safe."""
        self._pausing = pausing

    def set_seconds_left(self, seconds: float | None) -> None:
        """Change the budget: so many seconds from now on, None is no limit. Thread-safe."""
        self._pace.set_left(seconds)

    @property
    def seconds_left(self) -> float | None:
        """Of the budget; None is no limit."""
        return self._pace.left_s()

    def _rest(self, queue: KernelQueue, current: WorkloadState | None = None) -> Iterator[Event]:
        """Pause where that was asked for; the page may have been used for anything meanwhile."""
        if not self._pausing:
            return
        self._pausing = False
        began_s = self._clock.monotonic_s()
        with self._pace.resting():
            yield Paused(self._pace.t_s())
        yield Resumed(self._pace.t_s(), self._clock.monotonic_s() - began_s)
        if current is None:
            return
        yield from self._take_up(queue)
        self._runner.register([s.incumbent for s in self._states])
        self._runner.set_fixture(queue.fixture(current.workload))

    def _take_up(self, queue: KernelQueue) -> Iterator[Event]:
        """Adopt what won while the session rested: candidates of the user's own."""
        for state in self._tunable():
            winner = stored_winner(self._records.records(state.key))
            if winner is None or winner.settings == state.incumbent.settings:
                continue
            kernel = self._rebuilt(winner, state, queue)
            if kernel is not None:
                state.pending = [e for e in state.pending if str(e.candidate) != winner.settings]
                yield self._swap(state, kernel, winner.median_ms, stored=True)

    def request(self, workload: str, candidate: AnyCandidate) -> None:
        """Have a candidate of the user's own measured next. Thread-safe."""
        self._requests.append((workload, candidate))

    def _take_requests(self, current: WorkloadState, queue: KernelQueue) -> Iterator[Event]:
        """What the user asked for goes first, also what was measured before."""
        loaded = current
        while self._requests:
            workload, candidate = self._requests.popleft()
            state = next((s for s in self._tunable() if s.workload.key == workload), None)
            if state is None:
                continue
            if state is not loaded:
                self._runner.set_fixture(queue.fixture(state.workload))
                loaded = state
            yield self._trying(state, settings_of(candidate), "compile")
            compiled = queue.at_once(state.workload, candidate, (self._tier,))
            if not compiled.error:
                state.measured.pop(compiled.kernel(self._tier).sha256, None)
            state.pending = [e for e in state.pending if e.candidate != candidate]
            yield self._compiled(compiled)
            yield from self._round(state, compiled, queue)
        if loaded is not current:
            self._runner.set_fixture(queue.fixture(current.workload))

    def _prepare(self, state: WorkloadState, queue: KernelQueue) -> None:
        """Let the compile process work while the page measures, and the GPU's compiler too."""
        if self._device.gpu and (made := queue.made_ahead()):
            self._runner.prepare(made)
        for entry in self._order.ranked(state)[:AHEAD]:
            queue.ahead(state.workload, entry.candidate, (self._tier,))
        waiting = [s for s in self._tunable() if not (s.swept or s is state or s.converged)]
        if not state.swept and waiting:
            queue.fixture_ahead(max(waiting, key=lambda s: s.share).workload)

    def _repeat_doubtful(self, current: WorkloadState, queue: KernelQueue) -> Iterator[Event]:
        """Measure again, once, what was measured while the machine changed."""
        change = self._sentinel.check()
        if change is None:
            return
        names = tuple((s.workload.key, settings_of(c.candidate)) for s, c in change.doubtful)
        yield Drift(self._pace.t_s(), change.what, change.rate, names)
        fixture = current
        for state, compiled in change.doubtful:
            if state is not fixture:
                self._runner.set_fixture(queue.fixture(state.workload))
                fixture = state
            state.measured.pop(compiled.kernel(self._tier).sha256, None)
            yield from self._round(state, compiled, queue, again=True)
        if fixture is not current:
            self._runner.set_fixture(queue.fixture(current.workload))

    def _round(
        self,
        state: WorkloadState,
        compiled: CompileResult,
        queue: KernelQueue,
        again: bool = False,
    ) -> Generator[Event, None, str]:
        thresholds = self._options.thresholds
        policy, seconds = self._options.policy, self._pace.budget_s
        if seconds is not None:
            least_ms = DUEL_RUNS * state.best_ms
            limit_ms = max(DUEL_SHARE * seconds * 1000, least_ms)
            policy = replace(policy, max_ms=min(policy.max_ms, limit_ms))
        settings = settings_of(compiled.candidate)
        looks = evaluate(compiled, state, self._runner, self._device, policy, thresholds)
        outcome = yield from self._looking(looks, state, settings)
        outcome = self._at_true_peak(outcome, state)
        others = other_tiers(self._tier, self._device)
        if outcome.verdict.state == "won" and others:
            twins = queue.at_once(state.workload, compiled.candidate, others)
            outcome = with_twins(outcome, twins, others, self._runner, thresholds)
        self._order.note(state, outcome)
        self._commit(outcome, state)
        if outcome.result is not None and outcome.result.gpu_clock:
            self._pipeline_ms.append(outcome.result.pipeline_ms)
            self._late_ms += outcome.result.late_ms
            self._measuring_ms += outcome.result.total_ms
        if outcome.verdict.state == "slower" and not again:
            self._sentinel.note((state, compiled))
        state.rounds += 1
        yield measured_event(outcome, state.workload.key, self._pace.t_s())
        if outcome.verdict.state == "won" and outcome.kernel is not None:
            yield self._swap(state, outcome.kernel, outcome.ms)
        for other in self._tunable():
            self._order.refresh(other)
        self._round_clock.note(self._pace.t_s())
        yield RoundDone(
            self._pace.t_s(),
            state.workload.key,
            state.rounds,
            settings,
            outcome.gflops,
            state.best_gflops,
            settings_of(state.incumbent.candidate),
            len(state.pending),
            self._note_progress(),
            self._left_s(),
        )
        return outcome.verdict.state

    def _looking(
        self, looks: Generator[int, None, Outcome], state: WorkloadState, settings: str
    ) -> Generator[Event, None, Outcome]:
        """The looks of an evaluation as events."""
        phase = "check"
        while True:
            try:
                pairs = next(looks)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            yield self._trying(state, settings, phase, pairs)
            phase = "duel"

    def _left_s(self) -> float | None:
        """Seconds to the summary: by the rounds that are expected, at most by the budget."""
        limit_s = self._pace.left_s()
        rounds = rounds_left(self._tunable(), limit_s is not None, self._options.exhaustive)
        rounds_s = self._round_clock.seconds(rounds)
        if rounds_s is None:
            return None
        left_s = rounds_s + self._pace.timing_s
        return left_s if limit_s is None else min(left_s, limit_s)

    def _trying(self, state: WorkloadState, settings: str, phase: str, pairs: int = 0) -> Trying:
        return Trying(self._pace.t_s(), state.workload.key, settings, phase, pairs)

    def _note_progress(self) -> float:
        estimate = model_ms(self._model_ms["before"], self._states)
        self._progress.append((self._pace.t_s() - self._tuning_s, estimate))
        return estimate

    def _swap(
        self, state: WorkloadState, kernel: Kernel, ms: float, stored: bool = False
    ) -> Swapped:
        self._runner.register([kernel])
        before = gflops_of(state.workload.flops, state.best_ms)
        state.incumbent, state.best_ms = kernel, ms
        self._best_s = self._pace.t_s()
        gflops = gflops_of(state.workload.flops, ms)
        state.best_gflops = max(state.best_gflops, gflops)
        return Swapped(
            self._best_s, state.workload.key, kernel.settings, before, gflops, from_database=stored
        )

    def _commit(self, outcome: Outcome, state: WorkloadState, as_state: str = "") -> None:
        now = self._clock.now_iso()
        self._records.commit_record(record_of(outcome, state.key, self._device, now, as_state))
        if outcome.kernel is not None:
            state.measured.setdefault(outcome.kernel.sha256, outcome.kernel.settings)

    # The running model

    def _time_model(self, when: str, limit_s: float) -> Generator[Event, None, tuple[float, ...]]:
        yield Trying(self._pace.t_s(), "", "", "timing")
        if served := self._options.served:
            yield served_event(self._pace.t_s(), served())
            stats, runs_ms, steps_ms = time_serving(self._runner, self._feeds, served)
            yield served_event(self._pace.t_s(), stats)
        else:
            runs_ms, steps_ms = time_model(self._runner, self._feeds, limit_s)
        self._model_ms[when] = statistics.median(runs_ms)
        yield model_event(self._pace.t_s(), runs_ms, steps_ms)
        return steps_ms

    def _time_beside(self) -> Iterator[Event]:
        """Time the first kernels and the tuned ones in turns.

        The model was timed before the first round: minutes ago, on a machine that may have
        been another one for all that it tells.
        """
        swapped = [s for s in self._states if s.incumbent is not s.default]
        if not swapped:
            self._model_ms["before"] = self._model_ms["after"]
            return
        before_ms: list[float] = []
        after_ms: list[float] = []
        for _ in range(TURNS):
            self._runner.register([s.default for s in swapped])
            before_ms += time_turn(self._runner, self._feeds)
            self._runner.register([s.incumbent for s in swapped])
            after_ms += time_turn(self._runner, self._feeds)
        self._model_ms["before"] = statistics.median(before_ms)
        self._model_ms["after"] = statistics.median(after_ms)
        yield model_event(self._pace.t_s(), after_ms)

    def _live(self) -> Iterator[Event]:
        """One inference between rounds, when one is due; of a serving model what it served."""
        if served := self._options.served:
            stats = self._pace.due(served)
            if stats is not None:
                yield served_event(self._pace.t_s(), stats)
            return
        runs_ms = self._pace.live(lambda: self._runner.infer(self._feeds).runs_ms)
        if runs_ms:
            yield model_event(self._pace.t_s(), runs_ms)

    def _tunable(self) -> list[WorkloadState]:
        return [s for s in self._states if s.workload.tunable]

    def _compiled(self, result: CompileResult) -> Compiled:
        if not result.error:
            self._compile_ms.append(result.ms)
        nbytes = sum(len(k.data) for k in result.kernels if k.tier == self._tier)
        return Compiled(
            self._pace.t_s(),
            result.workload,
            settings_of(result.candidate),
            result.ms,
            nbytes,
            result.pass_ms,
            result.error,
        )
