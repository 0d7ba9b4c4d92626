"""The kernel database as a table: filtered, grouped, compared, annotated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QSettings, Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QProgressBar, QToolButton

from nnjit_studio.database import Measurement
from nnjit_studio.database.measurement import Group, Pair, groups, mean_ratio, side_by_side
from nnjit_studio.ui.dock.candidates import state_column
from nnjit_studio.ui.records.filters import BEST, COMPARE, RecordFilters
from nnjit_studio.ui.records.others import MINE, WHOSE, WHOSE_TIP, OthersPanel
from nnjit_studio.ui.records.same_place import same_place
from nnjit_studio.ui.records.store import Listing, RecordStore
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import chooser, named, push_button, tool_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

FOLLOW_MS = 2000
"""From one look at the database to the next, at least, while a session adds to it: each costs 35 to
45 ms of processor time, drawing included, at 200 to 10,000 records."""
MENU = ("note", "delete", "restore", "import", "export_records")


def _when(iso: str) -> str:
    return iso[:19].replace("T", " ")


def _rate(digits: int) -> Any:
    return lambda value: text.fixed(value, digits)


COLUMNS: tuple[Column, ...] = (
    Column(
        "workload",
        lambda r: r.workload,
        text.workload,
        width=250,
        hint=lambda r: text.workload_tip(r.workload),
    ),
    Column("settings", lambda r: r.settings, width=270),
    state_column(118),
    Column("GFLOP/s", lambda r: r.gflops, _rate(1), True, "10^9 operations a second", 74),
    Column("ms", lambda r: r.median_ms, _rate(4), True, "median of the samples", 74),
    Column("samples", lambda r: r.samples, str, True, "how many samples were taken", 66),
    Column("tags", lambda r: r.tags, width=80, tip="your own words: select records, press F2"),
    Column("note", lambda r: r.note, width=110, tip="your own note: select records, press F2"),
    Column("code", lambda r: r.code, width=56, tip="the language of the kernel"),
    Column("tier", lambda r: r.tier, width=92),
    Column("target", lambda r: r.target, width=90),
    Column("device", lambda r: r.device, width=110),
    Column("browser", lambda r: r.browser, width=130),
    Column("created (UTC)", lambda r: r.created, _when, width=140),
)


def _group_columns(by: str) -> tuple[Column, ...]:
    one = by == "workload"
    best = "the least time" if one else "the highest GFLOP/s of all its workloads"
    return (
        Column(
            by,
            lambda g: g.name,
            text.workload if one else str,
            width=250,
            hint=lambda g: text.workload_tip(g.name) if one else g.name,
        ),
        Column("records", lambda g: g.records, str, True, width=70),
        Column("workloads", lambda g: g.workloads, str, True, width=74),
        Column(
            "best GFLOP/s", lambda g: g.best.gflops if g.best else None, _rate(1), True, best, 96
        ),
        Column("ms", lambda g: g.best.median_ms if g.best else None, _rate(3), True, "its time"),
        Column(
            "of workload",
            lambda g: g.workload,
            text.workload,
            width=240,
            hint=lambda g: text.workload_tip(g.workload),
        ),
        Column("settings", lambda g: g.settings, width=260),
        Column("device", lambda g: g.best.device if g.best else "", width=110),
        Column("browser", lambda g: g.best.browser if g.best else "", width=130),
    )


def _pair_columns(first: str, second: str) -> tuple[Column, ...]:
    return (
        Column("workload", lambda p: p.workload, text.workload, width=250,
               hint=lambda p: text.workload_tip(p.workload)),
        Column(
            "ratio", lambda p: p.ratio, lambda v: f"{v:.2f}×", True,  # noqa: RUF001
            f"ms on {first} by ms on {second}: above 1, {second} is faster", 70,
            lambda p: "good" if p.ratio > 1 else "bad",
        ),
        Column(f"ms, {first}", lambda p: p.first.median_ms, _rate(3), True, "its fastest", 130),
        Column(f"ms, {second}", lambda p: p.second.median_ms, _rate(3), True, "its fastest", 130),
        Column(f"GFLOP/s, {first}", lambda p: p.first.gflops, _rate(1), True, width=150),
        Column(f"GFLOP/s, {second}", lambda p: p.second.gflops, _rate(1), True, width=150),
        Column(f"settings, {first}", lambda p: p.first.settings, width=240),
        Column(f"settings, {second}", lambda p: p.second.settings, width=240),
    )  # fmt: skip


class DatabasePanel(TablePanel):
    """Newest first; read in a thread of its own. While it is seen it follows a session."""

    def __init__(
        self,
        session: StudioSession,
        theme: Theme,
        store: RecordStore,
        actions: Mapping[str, QAction],
        settings: QSettings,
    ) -> None:
        super().__init__("Kernel database", COLUMNS, theme)
        self.store = store
        self.listing = Listing()
        self.filters = RecordFilters()
        self.count = caption("Tuned kernels are kept here; nothing is read yet.")
        least = self.count.fontMetrics().horizontalAdvance("999,999 r…")
        self.count.setMinimumWidth(least)
        self.refresh_button = push_button(
            "Refresh",
            "Kernel database: refresh",
            "Read the database again (Ctrl+D)",
            session.read_records,
        )
        self.progress = named(QProgressBar(textVisible=False), "Kernel database: progress")
        self.progress.setFixedWidth(120)
        self.stop_button = push_button(
            "Stop", "Kernel database: stop import or export", act=store.cancel
        )
        self.whose = chooser("Kernel database: whose", WHOSE_TIP, WHOSE)
        self.others = OthersPanel(session, settings, theme)
        self.lead(self.whose, self.count)
        self.bar.insertWidget(2, self.progress)
        self.bar.insertWidget(3, self.stop_button)
        self.bar.addWidget(self.refresh_button)
        self.menu_button = self._menu_button(actions)
        self.bar.addWidget(self.menu_button)
        self.box.insertWidget(1, self.filters)
        self.box.addWidget(self.others, 1)
        self._of_mine = (
            self.whose, self.count, self.filter, self.copy_button, self.refresh_button,
            self.menu_button, self.filters, self.view,
        )  # fmt: skip
        for one in (self.whose, self.others.whose):
            one.currentTextChanged.connect(self._turn)
        self._turn(MINE)
        session.records.connect(lambda _: store.refresh())
        store.listed.connect(self._take)
        store.progressed.connect(self._progressed)
        self.filters.changed.connect(self.render_rows)
        self._seen = self._behind = False
        self._pause = QTimer(self, singleShot=True, interval=FOLLOW_MS)
        self._pause.timeout.connect(self._follow)
        self._progressed(0, 0)

    def refresh(self, changes: frozenset[str]) -> None:
        if "space" in changes:  # a candidate has a verdict, and the database a record
            self._behind = True
            self._follow()

    def be_seen(self, seen: bool) -> None:
        self._seen = seen
        self._follow()

    def _follow(self) -> None:
        """Read what a session has added, every two seconds at most and only while it is seen."""
        if self._behind and self._seen and not self._pause.isActive():
            self._behind = False
            self._pause.start()
            self.store.follow()

    def _menu_button(self, actions: Mapping[str, QAction]) -> QToolButton:
        button = tool_button("Records", "Kernel database: what to do with records")
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.addActions([actions[name] for name in MENU])
        # In the table alone: Delete elsewhere means something else.
        actions["delete"].setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.view.addActions([actions[name] for name in MENU[:3]])
        return button

    def selected(self) -> list[Measurement]:
        """The records that are selected: of a group its best, of a pair both."""
        rows = [self.row_at(index) for index in self.view.selectionModel().selectedRows()]
        return [record for row in rows for record in _records_of(row)]

    def search(self, text: str) -> None:
        """Records are filtered before they are grouped or compared."""
        self.filters.search(text)

    def render_rows(self) -> None:
        """Filter, group or compare, and show."""
        kind, by = self.filters.mode
        records = self.filters.select(self.listing)
        first, second = self.filters.first.currentText(), self.filters.second.currentText()
        rows: Sequence[Any] = records
        columns = COLUMNS
        if kind == BEST:
            rows, columns = groups(records, by), _group_columns(by)
        elif kind == COMPARE:
            rows = side_by_side(records, by, first, second) if first != second else []
            columns = _pair_columns(first, second)
        with same_place(self, _key_of):
            if [c.title for c in columns] != [c.title for c in self.model.columns]:
                self.set_columns(columns)
            self.model.set_rows(rows, keep=False)
        self.count.setText(self._caption(kind, by, records, rows))
        self.tell_nothing()

    def hidden_rows(self) -> int:
        deleted = self.filters.deleted.isChecked()
        if self.model.rows or self.filters.select(self.listing):
            return 0
        return sum(bool(row.deleted) is deleted for row in self.listing.rows)

    def clear_filters(self) -> None:
        super().clear_filters()
        self.filters.clear()

    def tell_nothing(self) -> None:
        super().tell_nothing()
        if not self.model.rows and not self.hidden_rows():
            self.nothing.say(self.count.text())

    def _caption(self, kind: str, by: str, records: Sequence[Measurement], rows: Any) -> str:
        everything = [row for row in self.listing.rows if not row.deleted]
        if not self.listing.rows:
            return "The database is empty: every candidate that tuning (F5) measures is kept here."
        if kind == COMPARE:
            ratio = mean_ratio(rows)
            if ratio is None:
                return f"No workload was timed on both: choose two {by}s that share a model."
            name = self.filters.second.currentText()
            return f"{len(rows)} workloads; {name} is {ratio:.2f}× as fast (geometric mean)"  # noqa: RUF001
        if kind == BEST:
            return f"{len(rows):,} groups of {len(records):,} records"
        workloads = len({r.workload for r in records})
        if self.filters.deleted.isChecked():
            if not records and not self.hidden_rows():
                return "No record is deleted."
            return f"{len(records):,} deleted records of {workloads} workloads"
        if len(records) < len(everything):
            return f"{len(records):,} of {len(everything):,} records, {workloads} workloads"
        return f"{len(records):,} records of {workloads} workloads, newest first"

    def _take(self, listing: Listing) -> None:
        self.listing = listing
        self.others.show_records(listing.rows)
        self.filters.offer(listing)
        self.render_rows()

    def _pick(self) -> None:
        rows = self.view.selectionModel().selectedRows()
        if len(rows) == 1 and (records := _records_of(self.row_at(rows[0]))):
            self.picked.emit(records[0])

    def _turn(self, whose: str) -> None:
        """Show the records of this machine, or what a server tells."""
        mine = whose == MINE
        choosers = (self.others.whose, self.whose)
        used = self.window().focusWidget() in choosers
        for part in self._of_mine:
            part.setVisible(mine)
        self.others.setVisible(not mine)
        self.whose.setCurrentText(whose)
        if used:  # the one that is in sight now
            choosers[mine].setFocus()
        self._progressed(0, 0)
        if not mine:
            self.others.show_whose(whose)

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.others.set_theme(theme)

    def _progressed(self, done: int, total: int) -> None:
        for widget in (self.progress, self.stop_button):
            widget.setVisible(bool(total))
        self.progress.setRange(0, max(total, 1))
        self.progress.setValue(done)


def _key_of(row: Measurement | Group | Pair) -> int | str:
    """What makes it the same line when the records are read again."""
    if isinstance(row, Group):
        return row.name
    return row.workload if isinstance(row, Pair) else row.id


def _records_of(row: Measurement | Group | Pair) -> list[Measurement]:
    if isinstance(row, Group):
        return [row.best] if row.best else []
    return [row.first, row.second] if isinstance(row, Pair) else [row]
