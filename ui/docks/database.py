"""The kernel database as a table."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QPushButton

from nnjit_studio.space.records import TuningRecord, code_of
from nnjit_studio.ui import text
from nnjit_studio.ui.docks.space import GLYPHS, TONES
from nnjit_studio.ui.session import Session
from nnjit_studio.ui.tables import Column, TablePanel
from nnjit_studio.ui.theme import Theme, named


def _when(iso: str) -> str:
    return iso[:19].replace("T", " ")


COLUMNS = (
    Column("workload", lambda r: r.workload, text.short_key, width=230),
    Column("settings", lambda r: r.settings, width=270),
    Column(
        "state",
        lambda r: r.state,
        lambda s: f"{GLYPHS.get(s, ' ')} {s}",
        width=92,
        tone=lambda r: TONES.get(r.state, ""),
    ),
    Column("GFLOP/s", lambda r: r.gflops or None, lambda v: text.fixed(v, 1), True, width=74),
    Column("ms", lambda r: r.median_ms or None, lambda v: text.fixed(v, 3), True, width=66),
    Column("samples", lambda r: len(r.samples_ms), str, True, "how many samples were taken", 66),
    Column("code", lambda r: code_of(r.key.tier), width=56, tip="what the kernel is written in"),
    Column("tier", lambda r: r.key.tier, width=92),
    Column("target", lambda r: r.key.target, width=90),
    Column("device", lambda r: r.key.device_id, width=110),
    Column("browser", lambda r: r.browser, width=130),
    Column("created (UTC)", lambda r: r.created, _when, width=140),
)


class DatabasePanel(TablePanel):
    """Newest first; read by the second worker, so it may be refreshed while tuning."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__("Kernel database", COLUMNS, theme)
        self.count = QLabel("Tuned kernels are kept here; nothing is read yet.")
        self.count.setObjectName("muted")
        self.refresh_button = named(
            QPushButton("Refresh"), "Kernel database: refresh", "Read the database again (Ctrl+D)"
        )
        self.refresh_button.clicked.connect(session.read_records)
        self.bar.insertWidget(0, self.count)
        self.bar.addWidget(self.refresh_button)
        session.records.connect(self.show_records)

    def show_records(self, records: list[TuningRecord]) -> None:
        self.model.set_rows(records, keep=False)
        workloads = len({r.workload for r in records})
        self.count.setText(
            f"{len(records):,} records of {workloads} workloads, newest first"
            if records
            else "The database is empty: every candidate that is measured is kept here."
        )

    def set_theme(self, theme: Theme) -> None:
        self.model.set_theme(theme)
