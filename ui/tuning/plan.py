"""Rounds of the plan: other ways to import the model, each in turns with the one that runs."""

from __future__ import annotations

from PySide6.QtCore import QTimer

from nnjit_studio.ui.dock.candidates import state_column
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import JobTable
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.state.plan import PlanProgress
from nnjit_studio.ui.tuning.space import interval
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column
from nnjit_studio.workbench.plan_forms import tune_plan

JOB = "tune_plan"
EMPTY = (
    "No round yet: “Tune the plan” imports the model in other ways (Winograd or direct, merged Q, "
    "K and V, fused epilogues) and measures each in the running model."
)
REASONS = {"converged": "nothing is left to try", "time": "out of time", "cancelled": "stopped"}

COLUMNS = (
    Column("round", lambda r: r.round or None, lambda v: "" if v is None else str(v), True,
           width=52),
    Column("way to import", lambda r: r.settings, width=210, middle=True),
    state_column(124, "incumbent: the way that runs now"),
    Column("speed-up", lambda r: r.speedup, lambda v: "" if v is None else f"{v:.2f}", True,
           "of the whole model, in turns with the way that ran", 72),
    Column("interval", interval, width=100),
    Column("model", lambda r: r.ms, lambda v: "" if v is None else text.time(v), True, width=78),
    Column("why it is tried", lambda r: r.reason, width=240),
    Column("verdict", lambda r: r.verdict, width=320),
)  # fmt: skip


class PlanPanel(JobTable):
    """The rounds in their order, live; where one has won the model is opened again in its form."""

    result: PlanProgress | None

    def __init__(self, host: Host) -> None:
        super().__init__(host, "Plan", COLUMNS, JOB, EMPTY)
        self.keep_order(self._pick)
        self.show_result(self._session.state.plan)

    def begin(self, seconds: float | None) -> bool:
        """Measure the choices of the plan for so long; False when another job runs."""
        begun = self._session.run(
            Job(JOB, "Tuning the plan", lambda bench, _: bench.run(tune_plan, seconds))
        )
        if begun:
            self._session.state.begin_plan()
            self._session.refresh()
        return begun

    def refresh(self, changes: frozenset[str]) -> None:
        plan = self._session.state.plan
        if self._session.busy == JOB or plan is not self.result:
            self.show_result(plan)
        super().refresh(changes)

    def fill(self) -> None:
        self.model.set_rows(self.result.rows() if self.result else ())

    def sentence(self) -> str:
        end = self.result.end if self.result else None
        if end is None:
            return "Measuring other ways to import the model."
        gain = f", {end.speedup:.2f}x" if end.speedup > 1 else ""
        return (
            f"{REASONS.get(end.reason, end.reason).capitalize()}: the best of {end.tried} of "
            f"{end.ways} known ways is in use{gain}."
        )

    def _done(self, job: str, result: object) -> None:
        plan = self._session.state.plan
        super()._done(job, plan if job == JOB else result)
        if job == JOB and plan is not None and plan.incumbent:
            QTimer.singleShot(0, self, self._open_again)
        elif job == "open":
            self.show_result(plan)

    def _open_again(self) -> None:
        """The graph and the kernels to tune are those of the form that has won."""
        model = self._session.state.model
        if model is not None:
            feeds = dict(self._session.workbench.model.feeds)
            self._session.open(model.path, lambda _: feeds)
