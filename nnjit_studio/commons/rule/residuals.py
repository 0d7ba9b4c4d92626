"""How much a ballot weighs: less, the further its figures are from what the others measured.

Nobody is banned by name: a new name costs nothing. The figures themselves lose weight, in one
aggregate, and every report is kept.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from nnjit_studio.commons.rule.ballot import Ballot

_SPREAD = 0.05
"""Difference of logarithms that noise alone gives: such a residual halves a weight."""
_PASSES = 4


def weights_of(ballots: Sequence[Ballot]) -> list[float]:
    """One weight per ballot, from 0 to 1; those of one source add up to 1 at most.

    A weight starts as the source's share. Then, a few times over: the crowd's figure of each
    setting is the weighted median of the logarithms of its speed-ups, and a ballot keeps
    ``1 / (1 + (r / spread)^2)`` of its share, where r is the median distance of its figures from
    the crowd's. Copies, which measured times never are, share one voice.
    """
    shares = _shares(ballots)
    weights = list(shares)
    for _ in range(_PASSES):
        crowd = _consensus(ballots, weights)
        weights = [
            share / (1 + (_residual(ballot, crowd) / _SPREAD) ** 2)
            for share, ballot in zip(shares, ballots, strict=True)
        ]
    return weights


def _shares(ballots: Sequence[Ballot]) -> list[float]:
    sources = Counter(ballot.source for ballot in ballots)
    copies = Counter(ballot.ranked for ballot in ballots)
    return [1 / max(sources[b.source], copies[b.ranked]) for b in ballots]


def _consensus(ballots: Sequence[Ballot], weights: Sequence[float]) -> dict[str, float]:
    """Weighted median of the logarithms, of each setting that two ballots name."""
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for ballot, weight in zip(ballots, weights, strict=True):
        for settings, speedup in ballot.ranked:
            figures[settings].append((math.log(speedup), weight))
    return {name: weighted_median(given) for name, given in figures.items() if len(given) > 1}


def weighted_median(figures: Sequence[tuple[float, float]]) -> float:
    """The figure that half of the weight is at or below."""
    half = sum(weight for _, weight in figures) / 2
    below = 0.0
    for figure, weight in sorted(figures):
        below += weight
        if below >= half:
            return figure
    return max(figures)[0]


def _residual(ballot: Ballot, crowd: dict[str, float]) -> float:
    """Median distance from the crowd; of settings that nobody else names there is none."""
    distances = sorted(abs(math.log(f) - crowd[s]) for s, f in ballot.ranked if s in crowd)
    return distances[len(distances) // 2] if distances else 0.0
