"""The profile of the open model: findings in words, every step in a table, further views."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabWidget

from nnjit_studio.analysis.profile.findings import (
    DEVICE,
    DIFF,
    LEDGER,
    MEMORY,
    TUNE,
    Finding,
    ranked,
)
from nnjit_studio.analysis.profile.memory import MeasuredMemory
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.analysis.profile.trace import trace_events
from nnjit_studio.model.readable import words_of
from nnjit_studio.support.files import write_json
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import JobTable
from nnjit_studio.ui.profile.compare import ComparePanel
from nnjit_studio.ui.profile.findings import FindingsView
from nnjit_studio.ui.profile.ledger import LedgerView
from nnjit_studio.ui.profile.memory import MemoryPlot
from nnjit_studio.ui.profile.roofline import StepRoofline
from nnjit_studio.ui.profile.sizes import SizesView
from nnjit_studio.ui.profile.trace import TraceView
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import ElidedLabel
from nnjit_studio.ui.widgets.panel import named, push_button, splitter
from nnjit_studio.ui.widgets.tables import Column
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench import jobs

EMPTY = "No profile yet: press F6 to time every step of the open model."
TONES = {"compute": "good", "memory": "warn"}


def _percent(value: float | None) -> str:
    return text.fixed(value, 0)


COLUMNS = (
    Column(
        "what", lambda s: s.workload, lambda key: str(words_of(key)), width=290,
        in_files="workload", hint=lambda s: text.short_key(s.workload),
    ),
    Column("step", lambda s: s.node, width=170, middle=True),
    Column("time", lambda s: s.ms, text.time, True, "median of the runs", 70, in_files="ms"),
    Column(
        "IQR", lambda s: s.iqr_ms, text.time, True, "between the quartiles", 70, in_files="IQR ms"
    ),
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
    Column(
        "on", lambda s: s.device, lambda v: {"webgpu": "WebGPU", "wasm": "Wasm"}.get(v, text.NONE),
        width=64,
    ),
    Column("fused from", lambda s: ", ".join(s.source), lambda v: v or text.NONE, width=300),
)  # fmt: skip

TIME_COLUMN = [column.title for column in COLUMNS].index("time")
FINDINGS_WIDTH = 330
FOLLOW = {TUNE: "tune", DIFF: "diff_node", DEVICE: "device"}
"""Actions that findings lead to."""


def profile_job(cold: bool = False) -> Job:
    """Profile the open model, ``cold`` with its file opened again."""
    return Job(
        "profile",
        "Profiling the model",
        lambda bench, tell: bench.run(jobs.profile, tell, cold=cold),
    )


class ProfilePanel(JobTable):
    """Findings above the table of steps, the slowest first; further views in tabs."""

    result: ModelProfile | None

    def __init__(self, host: Host) -> None:
        theme = host.theme
        self.findings = FindingsView()
        self.ledger, self.memory_plot = LedgerView(theme), MemoryPlot(theme)
        self.trace, self.roofline = TraceView(theme), StepRoofline(theme)
        self.compare, self.sizes = ComparePanel(theme), SizesView(host)
        self._actions = host.actions
        super().__init__(host, "Profile", COLUMNS, "profile", EMPTY)
        self.view.sortByColumn(TIME_COLUMN, Qt.SortOrder.DescendingOrder)
        self.memory = ElidedLabel()
        self.memory.setContentsMargins(10, 2, 10, 2)
        self.trace_button = push_button(
            "Save trace…",
            "Save trace",
            "Chrome trace events as a file, which Perfetto opens",
        )
        self.save_button = push_button(
            "Save profile…", "Save profile", "JSON, for nnjit profile --compare"
        )
        for button in (self.trace_button, self.save_button):
            self.bar.addWidget(button)
        self.tabs = named(QTabWidget(documentMode=True), "Views of the profile")
        self.box.replaceWidget(self.view, self.tabs)
        steps = splitter(
            Qt.Orientation.Horizontal, (self.findings, FINDINGS_WIDTH), (self.view, 800)
        )
        self.box.insertWidget(1, self.memory)
        steps.setStretchFactor(1, 1)
        for title, widget in (
            ("Findings and steps", steps), ("Timeline", self.trace),
            ("Cold and warm", self.ledger), ("Memory", self.memory_plot),
            ("Roofline", self.roofline), ("Sizes", self.sizes), ("Compare", self.compare),
        ):  # fmt: skip
            self.tabs.addTab(widget, title)
        self.tabs.currentChanged.connect(lambda _: self._make_room())
        self.findings.asked.connect(self._do)
        self.ledger.wanted.connect(lambda: host.session.run(profile_job(cold=True)))
        self.trace.timeline.picked.connect(lambda span: self.show_step(span.step))
        self.picked.connect(lambda row: self.trace.timeline.select(row.node))
        self.compare.picked.connect(self.picked)
        self.compare.compared.connect(self.trace.show_before)
        self.compare.problem.connect(host.session.problem)
        self._follow()
        self.show_result(None)

    def fill(self) -> None:
        profile = self.result
        self.model.set_rows(profile.steps if profile else (), keep=False)
        self.findings.fill(ranked(profile) if profile else ())
        self.memory.setText(_memory(profile.memory) if profile else "")
        self.ledger.fill(profile)
        for view in (self.memory_plot, self.roofline, self.trace, self.compare):
            view.show_profile(profile)
        self.findings.setVisible(profile is not None)
        self._make_room()
        for button in (self.trace_button, self.save_button):
            button.setEnabled(profile is not None)
        self._follow()

    def _make_room(self) -> None:
        """The tab of sizes has a line of its own, of other runs: it has the height of these two.

        Filter and copies are of the steps, which the first tab lists.
        """
        others = self.tabs.currentWidget() is not self.sizes
        self.memory.setVisible(others and self.result is not None)
        items = [self.bar.itemAt(place) for place in range(self.bar.count())]
        for widget in [item.widget() for item in items if item is not None]:
            if widget is not None:
                widget.setVisible(others)
        for widget in (self.filter, self.copy_button):
            widget.setVisible(self.tabs.currentIndex() == 0)

    def show_step(self, node: str) -> None:
        """Select a step here and, through ``picked``, everywhere."""
        self.select_row(lambda step: step.node == node)

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.ledger.set_theme(theme)
        views = (self.memory_plot, self.roofline, self.trace.timeline, self.compare, self.sizes)
        for panel in views:
            panel.set_theme(theme)

    def _do(self, what: str, finding: Finding) -> None:
        if what == LEDGER:
            self.tabs.setCurrentWidget(self.ledger)
        elif what == MEMORY:
            self.tabs.setCurrentWidget(self.memory_plot)
        else:
            if what != DEVICE:
                self.show_step(finding.node)
            if what in FOLLOW:
                self._actions[FOLLOW[what]].trigger()

    def _follow(self) -> None:
        super()._follow()
        for (_, what), button in self.findings.buttons.items():
            if what in FOLLOW:
                button.setEnabled(self._actions[FOLLOW[what]].isEnabled())
        self.ledger.button.setEnabled(self._start.isEnabled())

    def sentence(self) -> str:
        assert self.result is not None
        warm, threads = self.result.warm, self.result.threads
        return (
            f"{text.estimate(warm.estimate)} (min {text.time(warm.min_ms)}, "
            f"IQR {text.time(warm.iqr_ms)}, {warm.runs} runs)  ·  "
            f"{self.result.tier}, {text.counted(threads, 'thread')}"
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
