"""How often one source may send, and how many reports are worked on at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_SOURCES = 100_000


class Throttle:
    """A bucket of tokens for each source; the sources that were quiet longest are forgotten.

    Parameters
    ----------
    rate
        Reports a second that a source may send for ever.
    burst
        Reports that it may send at once.
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, source: str) -> bool:
        """Whether a source may send now."""
        now = self._clock()
        left, then = self._left.pop(source, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._left[source] = (left - 1 if left >= 1 else left, now)
        while len(self._left) > _MOST_SOURCES:
            self._left.popitem(last=False)
        return left >= 1
