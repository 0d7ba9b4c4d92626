"""The lite space of the selected workload: every candidate, its outcome and the reason."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QSizePolicy

from nnjit_studio.model.readable import words_of
from nnjit_studio.records.gpu_candidate import GpuCandidate, candidate_of
from nnjit_studio.ui.dock.candidates import GLYPHS, TILE_TIPS, state_column
from nnjit_studio.ui.dock.job_table import OPENING
from nnjit_studio.ui.state.plan import PLAN, PlanProgress, PlanRow
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.state.workload import CandidateRow, WorkloadProgress
from nnjit_studio.ui.tuning.own_candidate import OwnCandidateBar
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import SteadyLabel, quiet
from nnjit_studio.ui.widgets.panel import chooser, push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

_parsed = lru_cache(maxsize=4096)(candidate_of)


def _setting(name: str) -> Any:
    def value(row: CandidateRow) -> Any:
        candidate = None if isinstance(row, PlanRow) else _parsed(row.settings)
        return None if candidate is None else getattr(candidate, name, None)

    return value


def interval(row: CandidateRow) -> str:
    """Of a speed-up, in words."""
    if row.speedup_low is None or row.speedup_high is None:
        return text.NONE
    return f"{row.speedup_low:.2f} to {row.speedup_high:.2f}"


def _or_dash(value: Any) -> str:
    return text.NONE if value is None else str(value)


WAY, WORKLOAD = "way to import", "workload"
COLUMNS = (
    state_column(118, "incumbent: the kernel that runs in the engine now"),
    Column(WAY, lambda r: r.settings if isinstance(r, PlanRow) else "", width=190, middle=True),
    *(
        Column(name, _setting(name), _or_dash, True,
               f"{tip}, in elements", 46 if name[1] == "0" else 50)
        for name, tip in TILE_TIPS.items()
    ),
    Column("order", _setting("order"), _or_dash, width=50, tip="order of the outer loops"),
    Column("pack", _setting("pack"), lambda v: text.NONE if v is None else "yes" if v else "no",
           width=46, tip="B is read from panels"),
    Column("split", _setting("split"), _or_dash, True,
           "parts of the reduction, each a workgroup of its own", 46),
    Column("vec", _setting("vec"), _or_dash, True, "elements of a load", 40),
    Column("GFLOP/s", lambda r: r.gflops, lambda v: text.fixed(v, 1), True, width=74),
    Column("ms", lambda r: r.ms, lambda v: text.fixed(v, 3), True, "median of one run", 66),
    Column("speed-up", lambda r: r.speedup, lambda v: text.fixed(v, 2), True,
           "over the incumbent of its duel", 72),
    Column("interval", interval, width=96,
           tip="of the speed-up: 95 %, or 99 % of what is faster, being looked at five times"),
    Column("verdict", lambda r: r.verdict, lambda v: v or text.NONE, width=250),
    Column("why it is in", lambda r: r.reason, lambda v: v or text.NONE, width=260),
)  # fmt: skip
EVERY_STATE = "every state"
CHOOSER = 24
"""Characters of a workload's name that are seen where there is room."""
NARROW = 140
"""Pixels of the chooser where there is none: the share of time and what it is."""
SETTINGS = (*TILE_TIPS, "order", "pack", "split", "vec")
SPEEDUP_COLUMN = [column.title for column in COLUMNS].index("speed-up")


