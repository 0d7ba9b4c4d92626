"""The profile of the open model: findings in words, memory, and every step in a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QScrollArea, QSplitter

from nnjit_studio.files import write_json
from nnjit_studio.profile import MeasuredMemory, ModelProfile, findings, trace_events
from nnjit_studio.ui import text
from nnjit_studio.ui.docks.job_table import JobTable
from nnjit_studio.ui.session import Session
from nnjit_studio.ui.tables import Column
from nnjit_studio.ui.theme import ElidedLabel, Theme, named, panel

EMPTY = "No profile yet: open a model, then press F6."
TONES = {"compute": "good", "memory": "warn"}


def _percent(value: float | None) -> str:
    return text.fixed(value, 0)


COLUMNS = (
    Column("step", lambda s: s.node, width=190),
    Column("workload", lambda s: s.workload, width=210),
    Column("ms", lambda s: s.ms, lambda v: text.fixed(v, 4), True, "median of the runs", 70),
    Column("IQR", lambda s: s.iqr_ms, lambda v: text.fixed(v, 4), True, "ms between quartiles", 62),
    Column("share %", lambda s: 100 * s.share, lambda v: text.fixed(v, 1), True, width=66),
    Column(
        "GFLOP/s", lambda s: s.gflops if s.flops else None, lambda v: text.fixed(v, 1), True,
        width=70,
    ),
    Column("GB/s", lambda s: s.gbytes_per_s, lambda v: text.fixed(v, 1), True, width=60),
    Column(
        "FLOP/B", lambda s: s.intensity, lambda v: text.fixed(v, 1), True,
        "operations for each byte read or written", 60,
    ),
    Column(
        "% of peak", lambda s: s.percent_of_peak if s.flops else None, _percent, True,
        "of the threads' measured multiply-add rate", 74,
    ),
    Column(
        "% of roof", lambda s: s.percent_of_roof, _percent, True,
        "of the limit that bounds it; above 100 where data comes from caches", 72,
    ),
    Column(
        "bound by", lambda s: s.bound, lambda v: v or text.NONE, width=76,
        tone=lambda s: TONES.get(s.bound, "muted"),
    ),
    Column("threads", lambda s: s.threads, str, True, width=60),
    Column("fused from", lambda s: ", ".join(s.source), lambda v: v or text.NONE, width=300),
)  # fmt: skip

MS_COLUMN = [column.title for column in COLUMNS].index("ms")
FINDINGS_HEIGHT = 80


class ProfilePanel(JobTable):
    """Sentences above the table, the slowest step first."""

    result: ModelProfile | None

    def __init__(self, session: Session, theme: Theme, actions: Mapping[str, QAction]) -> None:
        self.findings = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        super().__init__(session, "Profile", COLUMNS, theme, actions, "profile", EMPTY)
        self.view.sortByColumn(MS_COLUMN, Qt.SortOrder.DescendingOrder)
        panel(self.findings)
        self.findings.setContentsMargins(10, 4, 10, 4)
        self.findings.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.findings.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.memory = ElidedLabel()
        self.memory.setContentsMargins(10, 2, 10, 2)
        self.trace_button = named(
            QPushButton("Save trace…"), "Save trace", "Chrome trace events, for Perfetto"
        )
        self.save_button = named(
            QPushButton("Save profile…"), "Save profile", "JSON, for nnjit profile --compare"
        )
        for button in (self.trace_button, self.save_button):
            self.bar.addWidget(button)
        self.scroll = QScrollArea(widgetResizable=True, frameShape=QFrame.Shape.NoFrame)
        self.scroll.setWidget(self.findings)
        splitter = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        self.layout().insertWidget(1, self.memory)
        self.layout().replaceWidget(self.view, splitter)
        splitter.addWidget(self.scroll)
        splitter.addWidget(self.view)
        splitter.setStretchFactor(1, 1)
        splitter.setSizes([FINDINGS_HEIGHT, 400])
        self.show_result(None)

    def fill(self) -> None:
        profile = self.result
        self.model.set_rows(profile.steps if profile else (), keep=False)
        self.findings.setText("\n".join(findings(profile)) if profile else "")
        self.memory.setText(_memory(profile.memory) if profile else "")
        for widget in (self.memory, self.scroll):
            widget.setVisible(profile is not None)
        for button in (self.trace_button, self.save_button):
            button.setEnabled(profile is not None)

    def sentence(self) -> str:
        assert self.result is not None
        warm, threads = self.result.warm, self.result.threads
        return (
            f"{warm.median_ms:.3f} ms (min {warm.min_ms:.3f}, IQR {warm.iqr_ms:.3f}, "
            f"{warm.runs} runs)  ·  {self.result.tier}, {threads} thread{'s' * (threads > 1)}"
        )

    def save_trace(self, path: Path) -> None:
        """Write the trace of the profile that is shown; raises ``UserError``."""
        assert self.result is not None
        write_json(path, trace_events(self.result))

    def save_profile(self, path: Path) -> None:
        """Write the profile that is shown; raises ``UserError``."""
        assert self.result is not None
        write_json(path, self.result.to_json())


def _memory(memory: MeasuredMemory) -> str:
    expected = memory.forecast
    return (
        f"Wasm memory: forecast {text.nbytes(expected.wasm_bytes)}, measured "
        f"{text.nbytes(memory.wasm_bytes)} (weights {text.nbytes(expected.weights_bytes)}, arena "
        f"{text.nbytes(expected.arena_bytes)}, of it at most "
        f"{text.nbytes(expected.peak_live_bytes)} in use)"
    )
