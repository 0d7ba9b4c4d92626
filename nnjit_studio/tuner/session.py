"""A tuning session: a generator of events from the first kernels to the summary."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from nnjit_studio.errors import CompileError, NnjitError, UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.tuner.baseline import Spaces
from nnjit_studio.tuner.checks.defaults import Checks
from nnjit_studio.tuner.context import SessionState, TunedModel, TuneOptions, TuningContext
from nnjit_studio.tuner.evaluator import Evaluator
from nnjit_studio.tuner.events import Event, Failed, Finished, SessionStarted
from nnjit_studio.tuner.in_place import Trials
from nnjit_studio.tuner.incumbents import Incumbents
from nnjit_studio.tuner.queue import KernelQueue
from nnjit_studio.tuner.requests import Requests
from nnjit_studio.tuner.rounds import Rounds
from nnjit_studio.tuner.search.search_strategy import SearchStrategy
from nnjit_studio.tuner.search.task_scheduler import model_ms
from nnjit_studio.tuner.session_clock import Overdue, SessionClock, TimelyRunner
from nnjit_studio.tuner.summary import (
    Statistics,
    compile_summary,
    share_of_peak,
    target_json,
    workload_summaries,
)
from nnjit_studio.tuner.timing import ModelTiming
from nnjit_studio.tuner.whole.machine import Machine, busy_text

T = TypeVar("T")


class TuningSession:
    """Tunes a model that the runner has loaded; :meth:`run` may be consumed once.

    Parameters
    ----------
    cancelled
        Asked before every round; True ends the session with its summary.

    Raises
    ------
    UserError
        When the device lacks the tier asked for.
    """

    def __init__(
        self,
        model: TunedModel,
        context: TuningContext,
        options: TuneOptions | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._model = model
        self._options = options = options or TuneOptions()
        device = context.device
        self._tier = options.tier or device.best_tier
        if self._tier not in device.tiers:
            raise UserError(
                f"The target has no {self._tier} kernels.",
                f"Choose one of its tiers: {', '.join(device.tiers)}.",
            )
        by_work = sorted(model.workloads, key=lambda w: -w.uses * w.flops)
        self._workloads = [_tunable_on(device, w) for w in by_work]
        self._clock = SessionClock(context.clock, cancelled, options.full_speed, options.seconds)
        self._requests = Requests(self._clock)
        self._context = replace(context, runner=TimelyRunner(context.runner, self._clock))

    def run(self) -> Iterator[Event]:
        """Yield every event; the last one is ``Finished`` or ``Failed``.

        Closing the generator early ends the compile-ahead thread. A model
        that was never timed, because of an early cancel, counts 0 ms. After
        ``Paused`` the session rests until it is asked for the next event.
        """
        clock, keys = self._clock, tuple(w.key for w in self._workloads)
        clock.begin()
        try:
            with KernelQueue(self._context.compiler) as queue:
                target = target_json(self._context.device, self._tier)
                yield SessionStarted(clock.t_s(), self._model.name, keys, target)
                yield from self._stages(
                    SessionState(self._context, self._options, self._tier, clock, queue, [])
                )
        except NnjitError as error:
            yield Failed(clock.t_s(), error.to_json())

    def pause(self, pausing: bool = True) -> None:
        """Have the session rest after its round, or no more. Thread-safe."""
        self._requests.pause(pausing)

    def request(self, workload: str, candidate: AnyCandidate, enough: float | None = None) -> None:
        """Have a candidate of the user's own measured next. Thread-safe.

        Parameters
        ----------
        enough
            Speed-up over the default that ends the search of this workload; None ends nothing.
        """
        self._requests.add(workload, candidate, enough)

    def set_seconds_left(self, seconds: float | None) -> None:
        """Change the budget: so many seconds from now on, None is no limit. Thread-safe."""
        self._clock.set_left(seconds)

    @property
    def seconds_left(self) -> float | None:
        """Of the budget; None is no limit."""
        return self._clock.left_s()

    def _stages(self, session: SessionState) -> Iterator[Event]:
        """All that happens between the first event and the last, and the summary."""
        device, tier = self._context.device, self._tier
        pulse = partial(self._context.runner.pulse, tier)
        machine = Machine(pulse, device.peak_gflops.get(tier))
        statistics, timing = Statistics(), ModelTiming(session, self._model, machine)
        evaluator = Evaluator(
            self._context,
            self._tier,
            self._options.thresholds,
            session.queue.at_once,
            session.clock.t_s,
            self._trials(),
        )
        stages = self._tuned(session, evaluator, timing, statistics, machine)
        try:
            reason = yield from watched(stages, statistics.note)
        except CompileError:
            # Who stops a session may have ended the reference that was being made, too.
            if not session.clock.cancelled():
                raise
            reason = "cancelled"
        except Overdue:
            timing.cut()
            reason = "time"
        late = evaluator.late_ms / evaluator.total_ms if evaluator.total_ms else 0.0
        pipeline_ms = statistics.pipeline_ms
        yield Finished(
            t_s=session.clock.t_s(),
            reason=reason,
            model=self._model.name,
            model_ms={"before": timing.before_ms, "after": timing.after_ms},
            compile_ms=compile_summary(statistics.compile_ms),
            seconds_to_best=statistics.best_s,
            seconds_to_within_3_percent=statistics.seconds_to_within(0.03),
            workloads=workload_summaries(session.states),
            target=target_json(self._context.device, self._tier),
            pipeline_ms=compile_summary(pipeline_ms) if pipeline_ms else {},
            late_share=late,
            gain=timing.gain,
            outcomes=statistics.outcomes,
            kept=sum(s.incumbent is not s.default for s in session.states),
            of_peak=share_of_peak(session.states, device, tier),
            warning=busy_text(machine.level),
            undecided=statistics.undecided,
        )

    def _trials(self) -> Trials | None:
        """Of winners in the running model, where there may be any."""
        options, context = self._options, self._context
        if not options.confirm or options.served is not None or context.device.gpu:
            return None
        return Trials(context.runner, self._model.feeds)

    def _tuned(
        self,
        session: SessionState,
        evaluator: Evaluator,
        timing: ModelTiming,
        statistics: Statistics,
        machine: Machine,
    ) -> Generator[Event, None, str]:
        """The stages in order; returns why the session ended."""
        checks = Checks(session, evaluator, self._requests.rest)
        yield from checks.begin(self._workloads)
        if reason := session.clock.stop(timing.least_s()):
            return reason  # without a check there is nothing to be tuned, and nothing to be timed
        self._context.runner.register([s.default for s in session.states])
        yield from timing.before()
        statistics.begin(session.clock.t_s())
        least_gain = self._options.thresholds.min_gain
        search = SearchStrategy(self._context.device, self._tier, least_gain)
        spaces = Spaces(session, self._model.packable, search, Incumbents(session))
        yield from spaces.open()
        estimate_ms = model_ms(timing.before_ms, session.states)
        statistics.progress(session.clock.t_s(), estimate_ms)
        rounds = Rounds(session, checks, spaces, evaluator, self._requests, timing, machine)
        reason = yield from rounds.run()
        session.queue.references.drop()
        yield from timing.after()
        return reason


def watched(
    events: Generator[Event, None, T], note: Callable[[Event], None]
) -> Generator[Event, None, T]:
    """The same events, each noted first, and the same result."""
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        note(event)
        yield event


def _tunable_on(device: DeviceProfile, workload: Workload) -> Workload:
    """The workload; not tunable where it has templates for Wasm and none for this GPU."""
    if device.gpu is None or not workload.tunable:
        return workload
    try:
        build_lite_space(workload, device, packable=False)
    except UserError:
        return replace(workload, tunable=False)
    return workload
