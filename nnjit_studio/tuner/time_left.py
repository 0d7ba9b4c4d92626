"""The time that a session still takes: expected rounds, by how long rounds took so far."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

from nnjit_studio.tuner.search.task_scheduler import (
    FIRST_LOOK,
    MIN_ROUNDS,
    ROUNDS_A_TURN,
    WorkloadState,
)
from nnjit_studio.tuner.session_clock import SessionClock

LEAST_ROUNDS = 4
"""Fewer tell nothing: the first ones build the team of workers and fill the caches."""
KEPT_ROUNDS = 24
"""Rounds whose mean counts: later workloads are smaller, and their rounds shorter."""


class RoundClock:
    """Learns how long a round takes, with all that happens between two of them."""

    def __init__(self) -> None:
        self._ends_s: deque[float] = deque(maxlen=KEPT_ROUNDS)

    def note(self, t_s: float) -> None:
        """A round ended; ``t_s`` as in events, so that pauses do not count."""
        self._ends_s.append(t_s)

    def seconds(self, rounds: int) -> float | None:
        """Expected of so many rounds; None while too few are known."""
        if not rounds:
            return 0.0
        if len(self._ends_s) < LEAST_ROUNDS:
            return None
        return rounds * (self._ends_s[-1] - self._ends_s[0]) / (len(self._ends_s) - 1)


def rounds_left(states: Sequence[WorkloadState], minimum: bool, exhaustive: bool) -> int:
    """Rounds that are expected before ``task_scheduler.next_turn`` finds nothing left to gain.

    A workload is expected to converge after as many candidates as those did that have, and
    not within its next turn.
    """
    done = [s.tried for s in states if s.converged and s.swept]
    usual = math.ceil(statistics.median(done)) if done else FIRST_LOOK + ROUNDS_A_TURN

    def expected(state: WorkloadState) -> int:
        if exhaustive:
            return len(state.pending)
        if not state.converged:
            return max(usual - state.tried, ROUNDS_A_TURN)
        return max(MIN_ROUNDS - state.tried, 0) if minimum else 0

    return sum(min(len(s.pending), expected(s)) for s in states)


def seconds_left(
    states: Sequence[WorkloadState], clock: SessionClock, rounds: RoundClock, exhaustive: bool
) -> float | None:
    """Seconds to the summary: by the rounds that are expected, at most by the budget."""
    limit_s = clock.left_s()
    rounds_s = rounds.seconds(rounds_left(states, limit_s is not None, exhaustive))
    if rounds_s is None:
        return None
    left_s = rounds_s + clock.timing_s
    return left_s if limit_s is None else min(left_s, limit_s)
