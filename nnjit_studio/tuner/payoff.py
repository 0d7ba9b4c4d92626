"""Which workload the next rounds go to, and which of its candidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from nnjit_studio.errors import BugError
from nnjit_studio.graph import Plan, Workload
from nnjit_studio.space.candidate import Candidate
from nnjit_studio.space.lite_space import SpaceEntry
from nnjit_studio.space.records import Kernel, KernelKey

MIN_ROUNDS = 10
"""Rounds that every tunable workload gets, if its space has them and time allows."""
ROUNDS_A_TURN = 5
"""Rounds in a row for one workload: a change of workload sends a fixture to the page."""
FIRST_GAIN = 0.5
"""Share of its time that an untuned kernel is expected to lose in the next rounds."""
DECAY = 0.85
"""What is left of that hope after each round without a swap."""


@dataclass
class WorkloadState:
    """What the session knows of one workload; it changes as rounds go by.

    Attributes
    ----------
    share
        Of the model's time with the default kernels, 0..1.
    default, incumbent
        The default-schedule kernel, and the one registered now.
    default_ms, best_ms
        Median ms of one run of each.
    best_gflops
        The highest rate at which any incumbent won. In a slower moment of the
        machine the next one may win with less: comparisons are interleaved.
    pending
        Entries of the lite space not yet tried, in its order.
    measured
        sha256 of all bytes with an outcome, and the settings they came from.
    since_win
        Rounds since the last swap, all rounds at first.
    """

    workload: Workload
    key: KernelKey
    default: Kernel
    incumbent: Kernel
    default_ms: float = 0.0
    best_ms: float = 0.0
    best_gflops: float = 0.0
    share: float = 0.0
    candidates: int = 0
    pending: list[SpaceEntry] = field(default_factory=list)
    measured: dict[str, str] = field(default_factory=dict)
    rounds: int = 0
    since_win: int = 0

    @property
    def payoff(self) -> float:
        """Share of model time expected to be saved: what is left of it x expected gain."""
        left = self.share * (self.best_ms / self.default_ms if self.default_ms else 1.0)
        return left * FIRST_GAIN * float(DECAY**self.since_win)


def shares_of(plan: Plan, steps_ms: Sequence[float]) -> dict[str, float]:
    """Share of the model's time by workload key, from the ms of each ``call`` step.

    Raises
    ------
    BugError
        When the page timed another number of steps than the plan has.
    """
    calls = [step.workload for step in plan.steps if step.op == "call"]
    if len(calls) != len(steps_ms):
        raise BugError(f"The page timed {len(steps_ms)} steps of a plan with {len(calls)}.")
    total = sum(steps_ms)
    shares: dict[str, float] = defaultdict(float)
    for workload, ms in zip(calls, steps_ms, strict=True):
        shares[workload] += ms / total if total else 0.0
    return dict(shares)


def next_turn(states: Sequence[WorkloadState]) -> WorkloadState | None:
    """The workload of highest payoff, those below :data:`MIN_ROUNDS` first; None at the end."""
    open_states = [s for s in states if s.pending]
    if not open_states:
        return None
    return max(open_states, key=lambda s: (s.rounds < MIN_ROUNDS, s.payoff))


def take_candidates(state: WorkloadState, count: int) -> list[Candidate]:
    """Remove the next candidates from ``state.pending`` and return them.

    Every tile's first choice in the order of the space; after these, the
    variations of the incumbent's tile, then all others.
    """
    best = state.incumbent.candidate

    def rank(entry: SpaceEntry) -> tuple[bool, bool]:
        c = entry.candidate
        other_tile = best is None or (c.x0, c.y0) != (best.x0, best.y0)
        return (bool(entry.varies), bool(entry.varies) and other_tile)

    state.pending.sort(key=rank)
    taken, state.pending = state.pending[:count], state.pending[count:]
    return [entry.candidate for entry in taken]
