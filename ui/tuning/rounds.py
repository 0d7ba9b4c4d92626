"""GFLOP/s per tuning round: every candidate as a dot, the best so far as a line."""

from __future__ import annotations

from collections.abc import Mapping

from nnjit_studio.model.readable import words_of
from nnjit_studio.ui.dock.job_table import OPENING
from nnjit_studio.ui.dock.rates_plot import LEGEND_ROWS, Items, RatesPlot
from nnjit_studio.ui.state.plan import PLAN
from nnjit_studio.ui.state.rounds import Rounds
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.panel import chooser
from nnjit_studio.ui.widgets.plots.panel import brush, pen
from nnjit_studio.ui.widgets.theme import Theme, series_style

ALL, SELECTED, MODEL = "all workloads", "selected workload", "whole model"
BEHIND, FRONT = 2, 3
LONGEST = 46
"""Characters of a name in the legend: what the narrowest column has room for."""
MEANING = "Every measured candidate becomes a dot here, the best so far a line."


def next_step(session: StudioSession) -> str:
    """What is to be done, or waited for, until a plot of rounds without any has one."""
    state = session.state
    if session.busy == "open":
        return OPENING
    if state.model is None:
        if state.survey is not None:
            return "This model was read and not imported: only an imported one can be tuned."
        return "Open a model (Ctrl+O), then start tuning (F5)."
    if any(workload.rounds for workload in state.workloads.values()):
        return f"Of this choice nothing was measured yet: choose “{ALL}” above."
    if session.paused:
        return "Tuning is paused: F5 continues."
    if session.busy == "tune":
        return "Tuning has begun: the first candidate is being measured."
    if state.summary is not None:
        return "The last session measured no candidate: Lite space tells what is known of each."
    return "Start tuning (F5)."


class RoundsPanel(RatesPlot):
    """A series for each workload, or one of the model; and one of its plan, whose rates are the
    model's too."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        self._session = session
        self._shown: tuple[object, ...] = ()
        super().__init__("GFLOP/s per round", "", theme)
        self.scope = chooser(
            "Rates of",
            "Every workload, the selected one alone, or the whole model: its FLOPs over its time, "
            "estimated from the kernels of that round (line) and timed (dots)",
            (ALL, SELECTED, MODEL),
        )
        self.scope.currentTextChanged.connect(self.switch)
        self.bar.insertWidget(1, self.scope)
        session.busy_changed.connect(lambda _: self._tell_next())
        self.switch()

    def _tell_next(self) -> None:
        self.empty.setText(f"{MEANING}\n{next_step(self._session)}")

    def switch(self) -> None:
        super().switch()
        self._tell_next()

    def refresh(self, changes: frozenset[str]) -> None:
        self._tell_next()
        if "model" in changes:
            self.clear()
        if not changes & {"rounds", "model"}:
            return
        if not self.items.keys() <= self.series().keys():
            self.clear()  # other rounds of the plan begin, or another workload is shown alone
        self.follow()
        asked = (self._session.state.selected, self.scope.currentText())
        if asked != self._shown:
            self._shown = asked
            self.dress_all()

    def series(self) -> Mapping[str, Rounds]:
        """What is shown, by keys of workloads; the model's is empty."""
        state, scope = self._session.state, self.scope.currentText()
        plan = {PLAN: state.plan.rounds} if state.plan and scope != SELECTED else {}
        if scope == MODEL:
            return {"": state.rounds} | plan
        return {
            key: workload.rounds
            for key, workload in state.workloads.items()
            if scope == ALL or key == state.selected
        } | plan

    def rounds_named(self) -> str:
        model = self.scope.currentText() == MODEL
        return "tuning round" if model else "tuning round of the workload"

    def make(self, key: str, pair: Items) -> None:
        dots, line = pair
        workload = self._session.state.workloads.get(key)
        if key == PLAN:
            dots.setSymbol("d")
            dots.setSize(9)
            self.legend.addItem(line, "the plan: the model in other ways")
        elif len(self.legend.items) < LEGEND_ROWS:
            name = str(words_of(workload.workload.key)) if workload else "whole model"
            short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
            self.legend.addItem(line, short)
            self.legend.items[-1][1].setToolTip(f"{name}\n{key}")
        line.setCurveClickable(True, width=8)
        line.sigClicked.connect(lambda *_: self._session.select(key))

    def dress(self, key: str) -> None:
        """Colour, width and order of a workload's items: those of the selected one in front."""
        state = self._session.state
        front = key in ("", PLAN, state.selected)
        colour, dash = self._look(key)
        dots, line = self.items[key]
        dots.setBrush(brush(colour))
        line.setPen(pen(colour, 4.0 if front else 2.2, dash))
        line.setZValue(FRONT if front else BEHIND)
        for plotted in (dots, line):
            plotted.setOpacity(1.0 if front or not state.selected else 0.75)

    def _look(self, key: str) -> tuple[str, tuple[float, ...]]:
        if key == PLAN:
            return self.theme.text, ()
        workload = self._session.state.workloads.get(key)
        return series_style(self.theme, workload.rank if workload else 0)
