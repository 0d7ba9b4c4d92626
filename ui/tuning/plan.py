"""Rounds of the plan: other ways to import the model, each in turns with the one that runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from PySide6.QtCore import QTimer, Signal

from nnjit_studio.records.outcomes import WON
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.dock.candidates import state_column
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import JobTable
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.state.workload import MEASURING, NOT_TRIED
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column, OwnOrder
from nnjit_studio.workbench.phases import OnPhase
from nnjit_studio.workbench.plan_forms import tune_plan
from nnjit_studio.workbench.workbench import Workbench

JOB = "tune_plan"
EMPTY = (
    "No round yet: “Tune the plan” imports the model in other ways (Winograd or direct, merged Q, "
    "K and V, fused epilogues) and measures each in the running model."
)
REASONS = {"converged": "nothing is left to try", "time": "out of time", "cancelled": "stopped"}


@dataclass(frozen=True)
class PlanRow:
    """One way to import the model, one choice away from the one that ran."""

    way: str
    reason: str
    """Why it is tried."""
    state: str = NOT_TRIED
    round: int = 0
    speedup: float | None = None
    low: float = 0.0
    high: float = 0.0
    ms: float | None = None
    verdict: str = ""


@dataclass(frozen=True)
class PlanRun:
    """What is known of a session of rounds."""

    rows: tuple[PlanRow, ...] = ()
    end: ev.PlanSettled | None = None

    @property
    def won(self) -> bool:
        """Whether the model runs in another form now."""
        return any(row.state == WON for row in self.rows)

    def after(self, event: ev.Event) -> PlanRun:
        """The same with an event of :func:`tune_plan`."""
        if isinstance(event, ev.SpaceBuilt):
            known = {row.way for row in self.rows if row.round}
            new = zip(event.candidates, event.reasons, strict=True)
            kept = tuple(row for row in self.rows if row.round)
            return PlanRun((*kept, *(PlanRow(way, why) for way, why in new if way not in known)))
        if isinstance(event, ev.Trying):
            return self._with(event.candidate, state=MEASURING)
        if isinstance(event, ev.Measured):
            there = {"speedup": event.speedup or None, "ms": event.ms or None}
            ends = {"low": event.speedup_low, "high": event.speedup_high}
            number = 1 + sum(row.round > 0 for row in self.rows)
            return self._with(
                event.candidate, state=event.state, verdict=event.reason, round=number,
                **there, **ends,
            )  # fmt: skip
        return replace(self, end=event) if isinstance(event, ev.PlanSettled) else self

    def _with(self, way: str, **facts: object) -> PlanRun:
        rows = (replace(r, **facts) if r.way == way else r for r in self.rows)  # type: ignore[arg-type]
        return replace(self, rows=tuple(rows))


def _interval(row: PlanRow) -> str:
    return f"{row.low:.2f} to {row.high:.2f}" if row.high else ""


COLUMNS = (
    Column("round", lambda r: r.round or None, lambda v: "" if v is None else str(v), True,
           width=52),
    Column("way to import", lambda r: r.way, width=210, middle=True),
    state_column(124),
    Column("speed-up", lambda r: r.speedup, lambda v: "" if v is None else f"{v:.2f}", True,
           "of the whole model, in turns with the way that ran", 72),
    Column("interval", _interval, width=100),
    Column("model", lambda r: r.ms, lambda v: "" if v is None else text.time(v), True, width=78),
    Column("why it is tried", lambda r: r.reason, width=240),
    Column("verdict", lambda r: r.verdict, width=320),
)  # fmt: skip


class PlanPanel(JobTable):
    """The rounds in their order, live; where one has won the model is opened again in its form."""

    result: PlanRun | None
    told = Signal(object)
    """``PlanRun``: From the thread of the rounds; the last may come after the job's end."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, "Plan", COLUMNS, JOB, EMPTY)
        own = OwnOrder()
        own.setSourceModel(self.model)
        self.proxy = own
        self.view.setModel(own)
        self.view.setSortingEnabled(False)
        self.view.selectionModel().selectionChanged.connect(self._pick)
        self.filter.hide()
        self._host, self._reopens = host, False
        self.told.connect(self.show_result)

    def begin(self) -> bool:
        """Measure the choices of the plan; False when another job runs."""
        self.show_result(PlanRun())
        return self._session.run(Job(JOB, "Tuning the plan", self._rounds))

    def _rounds(self, bench: Workbench, tell: OnPhase) -> PlanRun:
        run = PlanRun()
        rounds: Iterable[ev.Event] = bench.run(tune_plan)
        for event in rounds:
            if isinstance(event, ev.Trying):
                tell(f"the plan: {event.candidate}")
            run = run.after(event)
            self.told.emit(run)
        return run

    def fill(self) -> None:
        rows = sorted(self.result.rows if self.result else (), key=lambda row: row.round or 1 << 30)
        self.model.set_rows(rows)

    def sentence(self) -> str:
        run = self.result
        if run is None or run.end is None:
            return "Measuring other ways to import the model."
        end = run.end
        gain = f", {end.speedup:.2f}x" if end.speedup > 1 else ""
        return (
            f"{REASONS.get(end.reason, end.reason).capitalize()}: the best of {end.tried} of "
            f"{end.ways} known ways is in use{gain}."
        )

    def _done(self, job: str, result: object) -> None:
        if job == "open" and self._reopens:
            self._reopens = False
            return
        if job == JOB and result is None:  # it failed: what it told stays
            result = self.result
        super()._done(job, result)
        if job == JOB and self.result is not None and self.result.won:
            QTimer.singleShot(0, self, self._open_again)

    def _open_again(self) -> None:
        """The graph and the kernels to tune are those of the form that has won."""
        model = self._session.state.model
        if model is not None:
            feeds = dict(self._session.workbench.model.feeds)
            self._reopens = self._session.open(model.path, lambda _: feeds)
