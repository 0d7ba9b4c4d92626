"""What became of a candidate, in words that events, the database and every view share."""

from __future__ import annotations

WON = "won"
"""Proven faster by enough: it replaced the incumbent of its duel."""
FASTER = "faster"
"""Proven faster, by too little to be worth a swap."""
SLOWER = "slower"
"""Proven slower."""
NOT_TOLD_APART = "not told apart"
"""The interval of the speed-up holds 1."""
COMPARED = (WON, FASTER, SLOWER, NOT_TOLD_APART)
"""States of right kernels that met the incumbent in a duel."""
TIMED = (*COMPARED, "default")
"""States of right kernels whose time is known."""
STATES = (*TIMED, "wrong", "impossible", "failed", "duplicate")
"""All of them."""


def outcome_of(low: float, high: float) -> str:
    """Which of three outcomes the interval of a speed-up shows; 0 to 0 is no interval."""
    if low > 1:
        return FASTER
    return SLOWER if 0 < high < 1 else NOT_TOLD_APART


LIKELY_GAIN, UNDECIDED_FROM = 1.03, 1.25
"""A speed-up that is worth a swap, and the upper end of its interval from which noise hides it."""


def is_undecided(state: str, speedup: float, high: float) -> bool:
    """Whether a candidate seems faster by enough, and noise alone kept that from being shown."""
    return state == NOT_TOLD_APART and speedup >= LIKELY_GAIN and high > UNDECIDED_FROM


def shown_outcome(state: str) -> str:
    """The outcome of a state for people, to whom a winner is one that is faster."""
    return FASTER if state == WON else state