class SpacePanel(TablePanel):
    """Table, workload chooser and one line about the size of the space."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        self._shown = self._selected = ""
        named = Column(WORKLOAD, lambda _: self._shown)
        super().__init__("Lite space", (*COLUMNS, named), theme)
        self.view.setColumnHidden(len(COLUMNS), True)  # for copies: the chooser names it here
        self._session = session
        self._of_plan = False
        self._labels: list[tuple[str, str]] = []
        self.view.sortByColumn(SPEEDUP_COLUMN, Qt.SortOrder.DescendingOrder)
        self.chooser = chooser("Workload", "Workloads, the heaviest first")
        # Its width must not follow the shares of time, which change with every timed run.
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self.chooser.setSizeAdjustPolicy(policy)
        self.chooser.setMinimumContentsLength(CHOOSER)
        self.chooser.setMinimumWidth(NARROW)
        self.filter.setMaximumWidth(120)
        self.chooser.activated.connect(lambda i: self._pick_space(self.chooser.itemData(i)))
        self.summary = quiet(SteadyLabel(""))
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.lead(self.chooser, self.summary)
        self.tell_nothing()
        states = (EVERY_STATE, *(state for state in GLYPHS if state != "default"))
        self.states = chooser("State", "Only candidates of this state", states)
        self.states.currentTextChanged.connect(lambda _: self.model.arrange())
        self.bar.setStretchFactor(self.chooser, 1)
        self.bar.insertWidget(2, self.states)
        self.own = OwnCandidateBar(session, theme)
        self.own.hide()  # its line is a row of the table for those who type none
        self.mine = push_button(
            "Try own…", "A candidate of your own",
            "Type settings of your own: they are checked and measured as all others (Ctrl+K)",
        )  # fmt: skip
        self.mine.clicked.connect(
            lambda: self.own.hide() if self.own.isVisible() else self.own.begin()
        )
        self.bar.insertWidget(3, self.mine)
        self.box.addWidget(self.own)

    def tell_nothing(self) -> None:
        super().tell_nothing()
        if not self.model.rows:
            self.nothing.say(describe(self._wanted(), self._session.busy))

    def _wanted(self) -> WorkloadProgress | None:
        state = self._session.state
        return state.plan if self._of_plan else state.workloads.get(state.selected)

    def wants(self, row: CandidateRow) -> bool:
        return self.states.currentText() in (EVERY_STATE, row.state) and super().wants(row)

    def clear_filters(self) -> None:
        super().clear_filters()
        self.states.setCurrentText(EVERY_STATE)

    def refresh(self, changes: frozenset[str]) -> None:
        if not changes & {"space", "model", "phase"}:
            return
        state = self._session.state
        if state.selected != self._selected or state.plan is None:
            self._of_plan, self._selected = False, state.selected
        spaces = [*([state.plan] if state.plan else []), *state.by_share()]
        shown = self._wanted()
        key = _key(shown) if shown else ""
        self._choose(spaces, key)
        rows = shown.rows() if shown else []
        self.summary.setText(describe(shown) if rows else "")
        same, self._shown = key == self._shown, key
        self.model.set_rows(rows, keep=same)
        self.tell_nothing()
        self._hide_foreign(rows)
        self.own.refresh(changes)

    def _hide_foreign(self, rows: list[CandidateRow]) -> None:
        """Settings that the candidates shown do not have."""
        candidates = () if self._of_plan else (_parsed(row.settings) for row in rows)
        on_gpu = any(isinstance(c, GpuCandidate) for c in candidates)
        foreign = ("order", "pack") if on_gpu else ("split", "vec")
        for place, column in enumerate(COLUMNS):
            if column.title == WAY:
                self.view.setColumnHidden(place, not self._of_plan)
            elif column.title in SETTINGS:
                self.view.setColumnHidden(place, self._of_plan or column.title in foreign)
        self.mine.setDisabled(self._of_plan)

    def _pick_space(self, key: str) -> None:
        """Show the plan, or select a workload everywhere."""
        self._of_plan = key == PLAN
        self._session.select(key)
        self.refresh(frozenset({"space"}))

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.own.set_theme(theme)

    def _choose(self, workloads: list[WorkloadProgress], selected: str) -> None:
        labels = [(_label(w), _key(w)) for w in workloads]
        if labels != self._labels and not self.chooser.view().isVisible():
            if [key for _, key in labels] != [key for _, key in self._labels]:
                self.chooser.clear()
                for place, (label, key) in enumerate(labels):
                    self.chooser.addItem(label, key)
                    self.chooser.setItemData(place, key, Qt.ItemDataRole.ToolTipRole)
            for place, (label, _) in enumerate(labels):
                if self.chooser.itemText(place) != label:
                    self.chooser.setItemText(place, label)
            self._labels = labels
        self.chooser.setCurrentIndex(self.chooser.findData(selected))


def _key(w: WorkloadProgress) -> str:
    return PLAN if isinstance(w, PlanProgress) else w.workload.key


def _label(w: WorkloadProgress) -> str:
    if isinstance(w, PlanProgress):
        return "The plan"
    share = "" if w.share is None else f"{100 * w.share:4.1f} %   "
    uses = f"   x{w.workload.uses}" if w.workload.uses > 1 else ""
    return f"{share}{words_of(w.workload.key)}{uses}"


def describe(workload: WorkloadProgress | None, running: str = "") -> str:
    """The line above the table: how small the lite space is, and what is known of it.

    ``running`` is the session's job.
    """
    if workload is None:
        return OPENING if running == "open" else "Open a model to see its lite spaces."
    if isinstance(workload, PlanProgress):
        return (
            f"{workload.total} ways one choice away, of {text.count(workload.naive_size)} in all, "
            f"{workload.known} known from the database"
        )
    if not workload.workload.tunable:
        return "This workload has no schedule template: it runs its default kernel."
    if not workload.total and running == "tune":
        return "The untuned model is measured first; then this workload's candidates are listed."
    if not workload.total:
        return (
            "Start tuning (F5): the candidates of this workload's lite space are then listed here, "
            "each with its speed and the reason."
        )
    return (
        f"{workload.total} candidates of {text.count(workload.naive_size)} in the naive space, "
        f"{workload.known} known from the database"
    )
