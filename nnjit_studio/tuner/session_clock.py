"""Time of a session: seconds since it began, its budget, and when the model runs again.

A session begins nothing that takes longer than what is left, by how long it took before. On a
machine that has become busier it takes longer, and the first of its kind was never taken before:
so the page's answer is waited for until the budget is over.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from numpy.typing import NDArray

from nnjit_studio.errors import PageError
from nnjit_studio.records import Fixture, Inference, Kernel, MeasurePolicy, Pulse, RunResult, Trial
from nnjit_studio.tuner.protocols import Clock, Runner

T = TypeVar("T")

LIVE_INTERVAL_S = 0.25
FULL_SPEED_INTERVAL_S = 2.0
"""Between two inferences of the running model while tuning goes on."""
LIVE_PAUSE = 4
"""An inference is followed by at least this many times its own length of tuning."""
RESERVED_SHARE = 1 / 3
"""Most of the budget that may be kept for timing the model at the end."""
SLICE_S = 0.5
"""Of a wait: the budget may be changed meanwhile, and so may what is waited for."""
OVER_SHARE = 0.1
"""Of the budget: so much later the page may answer, and the last runs of a model may end."""
_CLOCKS_S = 0.01
"""By which a wait and the session's clock may differ."""


class SessionClock:
    """Says when to stop and when to run the model.

    Attributes
    ----------
    budget_s
        Seconds in all, from the beginning to the summary; None: until nothing is left to gain.
    timing_s
        What comes after the last round; as much as may be kept for it before that is known.
    """

    def __init__(
        self,
        clock: Clock,
        cancelled: Callable[[], bool] = lambda: False,
        full_speed: bool = False,
        seconds: float | None = None,
    ) -> None:
        self._clock = clock
        self.cancelled = cancelled
        self._interval_s = FULL_SPEED_INTERVAL_S if full_speed else LIVE_INTERVAL_S
        self.budget_s = seconds
        self.timing_s = math.inf
        self.begin()

    def begin(self) -> None:
        """The session begins now."""
        self._began_s = self._live_due_s = self._paused_at_s = self._clock.monotonic_s()

    def t_s(self) -> float:
        """Seconds since the session began, pauses not counted."""
        return self._clock.monotonic_s() - self._began_s

    def set_left(self, seconds: float | None) -> None:
        """Have so many seconds from now on, or no limit. Thread-safe."""
        self.budget_s = None if seconds is None else self.t_s() + seconds

    def left_s(self) -> float | None:
        """Seconds of the budget that are left, its last timing included; None: no limit."""
        budget_s = self.budget_s
        return None if budget_s is None else max(0.0, budget_s - self.t_s())

    def pause(self) -> float:
        """What passes until :meth:`resume` counts nowhere; seconds since the session began."""
        self._paused_at_s = self._clock.monotonic_s()
        return self._paused_at_s - self._began_s

    def resume(self) -> float:
        """Seconds since :meth:`pause`."""
        rested_s = self._clock.monotonic_s() - self._paused_at_s
        self._began_s += rested_s
        self._live_due_s += rested_s
        return rested_s

    def stop(self, next_s: float = 0.0) -> str:
        """Why nothing that takes ``next_s`` may begin: ``cancelled``, ``time`` or empty."""
        if self.cancelled():
            return "cancelled"
        left_s = self.rounds_s()
        return "time" if left_s is not None and left_s <= next_s else ""

    def rounds_s(self) -> float | None:
        """Seconds that are left for rounds; None: no limit."""
        budget_s, left_s = self.budget_s, self.left_s()
        if budget_s is None or left_s is None:
            return None
        return max(0.0, left_s - min(self.timing_s, budget_s * RESERVED_SHARE))

    def wait(self, done: Future[Any], most_s: float) -> bool:
        """Whether it is done after so many seconds at most, before the rounds have to end."""
        until_s = self.t_s() + most_s
        while not done.done():
            left_s, rounds_s = until_s - self.t_s(), self.rounds_s()
            if rounds_s is not None:
                left_s = min(left_s, rounds_s)
            if left_s <= 0 or self.cancelled():
                return False
            self._clock.wait(done, min(left_s, SLICE_S))
        return True

    def when_due(self, look: Callable[[], T]) -> T | None:
        """Look at the model if it is time to, by running it or by asking what it served."""
        began_s = self._clock.monotonic_s()
        if began_s < self._live_due_s:
            return None
        seen = look()
        ended_s = self._clock.monotonic_s()
        self._live_due_s = ended_s + max(self._interval_s, LIVE_PAUSE * (ended_s - began_s))
        return seen


class Overdue(PageError):
    """The budget was over before the page had answered. It goes on, and is asked again later."""


class TimelyRunner:
    """The calls of another runner, none of which is waited for behind the budget's end.

    Kernels are registered in any case: else what the page runs would not be known.
    """

    def __init__(self, runner: Runner, clock: SessionClock) -> None:
        self._clock = clock
        self._within = runner.within(self._left_s)
        self.load, self.register, self.prepare = runner.load, runner.register, runner.prepare
        self.within = runner.within

    def _left_s(self) -> float | None:
        budget_s = self._clock.budget_s
        return None if budget_s is None else (1 + OVER_SHARE) * budget_s - self._clock.t_s()

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except PageError as error:
            left_s = self._left_s()
            if left_s is None or left_s > _CLOCKS_S:
                raise
            raise Overdue("The budget was over before the page had answered.") from error

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        with self._in_time():
            return self._within.measure(challenger, incumbent, policy)

    def infer(
        self, feeds: Mapping[str, NDArray[Any]], runs: int = 1, profile: bool = False
    ) -> Inference:
        with self._in_time():
            return self._within.infer(feeds, runs, profile)

    def trial(
        self, feeds: Mapping[str, NDArray[Any]], kernels: Sequence[Kernel], policy: MeasurePolicy
    ) -> Trial:
        with self._in_time():
            return self._within.trial(feeds, kernels, policy)

    def set_fixture(self, fixture: Fixture) -> None:
        with self._in_time():
            self._within.set_fixture(fixture)

    def pulse(self, tier: str) -> Pulse:
        with self._in_time():
            return self._within.pulse(tier)
