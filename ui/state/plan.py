"""Rounds of the plan, seen as those of a workload that is the whole model. Knows no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnjit_studio.model import Workload
from nnjit_studio.records.outcomes import WON
from nnjit_studio.tuner import events as ev
from nnjit_studio.tuner.plan.rounds import KIND
from nnjit_studio.ui.state.workload import MEASURING, NOT_TRIED, CandidateRow, WorkloadProgress
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.live import times

PLAN = KIND
"""Stands for the plan where views name workloads by their keys."""
MODEL = Workload(PLAN, (), "", tunable=True)
"""In the place of a workload."""
LATER = 1 << 30


def is_plan(event: ev.Event) -> bool:
    """Whether an event is of rounds of the plan, and of no workload."""
    of = getattr(event, "workload", "")
    return isinstance(event, ev.PlanSettled) or of.startswith(f"{KIND}:")


@dataclass(frozen=True)
class PlanRow(CandidateRow):
    """One way to import the model, one choice away from the one that ran."""

    round: int = 0
    """0 before it was tried."""


@dataclass
class PlanProgress(WorkloadProgress):
    """Ways to import the model, in the place of candidates; a winner brings others."""

    workload: Workload = MODEL
    candidates: dict[str, CandidateRow] = field(default_factory=dict)
    end: ev.PlanSettled | None = None
    gain: Interval | None = None
    """Of all winners together, over the form that ran first; None before one has won."""

    def rows(self) -> list[CandidateRow]:
        """In the order in which they were tried, then those that were not."""
        return sorted(super().rows(), key=lambda row: getattr(row, "round", 0) or LATER)

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.PlanSettled():
                self.end = event
            case ev.Trying():
                self.update(event.candidate, state=MEASURING)
            case ev.SpaceBuilt():
                self._add(dict(zip(event.candidates, event.reasons, strict=True)))
                self.naive_size, self.known = event.naive_size, event.known
            case _:
                super().take(event)
        if isinstance(event, ev.RoundDone):
            self.update(event.candidate, round=event.round)
        elif isinstance(event, ev.Measured) and event.state == WON:
            won = Interval(event.speedup, event.speedup_low, event.speedup_high)
            self.gain = times(self.gain, won) if self.gain else won

    def _add(self, reasons: Mapping[str, str]) -> None:
        """Ways that are one choice away now; of those that were not tried, others no more are."""
        tried = {way: row for way, row in self.candidates.items() if row.state != NOT_TRIED}
        new = {way: PlanRow(way, reason=why) for way, why in reasons.items() if way not in tried}
        self.candidates = tried | new
