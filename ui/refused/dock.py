"""A model that cannot be imported: what stands in its way, and how ONNX Runtime Web runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QTabWidget

from nnjit_studio.foreign_wasm.inspection.hotspots.records import Hotspots
from nnjit_studio.model.survey import Obstacle
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.verdict.panel import VerdictPanel
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, push_button, vbox
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.verdict.result import LABELS
from nnjit_studio.workbench.jobs.refused import RefusedRun

EMPTY = "A model that cannot be imported is shown here, as ONNX Runtime Web runs it."
FASTER = "Make ONNX Runtime faster"
NATIVE = "native"
NAMED = 3
"""Nodes of an operator that are named."""
LOOKING = "The operators of the file are looked up."
NO_RULES = "No operator is without a rule: the reason above says which form or size is refused."
MEASURED = (*LABELS, NATIVE)
"""Where a node may have a time, in the order of the columns."""
TITLES = {"ort": "web ms", "turbo": "turbo ms", NATIVE: "native ms"}
TIPS = {
    "ort": "median of one inference in ONNX Runtime Web, by its own profiler",
    "turbo": "the same with the faster module",
    NATIVE: "median in native ONNX Runtime, one thread",
}


@dataclass
class NodeRow:
    """A node of ONNX Runtime's optimised graph, with its times by where it ran."""

    node: str
    op: str
    ms: dict[str, float] = field(default_factory=dict)


def node_rows(run: RefusedRun) -> list[NodeRow]:
    """Every node once, the longest in the first run first; natively others may be fused."""
    runs = {**run.nodes, **({NATIVE: run.native.nodes} if run.native else {})}
    rows: dict[tuple[str, str], NodeRow] = {}
    for who, nodes in runs.items():
        for node in nodes:
            row = rows.setdefault((node.name, node.op), NodeRow(node.name, node.op))
            row.ms[who] = node.ms
    return list(rows.values())


def node_columns(run: RefusedRun) -> tuple[Column, ...]:
    """Of the runs that there are; the share is of the first."""
    wholes = {who: sum(n.ms for n in nodes) for who, nodes in run.nodes.items()}
    if run.native is not None:
        wholes[NATIVE] = sum(node.ms for node in run.native.nodes)
    there = [who for who in MEASURED if who in wholes]
    if not there:
        return ()

    def time(who: str) -> Callable[[NodeRow], float | None]:
        return lambda row: row.ms.get(who)

    def share(row: NodeRow) -> float | None:
        ms, whole = row.ms.get(there[0]), wholes[there[0]]
        return ms / whole if ms is not None and whole else None

    return (
        Column("node", lambda r: r.node, width=240, middle=True),
        Column("operator", lambda r: r.op, width=150),
        *(Column(TITLES[w], time(w), lambda v: text.fixed(v, 3), True, TIPS[w]) for w in there),
        Column("share", share, _share, True, f"of all nodes: {TITLES[there[0]]}"),
    )  # fmt: skip


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


OBSTACLE_COLUMNS = (
    Column("operator", lambda o: o.op, width=190),
    Column("nodes", lambda o: len(o.nodes), str, True, width=56),
    Column("such as", lambda o: ", ".join(o.nodes[:NAMED]), width=260),
    Column("why", lambda o: o.why, width=320),
)
FUNCTION_COLUMNS = (
    Column("function", lambda f: f.index, str, True, "its index in the module", 70),
    Column("name", lambda f: f.name, width=150, middle=True),
    Column("share", lambda f: f.share, _share, True, "of the time of all threads", 62),
    Column("ms", lambda f: f.self_ms, lambda v: text.fixed(v, 1), True, "sampled, its own", 70),
    Column("bytes", lambda f: f.facts.bytes, _number, True, width=70),
    Column("live vectors", lambda f: f.facts.live_vectors, _number, True, "most at once", 88),
    Column(
        "spills", lambda f: f.facts.spills or None, _number, True,
        "of them beyond V8's 15 registers on x64", 56,
        lambda f: "bad" if f.facts.spills else "",
    ),
    Column("in words", lambda f: f.text, width=420),
)  # fmt: skip


