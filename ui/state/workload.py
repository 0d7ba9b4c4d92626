"""One workload of a session: its candidates, what became of them, and its rounds. Knows no Qt."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from nnjit_studio.model import Workload
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.outcomes import FASTER, shown_outcome
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.rounds import RoundPoint, Rounds

NOT_TRIED, MEASURING, INCUMBENT = "not tried", "measuring", "incumbent"
INVALID, TIMED_OUT = "invalid", "timed out"
"""States of a failed candidate: it could not be built, or did not end."""
FROM_DATABASE = "known from the database"
_LIMIT = re.compile(r"\bwithin [\d.]+ s\b")  # as in the errors of page and compiler


@dataclass(frozen=True)
class CandidateRow:
    """One line of the lite space; ``None`` where nothing was measured yet."""

    settings: str
    state: str = NOT_TRIED
    reason: str = ""
    verdict: str = ""
    gflops: float | None = None
    ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None


@dataclass
class WorkloadProgress:
    """Everything that this session knows of one workload."""

    workload: Workload
    rank: int = 0
    share: float | None = None
    candidates: dict[str, CandidateRow] = field(default_factory=dict)
    naive_size: int = 0
    known: int = 0
    incumbent: str = ""
    tried: int = 0
    rounds: Rounds = field(default_factory=Rounds)

    @property
    def weight(self) -> float:
        """For sorting: share of model time, or of its FLOPs before any profile."""
        return self.share if self.share is not None else self.workload.flops * self.workload.uses

    def rows(self) -> list[CandidateRow]:
        """The candidates in order, the incumbent marked."""
        return [
            replace(row, state=INCUMBENT) if row.settings == self.incumbent else row
            for row in self.candidates.values()
        ]

    @property
    def total(self) -> int:
        """Candidates of the lite space."""
        return len(self.candidates) - (DEFAULT_SETTINGS in self.candidates)

    def update(self, settings: str, **changes: object) -> None:
        row = self.candidates.get(settings)
        if row is None:
            reason = "default schedule" if settings == DEFAULT_SETTINGS else "known before"
            row = CandidateRow(settings, reason=reason)
        self.candidates[settings] = new = replace(row, **changes)  # type: ignore[arg-type]
        if settings != DEFAULT_SETTINGS:
            self.tried += _has_verdict(new) - _has_verdict(row)

    def take(self, event: ev.Event) -> None:
        """Take an event of this workload in."""
        match event:
            case ev.SpaceBuilt():
                self._build(event)
            case ev.Compiled() if event.error:
                state = shown_state("failed", event.error, built=False)
                self.update(event.candidate, state=state, verdict=event.error)
            case ev.Compiled():
                self.update(event.candidate, state=MEASURING)
            case ev.Measured():
                self._measure(event)
            case ev.Swapped():
                self._swap(event)
            case ev.RoundDone():
                point = (event.round, event.t_s, event.candidate, event.gflops, event.best_gflops)
                self.rounds.append(RoundPoint(*point))

    def settle(self) -> None:
        """A candidate that was compiled but not measured when the session ended was not tried."""
        for settings, row in self.candidates.items():
            if row.state == MEASURING:
                self.update(settings, state=NOT_TRIED)

    def _build(self, event: ev.SpaceBuilt) -> None:
        self.candidates = {
            settings: CandidateRow(settings, reason=reason)
            for settings, reason in zip(event.candidates, event.reasons, strict=True)
        }
        self.tried = 0
        for result in event.results:
            self.update(
                result.candidate,
                state=shown_state(result.state, ""),
                verdict=FROM_DATABASE,
                gflops=result.gflops or None,
                ms=result.ms or None,
                speedup=result.speedup or None,
                speedup_low=result.speedup_low or None,
                speedup_high=result.speedup_high or None,
            )
        self.naive_size, self.known = event.naive_size, event.known

    def _measure(self, event: ev.Measured) -> None:
        row = self.candidates.get(event.candidate)
        built = row is None or row.state != INVALID
        self.update(
            event.candidate,
            state=shown_state(event.state, event.reason, built),
            verdict=event.reason,
            gflops=event.gflops if event.ms else None,
            ms=event.ms or None,
            speedup=event.speedup or None,
            speedup_low=event.speedup_low or None,
            speedup_high=event.speedup_high or None,
        )

    def _swap(self, event: ev.Swapped) -> None:
        row = self.candidates.get(event.candidate)
        if row is None or row.gflops is None:
            verdict = FROM_DATABASE if event.from_database else ""
            self.update(event.candidate, state=FASTER, gflops=event.gflops, verdict=verdict)
        self.incumbent = event.candidate


def _has_verdict(row: CandidateRow) -> bool:
    return row.state not in (NOT_TRIED, MEASURING)


def shown_state(state: str, reason: str, built: bool = True) -> str:
    """The state of a verdict; for a failure its kind, where that is known."""
    if state != "failed":
        return shown_outcome(state)
    return TIMED_OUT if _LIMIT.search(reason) else state if built else INVALID
