"""A browser's winner in another browser, in turns with that one's own."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.tuner.swap_policy import SwapPolicy, speedup_interval

LEAST_PAIRS = 4
"""In two halves: fewer say nothing."""


@dataclass(frozen=True)
class Winner:
    """The best kernel that a browser's session found for a workload."""

    browser: str
    workload: str
    settings: str
    uses: int
    """How often the model runs it."""
    ms: float
    """Median of a run; 0 where the page's clock showed nothing."""


@dataclass(frozen=True)
class Ratio:
    """A time by another, with its 95 % interval."""

    value: float = 1.0
    low: float = 1.0
    high: float = 1.0

    @property
    def told_apart(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low > 1 or self.high < 1

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


SAME = Ratio()
"""Of a kernel by itself."""


@dataclass(frozen=True)
class Crossing:
    """Samples of settings in one browser, pair by pair with those of its own winner.

    ``why_not`` says why there are none: the kernel is wrong there, or failed.
    """

    browser: str
    workload: str
    settings: str
    own_ms: tuple[float, ...] = ()
    other_ms: tuple[float, ...] = ()
    why_not: str = ""

    @property
    def usable(self) -> bool:
        """Whether the samples say something, in halves too."""
        return not self.why_not and len(self.own_ms) >= LEAST_PAIRS

    def ratio(self, first: int = 0, step: int = 1) -> Ratio:
        """Time with these settings by that with the browser's own, of every ``step``-th pair."""
        own, other = self.own_ms[first::step], self.other_ms[first::step]
        return Ratio(*speedup_interval(own, other, SwapPolicy()))
