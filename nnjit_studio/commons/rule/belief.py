"""Majority of ranked ballots per key, and from when on it is believed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.residuals import weighted_median, weights_of

FEWEST = 5
"""Independent sources before anything of a key is said at all."""
TOP = 5
"""Settings that an answer holds at most."""
RANKED = (5 / 15, 4 / 15, 3 / 15, 2 / 15, 1 / 15)
"""What the places of a ballot are worth."""
MAJORITY = 0.5
"""Of the weight of all ballots that must name settings before they are believed."""


@dataclass(frozen=True)
class Standing:
    """Believed settings: their share of the ranked votes, speed-up, and sources that name them."""

    settings: str
    score: float
    speedup: float
    sources: int


@dataclass(frozen=True)
class Belief:
    """What the crowd says of one key.

    Attributes
    ----------
    best
        Believed settings, the most voted first; empty where nothing is.
    sources, devices
        Independent sources, and devices, that were heard.
    dissent
        Share of voices, from 0 to 1, that residuals took the weight from.
    of_family
        Whether devices of the family were asked because too few of the exact kind are known.
    """

    best: tuple[Standing, ...]
    sources: int
    devices: int
    dissent: float
    of_family: bool = False


def believe(ballots: Sequence[Ballot], fewest: int = FEWEST) -> Belief | None:
    """The crowd's answer for one key; None while a shape would betray its few reporters.

    Settings are believed when ``fewest`` sources that did not choose each other name them among
    their fastest, and these hold a majority of the weight.
    """
    sources = len({ballot.source for ballot in ballots})
    if sources < fewest:
        return None
    weights = weights_of(ballots)
    scores: dict[str, float] = defaultdict(float)
    named: dict[str, float] = defaultdict(float)
    behind: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for ballot, weight in zip(ballots, weights, strict=True):
        for (settings, speedup), worth in zip(ballot.ranked, RANKED, strict=False):
            scores[settings] += weight * worth
            named[settings] += weight
            behind[settings][ballot.source] += weight
            figures[settings].append((math.log(speedup), weight))
    whole = sum(weights)
    independent = {s: _independent(voices) for s, voices in behind.items()}
    believed = [s for s in scores if independent[s] >= fewest and named[s] > MAJORITY * whole > 0]
    believed.sort(key=lambda s: (-scores[s], s))
    total = sum(scores.values())
    best = tuple(
        Standing(s, scores[s] / total, math.exp(weighted_median(figures[s])), independent[s])
        for s in believed[:TOP]
    )
    voices = sum(1 / n for n in _crowding(ballots))
    return Belief(best, sources, len(ballots), max(0.0, 1 - whole / voices))


def two_levels(
    exact: Sequence[Ballot], family: Sequence[Ballot], fewest: int = FEWEST
) -> Belief | None:
    """What devices of this exact kind say; else what those of its family do."""
    own = believe(exact, fewest)
    if own is not None and own.best:
        return own
    wide = believe(family, fewest)
    if wide is None or not wide.best:
        return own or wide
    return Belief(wide.best, wide.sources, wide.devices, wide.dissent, of_family=True)


def _independent(voices: dict[str, float]) -> int:
    """Sources that still have a voice worth a tenth after their residuals."""
    return sum(1 for weight in voices.values() if weight > 0.1)


def _crowding(ballots: Sequence[Ballot]) -> list[int]:
    counts: dict[str, int] = defaultdict(int)
    for ballot in ballots:
        counts[ballot.source] += 1
    return [counts[ballot.source] for ballot in ballots]
