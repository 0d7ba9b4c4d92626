"""The task scheduler: the workload of the next rounds, and the end of the search."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from nnjit_studio.errors import BugError
from nnjit_studio.model import Plan, Workload
from nnjit_studio.records import Kernel, KernelKey
from nnjit_studio.space.lite_space import SpaceEntry

MIN_ROUNDS = 10
"""Candidates that every tunable workload gets, if its space has them and a time limit allows."""
ROUNDS_A_TURN = 4
"""Rounds in a row for one workload: a change of workload sends a fixture to the page."""
FIRST_LOOK = 8
"""Candidates that a workload gets before its expected gain is trusted to be small."""
MIN_GAIN = 0.0003
"""A workload whose next candidate is expected to save a smaller share of its time is done.

A chance of one in a hundred of the least gain that is swapped in. On 480 synthetic spaces
with the spreads of ``cost_model.py`` and half as much again it leaves a mean regret of 0.3 %
after 11 rounds; 0.005 leaves 1.4 % after 8.
"""
MIN_MODEL_GAIN = 0.0001
"""The same as a share of the model's time."""


@dataclass
class WorkloadState:
    """What the session knows of one workload; it changes as rounds go by."""

    workload: Workload
    key: KernelKey
    default: Kernel
    """The default-schedule kernel."""
    incumbent: Kernel
    """The kernel that is registered now."""
    default_ms: float = 0.0
    """Median ms of one run of the default."""
    best_ms: float = 0.0
    """Median ms of one run of the incumbent."""
    best_gflops: float = 0.0
    """The highest rate at which any incumbent won. In a slower moment of the machine the next
    one may win with less: comparisons are interleaved."""
    log_rates: dict[str, float] = field(default_factory=dict)
    """Natural logarithm of GFLOP/s by settings, ``default`` too. Interleaved comparisons are
    chained from the first kernel on, so a drift of the machine does not enter."""
    speedup: tuple[float, float, float] | None = (1.0, 1.0, 1.0)
    """Of the incumbent over the default, and the ends of its interval: the products of those of
    the duels between; None where the database does not tell."""
    scale: float = 1.0
    """Of shown rates over those of ``log_rates``: another figure of the default than the stored one
    must not change what the search expects of stored candidates."""
    share: float = 0.0
    """Of the model's time with the default kernels, 0..1."""
    candidates: int = 0
    pending: list[SpaceEntry] = field(default_factory=list)
    """Entries of the lite space not yet tried, in its order."""
    exploit: list[SpaceEntry] = field(default_factory=list)
    """Those of them that won for something alike (paper section 5.3), best first."""
    measured: dict[str, str] = field(default_factory=dict)
    """sha256 of all bytes that were judged, and the settings they came from."""
    rounds: int = 0
    checked: bool = False
    """Whether the default kernel was compared with the reference: nothing is built on it before."""
    swept: bool = False
    """Whether the first round is over, which every workload gets in the beginning."""
    settled: bool = False
    """Whether what others found is as fast here as they said: nothing else is searched."""
    gain: float = 1.0
    """Share of its time that the best pending candidate is expected to save."""
    round_s: float = 0.0
    """The longest of its rounds so far."""

    @property
    def left(self) -> float:
        """Time that the workload takes now, as a share of the model's with default kernels."""
        return self.share / self.gained

    @property
    def gained(self) -> float:
        """Speed-up of the incumbent over the default, as the chain of duels tells it."""
        default = self.log_rates.get(self.default.settings, 0.0)
        return math.exp(self.log_rates.get(self.incumbent.settings, default) - default)

    @property
    def comparable_ms(self) -> float:
        """Ms of the incumbent, had it been measured when the default was."""
        return self.best_ms if self.speedup is None else self.default_ms / self.speedup[0]

    @property
    def priority(self) -> float:
        """Share of the model's time that the next round is expected to save."""
        return self.left * self.gain

    @property
    def tried(self) -> int:
        """Candidates that were judged, in this session or before."""
        return self.candidates - len(self.pending)

    @property
    def converged(self) -> bool:
        """Whether its expected gain is below the noise, or too small to show in the model."""
        if self.settled or not self.pending or self.left < MIN_MODEL_GAIN:
            return True
        if self.exploit or self.tried < FIRST_LOOK:
            return False
        return self.gain < MIN_GAIN or self.priority < MIN_MODEL_GAIN


def shares_of(plan: Plan, steps_ms: Sequence[float]) -> dict[str, float]:
    """Share of the model's time by workload key, from the ms of each ``call`` step.

    A step that the page's clock did not see took half as long as the shortest that it saw.

    Raises
    ------
    BugError
        When the page timed another number of steps than the plan has.
    """
    calls = [step.workload for step in plan.steps if step.op == "call"]
    if len(calls) != len(steps_ms):
        raise BugError(f"The page timed {len(steps_ms)} steps of a plan with {len(calls)}.")
    unseen = min(filter(None, steps_ms), default=1.0) / 2
    steps_ms = [ms or unseen for ms in steps_ms]
    total = sum(steps_ms)
    shares: dict[str, float] = defaultdict(float)
    for workload, ms in zip(calls, steps_ms, strict=True):
        shares[workload] += ms / total
    return dict(shares)


def next_turn(
    states: Sequence[WorkloadState], minimum: bool = False, exhaustive: bool = False
) -> WorkloadState | None:
    """The workload of the next turn, or None when tuning is over.

    First the sweep, a round for each in the order given, which no measured time
    enters; then the highest priority until all have converged.

    Parameters
    ----------
    states
        Most work first.
    minimum
        Go on after that until each has :data:`MIN_ROUNDS`.
    exhaustive
        Go on after that until no candidate is left; the sweep leaves out nobody.
    """
    hopeful = [s for s in states if not s.converged]
    sweep = [s for s in states if s.pending] if exhaustive else hopeful
    first = next((s for s in sweep if not s.swept), None)
    if first is not None:
        return first
    if not hopeful and minimum:
        hopeful = [s for s in states if s.pending and not s.settled and s.tried < MIN_ROUNDS]
    if not hopeful and exhaustive:
        hopeful = [s for s in states if s.pending]
    return max(hopeful, key=lambda s: s.priority, default=None)


def model_ms(before_ms: float, states: Sequence[WorkloadState]) -> float:
    """The model's time with the incumbents of now, estimated.

    Its time with default kernels, where each workload's share (a profile of
    the running model) has shrunk as its kernel has in interleaved comparisons.
    """
    return before_ms * (1 - sum(s.share - s.left for s in states))
