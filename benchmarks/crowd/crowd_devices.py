"""Simulated devices: true times of a kind's settings, and measurements with noise and drift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SETTINGS = 48
"""Candidates of a lite space: dozens, as in the paper."""
DEFAULT = SETTINGS
"""The index of the default schedule behind those of the candidates."""


@dataclass(frozen=True)
class Kind:
    """Hardware of one make: milliseconds of each candidate and, last, of the default."""

    times_ms: NDArray[np.float64]

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Kind:
        """A kind whose best candidate is 1.2 to 3 times as fast as its default."""
        best = rng.uniform(2.0, 20.0)
        slowdowns = np.exp(rng.gamma(1.6, 0.25, SETTINGS))
        slowdowns /= slowdowns.min()
        return cls(np.append(best * slowdowns, best * rng.uniform(1.2, 3.0)))


@dataclass(frozen=True)
class Device:
    """One device of a kind: its own true times, noise of a sample and drift of its clock speed."""

    times_ms: NDArray[np.float64]
    noise: float
    drift: float
    speed: float

    @classmethod
    def draw(cls, kind: Kind, rng: np.random.Generator) -> Device:
        own = np.exp(rng.normal(0, 0.01, SETTINGS + 1))
        speed = float(np.exp(rng.normal(0, 0.1)))
        return cls(kind.times_ms * own * speed, rng.uniform(0.01, 0.06), rng.uniform(0, 0.3), speed)

    def duel(
        self, challenger: int, incumbent: int, rng: np.random.Generator, samples: int = 60
    ) -> tuple[float, float, float]:
        """Speed-up of one setting over another, measured in turns, with its 99 % interval.

        The drift slows both alike, because they alternate; the noise does not.
        """
        slowed = 1 + self.drift * np.linspace(0, rng.uniform(0, 1), samples)
        pairs = [
            self.times_ms[index] * slowed * np.exp(rng.normal(0, self.noise, samples))
            for index in (incumbent, challenger)
        ]
        ratios = np.log(pairs[0] / pairs[1])
        middle = float(ratios.mean())
        half = 2.66 * float(ratios.std(ddof=1)) / samples**0.5
        return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))

    def regret(self, chosen: int) -> float:
        """How much slower than its best setting a device runs: 0.03 is 3 %."""
        return float(self.times_ms[chosen] / self.times_ms.min()) - 1
