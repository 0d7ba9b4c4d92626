"""What tuning is worth to a whole model, as every view states it."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.records.estimate import Ratio
from nnjit_studio.records.outcomes import NOT_TOLD_APART

UNCHANGED = "unchanged"
"""No kernel was replaced."""
NOT_COMPARED = "not compared"
"""Too few pairs for an interval: the model is slow, it serves, or time was short."""
TOO_BUSY = "machine too busy"
"""The sentinel forbids a ratio."""


@dataclass(frozen=True)
class ModelGain:
    """How many times as fast the tuned model is as the untuned one, both run in turns.

    ``outcome`` is ``faster``, ``slower``, ``not told apart``, or why there is no ratio.
    """

    outcome: str = NOT_COMPARED
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    machine: float | None = None
    """Share of its usual rate that the machine gave, 0 to 1; None where nobody looked."""

    @classmethod
    def of(cls, ratio: Ratio, machine: float | None = None) -> ModelGain:
        """Of pairs; without enough of them it is not compared."""
        if not ratio.known:
            return cls(NOT_COMPARED, pairs=ratio.pairs, machine=machine)
        return cls(ratio.outcome, ratio.value, ratio.low, ratio.high, ratio.pairs, machine)

    @property
    def told_apart(self) -> bool:
        """Whether a ratio may be shown as a gain or a loss."""
        return self.ratio is not None and self.outcome != NOT_TOLD_APART

    @property
    def interval(self) -> str:
        """``1.21 to 1.29``; empty without one."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.low:.2f} to {self.high:.2f}"

    def __str__(self) -> str:
        if self.told_apart:
            return f"{self.ratio:.2f}x ({self.interval})"
        return f"{self.outcome} ({self.interval})" if self.interval else self.outcome
