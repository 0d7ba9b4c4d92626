"""What a simulated device does: the crowd's settings first, each proven here, else its own search.

The decisions are the real rule's (:mod:`nnjit_studio.commons.rule`); only times are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from crowd_devices import DEFAULT, SETTINGS, Device

from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import Belief
from nnjit_studio.commons.rule.extended import extended_space, kept_promise

LITE = tuple(f"c{index}" for index in range(SETTINGS))
"""The lite space of every simulated device."""
_CHECKED = 2
"""The crowd's settings that a device always measures; the others where these disappoint."""


@dataclass(frozen=True)
class Outcome:
    """How one device ended.

    Attributes
    ----------
    chosen
        The setting that it runs; :data:`DEFAULT` where nothing was proven faster.
    rounds
        Settings that it measured.
    rounds_to_3_percent
        Those until it ran one within 3 % of its best; ``SETTINGS`` where it never did.
    worst
        The largest ratio of what it ran to its default: above 1 it was slower.
    searched
        Whether it needed its own search.
    ranked
        What it reports.
    """

    chosen: int
    rounds: int
    rounds_to_3_percent: int
    worst: float
    searched: bool
    ranked: tuple[tuple[str, float], ...]


class _Session:
    """One device that tries settings against what it runs, and takes what is proven faster."""

    def __init__(self, device: Device, rng: np.random.Generator) -> None:
        self.device, self.rng = device, rng
        self.chosen, self.rounds, self.within = DEFAULT, 0, SETTINGS
        self.figures: dict[int, float] = {}
        self.worst = 1.0
        self._note()

    def measure(self, index: int) -> float:
        """The speed-up of a setting over the default; it is in use afterwards if it is proven."""
        if index not in self.figures:
            self.rounds += 1
            self.figures[index], low, _ = self.device.duel(index, DEFAULT, self.rng)
            if low > 1 and self._beats_the_incumbent(index):
                self.chosen = index
            self._note()
        return self.figures[index]

    def _beats_the_incumbent(self, index: int) -> bool:
        if self.chosen == DEFAULT:
            return True
        return self.device.duel(index, self.chosen, self.rng)[1] > 1

    def _note(self) -> None:
        if self.within == SETTINGS and self.device.regret(self.chosen) <= 0.03:
            self.within = self.rounds
        times = self.device.times_ms
        self.worst = max(self.worst, float(times[self.chosen] / times[DEFAULT]))


def tune(
    device: Device, belief: Belief | None, rng: np.random.Generator, curious: float = 0.1
) -> Outcome:
    """Tune one device.

    Parameters
    ----------
    curious
        Share of devices that search on their own though the crowd's answer holds, so that a
        better one can be found and a wrong one dies out.
    """
    session = _Session(device, rng)
    space = extended_space(LITE, belief, lambda given, n: rng.permutation(given)[:n].tolist())
    promised = {s.settings: s.speedup for s in belief.best} if belief else {}
    held = False
    for tried, settings in enumerate(space.exploitation):
        if held and tried >= _CHECKED:
            break
        measured = session.measure(LITE.index(settings))
        held = held or kept_promise(promised[settings], measured)
    searched = not held or rng.random() < curious
    for settings in LITE if searched else space.exploration:
        session.measure(LITE.index(settings))
    ranked = sorted(session.figures.items(), key=lambda item: -item[1])[:5]
    named = tuple((LITE[index], figure) for index, figure in ranked)
    return Outcome(session.chosen, session.rounds, session.within, session.worst, searched, named)


def ballot(number: int, source: str, ranked: tuple[tuple[str, float], ...]) -> Ballot:
    """What a device sends, as the server would count it."""
    return Ballot(f"d{number}", source, "0" * 16, ranked)
