"""What is known of a live session: candidates, rates, answers, the end. Knows no Qt."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

from nnjit_studio.foreign_wasm.live.events import Answers, Rated
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.gain import UNCHANGED
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.records.outcomes import WON
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.rounds import RoundPoint, Rounds
from nnjit_studio.ui.state.workload import INCUMBENT, MEASURING, NOT_TRIED
from nnjit_studio.ui.widgets import text

OWN = "ONNX Runtime's own kernels"
PROVEN = "proven"
"""State of a candidate that gives the original's results and has met nothing yet."""


@dataclass(frozen=True)
class Row:
    """A candidate; rates in GFLOP/s, None where they are not known.

    Attributes
    ----------
    alone
        Of its products on memory of their own.
    gflops
        Of the runtime's whole inferences in its heats.
    against
        Whom it met there.
    """

    settings: str
    state: str = NOT_TRIED
    alone: float | None = None
    gflops: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    against: str = ""
    why: str = ""

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """Rows and columns of the tile, unroll; None of the runtime's own kernels."""
        if self.settings == DEFAULT_SETTINGS:
            return None
        candidate = parse_candidate(self.settings)
        return candidate.y0, candidate.x0, candidate.r0


def name_of(settings: str) -> str:
    """A kernel in few words: ``4x8, unroll 2``."""
    shape = Row(settings).shape
    if shape is None:
        return OWN
    rows, columns, unroll = shape
    return f"{rows}x{columns}" + f", unroll {unroll}" * (unroll > 1)


class LiveState:
    """Follows the events of one session.

    Attributes
    ----------
    serving
        Settings of the kernels that serve now.
    swaps
        How often they were exchanged.
    phase
        What is done now.
    committed
        Results that are in the database.
    won
        Settings that the next session begins with; empty where nothing has won.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.rounds = Rounds()
        self.serving, self.swaps, self.committed = DEFAULT_SETTINGS, 0, 0
        self.from_database = False
        self.won = ""
        self.answers: Answers | None = None
        self.phase = "Starting the browser and opening the model"
        self.target: dict[str, object] = {}
        self.summary: ev.Finished | None = None
        self._rates: list[float] = []

    def take(self, event: ev.Event) -> None:
        """Note one event."""
        match event:
            case ev.SessionStarted():
                self.target, self.phase = event.target, "Timing ONNX Runtime's own kernels"
            case ev.SpaceBuilt():
                self.rows = {s: Row(s) for s in (DEFAULT_SETTINGS, *event.candidates)}
                self._change(DEFAULT_SETTINGS, state=INCUMBENT)
            case ev.Trying(phase="check"):
                self._try(event.candidate, "Proving")
            case ev.Trying(phase="duel"):
                self._try(event.candidate, "Inferences in turns:")
            case Rated():
                for settings, rate in event.gflops.items():
                    self._change(settings, alone=rate)
            case Answers():
                self._answered(event)
            case ev.Measured():
                self._measured(event)
            case ev.Swapped():
                self._swapped(event)
            case ev.RoundDone():
                self._point(event.t_s, event.candidate, event.gflops)
            case ev.ModelCompared():
                self.phase = "Winner and ONNX Runtime's own kernels in turns"
            case ev.Finished():
                self.summary, self.phase = event, "Done"

    def _try(self, settings: str, phase: str) -> None:
        self.phase = f"{phase} {name_of(settings)}"
        if settings in self.rows and settings != self.serving:
            self._change(settings, state=MEASURING)

    def _answered(self, event: Answers) -> None:
        self.answers = event
        for row in list(self.rows.values()):
            if row.state == MEASURING:
                self._change(row.settings, state=PROVEN)
        if event.gflops:
            self._rates.append(event.gflops)
            self._point(event.t_s, self.serving, event.gflops)

    def _measured(self, event: ev.Measured) -> None:
        self.committed += 1
        if event.state == WON:
            self.won = event.candidate
        if not event.samples_ms:
            self._change(event.candidate, state=event.state, why=event.reason)
            return
        met = DEFAULT_SETTINGS if event.candidate == self.serving else self.serving
        self._change(
            event.candidate, state=event.state, gflops=event.gflops, speedup=event.speedup,
            low=event.speedup_low, high=event.speedup_high, against=name_of(met),
        )  # fmt: skip

    def _swapped(self, event: ev.Swapped) -> None:
        before, self.serving = self.serving, event.candidate
        self.swaps += 1
        self.from_database = self.from_database or event.from_database
        if event.from_database:
            self.won = event.candidate
        self._rates = [event.gflops]
        if before in self.rows and self.rows[before].state == INCUMBENT:
            self._change(before, state="default" if before == DEFAULT_SETTINGS else PROVEN)

    def _point(self, t_s: float, settings: str, gflops: float) -> None:
        serving = statistics.median(self._rates)
        count = len(self.rounds) + 1
        self.rounds.append(RoundPoint(count, t_s, name_of(settings), gflops, serving))

    def _change(self, settings: str, **changes: object) -> None:
        old = self.rows.get(settings, Row(settings))
        self.rows[settings] = replace(old, **changes)  # type: ignore[arg-type]

    def shown_rows(self) -> list[Row]:
        """All candidates; what serves has that as its state."""
        return [
            replace(row, state=INCUMBENT) if row.settings == self.serving else row
            for row in self.rows.values()
        ]

    def facts(self, running: bool) -> str:
        """What serves, or served at the end, swaps and answers, in a line."""
        if self.answers is None:
            return ""
        wrong = f"{self.answers.wrong} wrong" if self.answers.wrong else "none wrong"
        known = " (known from an earlier session)" * self.from_database
        swaps = text.counted(self.swaps, "swap")
        return (
            f"{'Serves now' if running else 'Served at the end'}: {name_of(self.serving)}{known}.  "
            f"{swaps}.  "
            f"{self.answers.runs:,} answers compared, {wrong}."
        )

    def result(self) -> str:
        """What the session is worth; empty before its end."""
        if self.summary is None:
            return ""
        ms, gain = self.summary.model_ms, self.summary.gain
        if gain.outcome == UNCHANGED:
            return (
                f"No kernel was proven faster in this time: {OWN} serve, {text.time(ms['after'])}."
            )
        return (
            f"{text.time(ms['before'])} with {OWN}, {text.time(ms['after'])} with "
            f"{name_of(self.serving)}: {gain}."
        )

    def remembered(self, why_not_kept: str) -> str:
        """What the database holds of it."""
        results = text.counted(self.committed, "result")
        if why_not_kept:
            return f"{results}, not kept: {why_not_kept}"
        if not self.won:
            begins = "No kernel has won, so the next session begins anew."
            return f"{results} in the kernel database. {begins}"
        engine, threads = self.target.get("target", "the browser"), self.target.get("threads", 1)
        return (
            f"{results} in the kernel database. The next session of this model in {engine} with "
            f"{threads} thread{'s' * (threads != 1)} begins with {name_of(self.won)}."
        )
