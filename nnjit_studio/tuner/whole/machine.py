"""How much of itself the machine gives the page: the level that badges and ratios go by."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable

from nnjit_studio.records import Pulse

ROUGH_BELOW = 0.9
"""Of the usual rate: below it figures are rough, and say so."""
NO_RATIO_BELOW = 0.75
"""Of the usual rate: below it no ratio is shown. Programs that take a quarter of a core come and
go in slices of milliseconds, about as long as a run of a small model."""
LOOKS = 7
"""Pulses whose median is the level."""
TRUSTED_PEAK = 0.8
"""Of the probed peak, a best of many samples, which a median of few reaches on a quiet machine."""


class Machine:
    """Takes pulses of the sentinel kernel and keeps what they say of the machine.

    The level is the rate of the last pulses with all that interrupted them, as a share of the
    usual one: of the best that a pulse reached between interruptions, or of what the probed peak
    lets expect, where that is more.

    Parameters
    ----------
    pulse
        Asks the page; see ``Runner.pulse``.
    peak_gflops
        The probed peak of the same kernel, or None.
    """

    def __init__(self, pulse: Callable[[], Pulse], peak_gflops: float | None = None) -> None:
        self._pulse = pulse
        self._usual = TRUSTED_PEAK * (peak_gflops or 0.0)
        self._last: deque[float] = deque(maxlen=LOOKS)

    def pulse(self) -> Pulse:
        """Take one, and remember it."""
        pulse = self._pulse()
        self._usual = max(self._usual, pulse.gflops)
        self._last.append(pulse.throughput or pulse.gflops)
        return pulse

    @property
    def level(self) -> float | None:
        """Share of the usual rate, 0 to 1; None before the first pulse."""
        if not self._last or self._usual <= 0:
            return None
        return min(1.0, statistics.median(self._last) / self._usual)


def is_rough(level: float | None) -> bool:
    """Whether figures need a warning; what is not known needs none."""
    return level is not None and level < ROUGH_BELOW


def forbids_ratio(level: float | None) -> bool:
    """Whether the machine is too busy for any ratio."""
    return level is not None and level < NO_RATIO_BELOW


def busy_text(level: float | None) -> str:
    """The badge's words; empty for a quiet machine."""
    if level is None or not is_rough(level):
        return ""
    return f"machine busy: figures are rough ({level:.0%} of its usual rate)"
