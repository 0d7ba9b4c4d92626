"""Majority of ranked ballots per key, and from when on it is believed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
CHALLENGE = 1.03
"""Times the leader's speed-up from which on settings without a majority are worth a try."""
CHALLENGERS = 5
"""Of these, how many are told; two sources suffice, because a try is all that they get."""
CROWDED = 3.0
"""Devices per source above which an answer counts as one of few people."""


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
    challengers
        Settings without a majority that are said to be faster than the leader. Who believed the
        leader measured little else, so that a slow answer would confirm itself without them.
    crowded
        Whether the answer comes from few addresses with many devices each.
    """

    best: tuple[Standing, ...]
    sources: int
    devices: int
    dissent: float
    of_family: bool = False
    challengers: tuple[Standing, ...] = ()
    crowded: bool = False


def believe(ballots: Sequence[Ballot]) -> Belief | None:
    """The crowd's answer for one key; None while a shape would betray its few reporters.

    Settings are believed when :data:`FEWEST` sources that did not choose each other name them among
    their fastest, and these hold a majority of the weight.
    """
    sources = len({ballot.source for ballot in ballots})
    if sources < FEWEST:
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
    believed = [s for s in scores if independent[s] >= FEWEST and named[s] > MAJORITY * whole > 0]
    believed.sort(key=lambda s: (-scores[s], s))
    total = sum(scores.values())

    def standing(settings: str) -> Standing:
        figure = math.exp(weighted_median(figures[settings]))
        return Standing(settings, scores[settings] / total, figure, independent[settings])

    best = tuple(map(standing, believed[:TOP]))
    others = (standing(s) for s in scores if s not in believed and independent[s] >= 2)
    return Belief(
        best,
        sources,
        len(ballots),
        max(0.0, 1 - whole / sum(1 / n for n in _crowding(ballots))),
        challengers=_challengers(best, others),
        crowded=len(ballots) > CROWDED * sources,
    )


def _challengers(best: Sequence[Standing], others: Iterable[Standing]) -> tuple[Standing, ...]:
    """The others that claim more than every believed setting, the boldest first."""
    if not best:
        return ()
    bar = CHALLENGE * max(standing.speedup for standing in best)
    bolder = [standing for standing in others if standing.speedup > bar]
    return tuple(sorted(bolder, key=lambda s: (-s.speedup, s.settings))[:CHALLENGERS])


def two_levels(exact: Sequence[Ballot], family: Sequence[Ballot]) -> Belief | None:
    """What devices of this exact kind say; else what those of its family do."""
    own = believe(exact)
    if own is not None and own.best:
        return own
    wide = believe(family)
    if wide is None or not wide.best:
        return own or wide
    return replace(wide, of_family=True)


def _independent(voices: dict[str, float]) -> int:
    """Sources that still have a voice worth a tenth after their residuals."""
    return sum(1 for weight in voices.values() if weight > 0.1)


def _crowding(ballots: Sequence[Ballot]) -> list[int]:
    counts: dict[str, int] = defaultdict(int)
    for ballot in ballots:
        counts[ballot.source] += 1
    return [counts[ballot.source] for ballot in ballots]
