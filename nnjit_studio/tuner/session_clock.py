"""Time of a session: seconds since it began, its budget, and when the model runs again."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from nnjit_studio.tuner.protocols import Clock

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
