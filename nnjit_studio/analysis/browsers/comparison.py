"""What browsers agree on, and what one set of settings for all of them would cost each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from nnjit_studio.analysis.browsers.crossing import SAME, Crossing, Ratio, Winner


@dataclass(frozen=True)
class Cost:
    """What the common set costs a browser: its kernels' time by that of its own winners."""

    browser: str
    own_ms: float
    """Of one run of all tuned kernels, each as often as the model runs it."""
    ratio: Ratio


@dataclass(frozen=True)
class Common:
    """The settings of a workload that cost all browsers together least."""

    workload: str
    settings: str
    """Empty where no browser's winner was timed in all of them."""
    ratios: Mapping[str, Ratio]
    """By browser: their time by that of its own winner."""


@dataclass(frozen=True)
class BrowserComparison:
    """Winners of each browser and every winner's time in every other browser.

    The set is chosen by one half of the pairs, and what it costs is told by the other half, so
    that no choice by luck makes it look cheaper.
    """

    model: str
    browsers: tuple[str, ...]
    engines: Mapping[str, str]
    """By browser, as it names itself."""
    winners: tuple[Winner, ...]
    crossings: tuple[Crossing, ...]

    @cached_property
    def workloads(self) -> tuple[str, ...]:
        """Those that every browser has, the heaviest in the first browser first."""
        first = [w for w in self.winners if w.browser == self.browsers[0]]
        first.sort(key=lambda w: -w.ms * w.uses)
        return tuple(
            w.workload for w in first if all((b, w.workload) in self._own for b in self.browsers)
        )

    @cached_property
    def _own(self) -> Mapping[tuple[str, str], Winner]:
        return {(w.browser, w.workload): w for w in self.winners}

    @cached_property
    def _crossed(self) -> Mapping[tuple[str, str, str], Crossing]:
        return {(c.browser, c.workload, c.settings): c for c in self.crossings}

    def winner(self, browser: str, workload: str) -> Winner:
        return self._own[browser, workload]

    def crossing(self, browser: str, workload: str, settings: str) -> Crossing | None:
        """How settings do in a browser; None of its own, and of those that were not tried."""
        return self._crossed.get((browser, workload, settings))

    def settings(self, workload: str) -> tuple[str, ...]:
        """Different winners of a workload, in the order of the browsers."""
        return tuple(dict.fromkeys(self._own[b, workload].settings for b in self.browsers))

    def worst(self, workload: str) -> Ratio | None:
        """The largest ratio of another's winner that is told apart; None where none is."""
        of = [c for c in self.crossings if c.workload == workload and c.usable]
        ratios = [r for r in (c.ratio() for c in of) if r.low > 1]
        return max(ratios, key=lambda r: r.value, default=None)

    @cached_property
    def common(self) -> tuple[Common, ...]:
        """Of each workload that all browsers have."""
        return tuple(self._common(workload) for workload in self.workloads)

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """Of each browser, over the workloads that have common settings."""
        return tuple(self._cost(browser) for browser in self.browsers)

    def _common(self, workload: str) -> Common:
        possible = [s for s in self.settings(workload) if self._everywhere(workload, s)]
        if not possible:
            return Common(workload, "", {})
        best = min(possible, key=lambda s: self._together(workload, s))
        ratios = {b: self._ratio(b, workload, best, 1) for b in self.browsers}
        return Common(workload, best, ratios)

    def _everywhere(self, workload: str, settings: str) -> bool:
        return all(
            self._own[b, workload].settings == settings
            or ((crossed := self.crossing(b, workload, settings)) and crossed.usable)
            for b in self.browsers
        )

    def _together(self, workload: str, settings: str) -> float:
        """Sum of the ratios' logarithms, by the first half of the pairs."""
        return sum(math.log(self._ratio(b, workload, settings, 0).value) for b in self.browsers)

    def _ratio(self, browser: str, workload: str, settings: str, half: int) -> Ratio:
        crossed = self.crossing(browser, workload, settings)
        own = self._own[browser, workload].settings == settings
        return SAME if own or crossed is None else crossed.ratio(half, 2)

    def _cost(self, browser: str) -> Cost:
        parts = [
            (self._own[browser, c.workload].ms * self._own[browser, c.workload].uses, c)
            for c in self.common
            if c.settings
        ]
        whole = sum(ms for ms, _ in parts)
        if whole <= 0:
            return Cost(browser, 0.0, SAME)
        ratios = [(ms / whole, c.ratios[browser]) for ms, c in parts]
        value = sum(share * r.value for share, r in ratios)
        # Errors of different kernels are independent: their shares add up in quadrature.
        below = math.hypot(*(share * (r.value - r.low) for share, r in ratios))
        above = math.hypot(*(share * (r.high - r.value) for share, r in ratios))
        return Cost(browser, whole, Ratio(value, max(value - below, 0.0), value + above))

    def to_json(self) -> dict[str, Any]:
        """All samples, and what they say."""
        return {
            "ok": True,
            "model": self.model,
            "browsers": list(self.browsers),
            "engines": dict(self.engines),
            "winners": [asdict(w) for w in self.winners],
            "crossings": [asdict(c) for c in self.crossings],
            "common": [asdict(c) for c in self.common],
            "costs": [asdict(c) for c in self.costs],
        }
