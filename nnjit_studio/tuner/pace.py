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


class Pace:
    """Says when to stop and when to run the model; begins when it is made."""

    def __init__(self, clock: Clock, cancelled: Callable[[], bool], full_speed: bool) -> None:
        self._clock = clock
        self.cancelled = cancelled
        self._interval_s = FULL_SPEED_INTERVAL_S if full_speed else LIVE_INTERVAL_S
        self._began_s = clock.monotonic_s()
        self._rounds_end_s: float | None = None
        self._live_due_s = self._began_s

    def t_s(self) -> float:
        """Seconds since the session began."""
        return self._clock.monotonic_s() - self._began_s

    def start_budget(self, seconds: float | None, timing_s: float) -> None:
        """From now on ``seconds`` pass, of them ``timing_s`` after the last round."""
        if seconds is not None:
            reserved_s = min(timing_s, seconds * RESERVED_SHARE)
            self._rounds_end_s = self._clock.monotonic_s() + seconds - reserved_s

    def stop(self) -> str:
        """Why no further round may begin: ``cancelled``, ``time`` or empty."""
        if self.cancelled():
            return "cancelled"
        over = self._rounds_end_s is not None and self._clock.monotonic_s() >= self._rounds_end_s
        return "time" if over else ""

    def live(self, infer: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
        """Run the model if it is due; its ms, or nothing."""
        return self.due(infer) or ()

    def due(self, look: Callable[[], T]) -> T | None:
        """Look at the model if it is time to, by running it or by asking what it served."""
        began_s = self._clock.monotonic_s()
        if began_s < self._live_due_s:
            return None
        seen = look()
        ended_s = self._clock.monotonic_s()
        self._live_due_s = ended_s + max(self._interval_s, LIVE_PAUSE * (ended_s - began_s))
        return seen
