"""The paper's extended space: what the crowd found, to be checked here, and what it did not try."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnjit_studio.commons.rule.belief import Belief

TRUSTED_SCORE = 0.15
"""Share of the ranked votes from which on the leader needs no exploration beside it."""
_SHARE = 10
"""Where the answer is not sure, a tenth of the lite space is tried beside it."""
_CHALLENGED = 3
"""Challengers that one device tries: any that it draws, so that boasts cannot hide the others."""
_TOLERANCE = 0.1
"""May be missing of a promise: so much of its gain, and half as much of the default's speed."""


@dataclass(frozen=True)
class ExtendedSpace:
    """Candidates as settings, in the order in which a device tries them.

    ``exploitation`` is what the crowd believes. ``exploration`` is what is claimed to be faster
    without a majority, and, where the answer is not sure, a draw from the device's own lite space;
    it is empty where the best is known and nobody independent says otherwise.
    """

    exploitation: tuple[str, ...]
    exploration: tuple[str, ...]


def extended_space(
    lite: Sequence[str],
    belief: Belief | None,
    draw: Callable[[Sequence[str], int], Sequence[str]] = random.sample,
) -> ExtendedSpace:
    """What to try first on a device.

    Parameters
    ----------
    lite
        The device's lite space, the most promising first. Settings of the crowd that are not in
        it are left out: the device's own compiler says what it can build.
    draw
        Takes so many of a sequence. Every device takes others, so that a crowd sees them all.
    """
    here = set(lite)
    crowd = tuple(s.settings for s in belief.best if s.settings in here) if belief else ()
    if not crowd or belief is None:
        return ExtendedSpace((), tuple(lite))
    bolder = [s.settings for s in belief.challengers if s.settings in here]
    exploration = tuple(draw(bolder, min(len(bolder), _CHALLENGED)))
    trusted = belief.best[0].score >= TRUSTED_SCORE and not belief.of_family
    if not trusted or belief.crowded:
        rest = [s for s in lite if s not in crowd and s not in bolder]
        exploration += tuple(draw(rest, min(len(rest), max(1, len(lite) // _SHARE))))
    return ExtendedSpace(crowd, exploration)


def kept_promise(promised: float, measured: float) -> bool:
    """Whether settings gave here what the crowd said, so that no search of its own is needed.

    Parameters
    ----------
    promised, measured
        Speed-ups over the default: the crowd's, and this device's in turns.
    """
    return measured >= least_kept(promised)


def least_kept(promised: float) -> float:
    """The smallest speed-up over the default that keeps a promise."""
    return 1 + (promised - 1) * (1 - _TOLERANCE) - _TOLERANCE * 0.5
