"""The sentinel: a fixed kernel whose rate tells when the machine or the page has changed."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nnjit_studio.records import Pulse
from nnjit_studio.tuner.protocols import Clock

INTERVAL_S = 1.0
"""Between two pulses: one lasts some 10 ms, so it costs about a hundredth of the time."""
MOST_SHARE = 0.05
"""Of the time, where a pulse lasts longer, as on a GPU in software."""
TOLERANCE = 0.1
"""A rate this far from the usual one, as a share, is drift."""
REMEMBERED = 8
"""The usual rate is the median of so many pulses."""
REPEAT_SHARE = 0.25
"""Measurements that may be repeated, as a share of all: a machine that is never quiet
must not keep a session from its other candidates."""

T = TypeVar("T")


@dataclass(frozen=True)
class Change(Generic[T]):
    """What the sentinel noticed."""

    what: str
    """One sentence."""
    rate: float
    """Of the sentinel kernel, as a share of its usual rate before."""
    doubtful: tuple[T, ...] = ()
    """What was noted since the rate was last usual, and should be measured again; empty when
    only the page's surroundings changed."""


class Sentinel(Generic[T]):
    """Takes a pulse now and then and compares it with the ones before.

    A rate that is off is looked at twice: a single bad pulse is noise of the
    pulse itself. Once two agree they are what is usual from then on, so that a
    device that stays throttled is reported once. Nothing is doubtful twice.

    Parameters
    ----------
    pulse
        Asks the page; see ``Runner.pulse``.
    peak_gflops
        The peak that was probed for the same kernel, or None.
    may_hide
        Whether the page may be hidden from the start, as the embedded one may.
    """

    def __init__(
        self,
        pulse: Callable[[], Pulse],
        clock: Clock,
        peak_gflops: float | None = None,
        may_hide: bool = False,
    ) -> None:
        self._pulse, self._clock = pulse, clock
        self._peak_gflops = peak_gflops
        self._usual: deque[float] = deque(maxlen=REMEMBERED)
        self._hidden: bool | None = None if may_hide else False
        self._on_battery: bool | None = None
        self._due_s = clock.monotonic_s()
        self._window: list[T] = []
        self._noted = self._repeated = 0

    def note(self, item: T) -> None:
        """Remember a measurement that drift would make doubtful."""
        self._noted += 1
        self._window.append(item)

    def check(self) -> Change[T] | None:
        """Take a pulse if one is due; what has changed since the last, or None."""
        if self._clock.monotonic_s() < self._due_s:
            return None
        began_s = self._clock.monotonic_s()
        change = self._look()
        now_s = self._clock.monotonic_s()
        self._due_s = now_s + max(INTERVAL_S, (now_s - began_s) / MOST_SHARE)
        self._window.clear()
        return change

    def _look(self) -> Change[T] | None:
        pulse = self._pulse()
        news = self._surroundings(pulse)
        if not self._usual:
            self._usual.append(pulse.gflops)
            return Change(_sentence(news), 1.0) if news else None
        usual = statistics.median(self._usual)
        if self._is_off(pulse, usual):
            again = self._pulse()
            if self._is_off(again, usual):
                self._usual.clear()
                self._usual += (pulse.gflops, again.gflops)
                rate = statistics.median(self._usual) / usual
                return Change(_sentence([self._told(rate), *news]), rate, self._doubtful())
            pulse = again
        self._usual.append(pulse.gflops)
        return Change(_sentence(news), pulse.gflops / usual) if news else None

    def _doubtful(self) -> tuple[T, ...]:
        """The window, as far as repeats are left; the newest ones when there are not enough."""
        left = max(0, int(self._noted * REPEAT_SHARE) - self._repeated)
        doubtful = tuple(self._window[len(self._window) - min(left, len(self._window)) :])
        self._repeated += len(doubtful)
        return doubtful

    @staticmethod
    def _is_off(pulse: Pulse, usual: float) -> bool:
        return abs(pulse.gflops / usual - 1) > TOLERANCE

    def _told(self, rate: float) -> str:
        text = f"the sentinel kernel runs at {rate:.2f} of its usual rate"
        if self._peak_gflops:
            share = statistics.median(self._usual) / self._peak_gflops
            text += f" and {share:.2f} of the probed peak"
        return text

    def _surroundings(self, pulse: Pulse) -> list[str]:
        """What has changed around the page, in words; the first look sets what is usual."""
        news = []
        if self._hidden is not None and pulse.hidden != self._hidden:
            news.append("the page is hidden now" if pulse.hidden else "the page is visible again")
        if pulse.on_battery is not None and pulse.on_battery != bool(self._on_battery):
            news.append("the device is on battery" if pulse.on_battery else "it is charging again")
        self._hidden, self._on_battery = pulse.hidden, pulse.on_battery
        return news


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."
