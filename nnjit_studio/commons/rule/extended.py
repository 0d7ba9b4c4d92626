"""The paper's extended space: what the crowd found, to be checked here, and what it did not try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.commons.rule.belief import Belief

TRUSTED_SCORE = 0.15
"""Share of the ranked votes from which on the leader needs no exploration beside it."""
_SHARE = 10
"""The extended space is about a tenth of the lite space."""


@dataclass(frozen=True)
class ExtendedSpace:
    """Candidates as settings, in the order in which a device tries them.

    ``exploitation`` is from the crowd, ``exploration`` from the device's own lite space; the
    latter is empty where the best is known.
    """

    exploitation: tuple[str, ...]
    exploration: tuple[str, ...]


def extended_space(lite: Sequence[str], belief: Belief | None) -> ExtendedSpace:
    """What to try first on a device.

    Parameters
    ----------
    lite
        The device's lite space, the most promising first. Settings of the crowd that are not in
        it are left out: the device's own compiler says what it can build.
    """
    here = set(lite)
    crowd = tuple(s.settings for s in belief.best if s.settings in here) if belief else ()
    if not crowd or belief is None:
        return ExtendedSpace((), tuple(lite))
    if belief.best[0].score >= TRUSTED_SCORE and not belief.of_family:
        return ExtendedSpace(crowd, ())
    rest = [settings for settings in lite if settings not in crowd]
    return ExtendedSpace(crowd, tuple(rest[: max(1, len(lite) // _SHARE)]))


def kept_promise(promised: float, measured: float, tolerance: float = 0.1) -> bool:
    """Whether settings gave here what the crowd said, so that no search of its own is needed.

    Parameters
    ----------
    promised, measured
        Speed-ups over the default: the crowd's, and this device's in turns.
    """
    return measured >= 1 + (promised - 1) * (1 - tolerance) - tolerance * 0.5
