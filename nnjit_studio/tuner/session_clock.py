"""Time of a session: seconds since it began, its budget, and when the model runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nnjit_studio.tuner.protocols import Clock

T = TypeVar("T")

LIVE_INTERVAL_S = 0.25
FULL_SPEED_INTERVAL_S = 2.0
"""Between two inferences of the running model while tuning goes on."""
LIVE_PAUSE = 4
"""An inference is followed by at least this many times its own length of tuning."""
RESERVED_SHARE = 1 / 3
"""Most of the budget that may be kept for timing the model at the end."""


class SessionClock:
    """Says when to stop and when to run the model.

    Attributes
    ----------
    budget_s
        Seconds in all from :meth:`start_budget` on; None: until nothing is left to gain.
    timing_s
        What comes after the last round.
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
        self.timing_s = 0.0
        self.begin()

    def begin(self) -> None:
        """The session begins now."""
        self._began_s = self._live_due_s = self._paused_at_s = self._clock.monotonic_s()
        self._budget_began_s: float | None = None

    def t_s(self) -> float:
        """Seconds since the session began, pauses not counted."""
        return self._clock.monotonic_s() - self._began_s

    def start_budget(self, timing_s: float) -> None:
        """From now on the budget passes, ``timing_s`` of it after the last round."""
        self._budget_began_s, self.timing_s = self._clock.monotonic_s(), timing_s

    def set_left(self, seconds: float | None) -> None:
        """Have so many seconds from now on, or no limit. Thread-safe."""
        began_s = self._budget_began_s
        spent_s = 0.0 if began_s is None else self._clock.monotonic_s() - began_s
        self.budget_s = None if seconds is None else spent_s + seconds

    def left_s(self) -> float | None:
        """Seconds of the budget that are left, its last timing included; None: no limit."""
        if self.budget_s is None or self._budget_began_s is None:
            return self.budget_s
        spent_s = self._clock.monotonic_s() - self._budget_began_s
        return max(0.0, self.budget_s - spent_s)

    def pause(self) -> float:
        """What passes until :meth:`resume` counts nowhere; seconds since the session began."""
        self._paused_at_s = self._clock.monotonic_s()
        return self._paused_at_s - self._began_s

    def resume(self) -> float:
        """Seconds since :meth:`pause`."""
        rested_s = self._clock.monotonic_s() - self._paused_at_s
        self._began_s += rested_s
        self._live_due_s += rested_s
        if self._budget_began_s is not None:
            self._budget_began_s += rested_s
        return rested_s

    def stop(self) -> str:
        """Why no further round may begin: ``cancelled``, ``time`` or empty."""
        if self.cancelled():
            return "cancelled"
        budget_s, left_s = self.budget_s, self.left_s()
        if budget_s is None or left_s is None:
            return ""
        return "time" if left_s <= min(self.timing_s, budget_s * RESERVED_SHARE) else ""

    def when_due(self, look: Callable[[], T]) -> T | None:
        """Look at the model if it is time to, by running it or by asking what it served."""
        began_s = self._clock.monotonic_s()
        if began_s < self._live_due_s:
            return None
        seen = look()
        ended_s = self._clock.monotonic_s()
        self._live_due_s = ended_s + max(self._interval_s, LIVE_PAUSE * (ended_s - began_s))
        return seen