class RefusedPanel(Panel):
    """Shows a refusal and its runs; holds no facts of its own but what is shown."""

    wants_faster = Signal()
    """ONNX Runtime Web's module is to be made faster."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.why = QLabel(EMPTY, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.verdict = VerdictPanel(host.theme)
        self.faster = push_button(
            FASTER, FASTER, "Re-schedules the inner loops of its module, keeps what is measured "
            "faster here, and compares both in turns; results stay the same bit for bit",
            self.wants_faster.emit,
        )  # fmt: skip
        self.obstacles = TablePanel("Obstacles", OBSTACLE_COLUMNS, host.theme)
        self.nodes = TablePanel("Nodes in ONNX Runtime", (), host.theme)
        self.functions = TablePanel("Wasm functions", FUNCTION_COLUMNS, host.theme)
        self.said = {panel: caption() for panel in (self.obstacles, self.nodes, self.functions)}
        for panel, label in self.said.items():
            panel.lead(label)
        self.tabs = named(QTabWidget(documentMode=True), "Parts of the refusal")
        for title, panel in (
            ("What stands in the way", self.obstacles),
            ("Nodes", self.nodes),
            ("Wasm functions", self.functions),
        ):
            self.tabs.addTab(panel, title)
        self.tabs.setCornerWidget(self.faster)
        top = hbox((self.why, 1), margins=(14, 8, 14, 2))
        vbox(top, self.verdict, (self.tabs, 1), on=self)
        self.clear()

    def clear(self) -> None:
        """Show no model."""
        self.why.setText(EMPTY)
        self._reset()
        self.verdict.hide()
        self.tabs.hide()

    def show_refusal(self, why: str) -> None:
        """Show a model that was refused, and nothing of any run."""
        self._reset()
        self.why.setText(why)
        self.said[self.obstacles].setText(LOOKING)
        self.verdict.show_verdict(None, "ONNX Runtime Web is measured next.")
        self.tabs.setCurrentWidget(self.obstacles)
        self.tabs.show()

    def show_obstacles(self, found: Sequence[Obstacle], said: str = "") -> None:
        """Show the operators that have no rule; ``said``: why they are not known."""
        self.obstacles.model.set_rows(found, keep=False)
        self.said[self.obstacles].setText("" if found else said or NO_RULES)

    def _reset(self) -> None:
        for panel, label in self.said.items():
            panel.model.set_rows((), keep=False)
            label.setText("")

    def show_run(self, run: RefusedRun) -> None:
        """Show what is known of a run so far."""
        self.verdict.show_verdict(run.verdict)
        self._show_nodes(run)
        self._show_functions(run.functions, run.functions_problem)

    def _show_nodes(self, run: RefusedRun) -> None:
        self.nodes.set_columns(node_columns(run))
        self.nodes.model.set_rows(node_rows(run), keep=False)
        if run.native_problem:
            self.said[self.nodes].setText(
                f"Native ONNX Runtime does not run it: {run.native_problem}"
            )

    def _show_functions(self, found: Hotspots | None, problem: str) -> None:
        rows: Sequence[object] = found.functions if found else ()
        self.functions.model.set_rows(rows, keep=False)
        self.said[self.functions].setText(
            _sampled(found.parts_ms, found.browser) if found else problem
        )

    def set_theme(self, theme: Theme) -> None:
        self.verdict.set_theme(theme)
        for panel in self.said:
            panel.set_theme(theme)


def _sampled(parts_ms: Mapping[str, float], browser: str) -> str:
    whole = sum(parts_ms.values()) or 1.0
    parts = ", ".join(f"{part} {ms / whole:.0%}" for part, ms in parts_ms.items())
    return f"{parts}; sampled in {browser}"
