"""What is known of the node that is current in the graph, with links to where there is more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape

from PySide6.QtCore import QRectF, QUrl, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QTextBrowser, QVBoxLayout, QWidget

from nnjit_studio.analysis.diff import Diff
from nnjit_studio.analysis.profile import ModelProfile
from nnjit_studio.model import Node
from nnjit_studio.records import TuningRecord
from nnjit_studio.ui.graph.facts import COLOUR_BY, Facts, warning_of
from nnjit_studio.ui.graph.links import DO
from nnjit_studio.ui.graph.scene import Box
from nnjit_studio.ui.graph.weights import Histogram, histograms
from nnjit_studio.ui.state.session import Session
from nnjit_studio.ui.state.state import INCUMBENT, NOT_TRIED
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.theme import Theme, named, panel, scaled_font
from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.workbench.jobs import onnx_attributes

EMPTY = "Click a box, or walk with Up and Down: what is known of it appears here."
SOURCES = 12
"""ONNX nodes that are listed; a group can hold thousands."""
BARS_HEIGHT = 64
Row = tuple[str, str]


class NodeDetails(QWidget):
    """A table of facts; the histograms of the weights come when they have been read.

    Signals
    -------
    asked(str, str)
        A link was followed: the dock or action it names, and the node.
    """

    asked = Signal(str, str)

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        panel(self)
        self._session, self.theme = session, theme
        self.facts = Facts()
        self.places: Collection[str] = ()
        """The docks that links may lead to."""
        self.profile: ModelProfile | None = None
        self.diff: Diff | None = None
        self._records: list[TuningRecord] = []
        self._box: Box | None = None
        self._read = ""
        self._wanted: Node | None = None
        self.weights: list[Histogram] = []
        self._attributes: dict[str, dict[str, str]] = {}
        self._asked_of: object = None
        self._onnx = Worker(self)
        self._onnx.returned.connect(lambda _, found: self._take_attributes(*found))
        self._onnx.failed.connect(
            lambda _, error: self._take_attributes(self._asked_of, {}, str(error))
        )
        self._attributes_problem = ""
        self._weights_problem = ""
        self._reader = Worker(self)
        self._reader.returned.connect(lambda _, found: self._take_weights(found, ""))
        self._reader.failed.connect(lambda _, error: self._take_weights([], str(error)))
        self.page = named(QTextBrowser(), "Details of the node")
        self.page.setOpenLinks(False)
        self.page.setFrameShape(QFrame.Shape.NoFrame)
        self.page.setFont(scaled_font(self.page.font(), 0.9))
        self.page.anchorClicked.connect(self._follow)
        self.bars = QWidget()
        self._bar_row = QHBoxLayout(self.bars)
        self._bar_row.setContentsMargins(8, 2, 8, 4)
        self._bar_row.setSpacing(20)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.page, 1)
        layout.addWidget(self.bars)
        session.records.connect(self._take_records)
        self.show_box(None)

    def show_box(self, box: Box | None) -> None:
        """Show what is known of a box, or of none."""
        self._box = box if box is not None and box.unit.nodes else None
        node = self._box.node if self._box is not None else None
        if node is None or node.name != self._read:
            self._read = node.name if node is not None else ""
            self._show_bars([])
            self._read_weights(node)
            self._read_attributes()
        self._write()

    def render(self, changes: frozenset[str]) -> None:
        if "model" in changes:
            self.profile = self.diff = None
            self._attributes, self._attributes_problem, self._asked_of = {}, "", None
        if self._box is not None and changes & {"graph", "space"}:
            self._write()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        for place in range(self._bar_row.count()):
            self._bar_row.itemAt(place).widget().set_theme(theme)
        self._write()

    def _write(self) -> None:
        t, box = self.theme, self._box
        self.page.document().setDefaultStyleSheet(
            f"a {{ color: {t.accent}; }} .name {{ color: {t.muted}; }} .bad {{ color: {t.bad}; }}"
        )
        if box is None:
            self.page.setHtml(f"<p class='name'>{EMPTY}</p>")
            return
        heading = box.unit.group or box.unit.nodes[0].name
        warning = f"<p class='bad'>⚠ {escape(box.warning)}</p>" if box.warning else ""
        rows = "".join(
            f"<tr><td class='name'>{name}&nbsp;&nbsp;</td><td>{value}</td></tr>"
            for name, value in self._rows(box)
        )
        bar = self.page.verticalScrollBar()
        at = bar.value()
        self.page.setHtml(f"<b>{escape(heading)}</b>{warning}<table>{rows}</table>")
        bar.setValue(at)

    def _rows(self, box: Box) -> Iterator[Row]:
        for by in COLOUR_BY:
            value = by.value(self.facts, box.unit.nodes)
            if value is not None:
                yield (
                    escape(by.title),
                    f"{escape(by.say(value))}<span class='name'> {by.source}</span>",
                )
        if box.node is None:
            yield from self._of_group(box)
        else:
            yield from self._of_node(box.node)

    def _of_group(self, box: Box) -> Iterator[Row]:
        nodes = box.unit.nodes
        yield "nodes", f"{len(nodes)}, fused from {sum(len(n.source) for n in nodes)} ONNX nodes"
        kinds: dict[str, int] = {}
        for node in nodes:
            kinds[node.op] = kinds.get(node.op, 0) + 1
        for op, count in sorted(kinds.items(), key=lambda item: -item[1])[:SOURCES]:
            yield f"{count} x", escape(op)
        red = {key for key, w in self._session.state.workloads.items() if warning_of(w)}
        loud = [n for n in nodes if n.workload in red]
        if loud:
            yield "in red", escape(", ".join(n.name for n in loud[:SOURCES]))

    def _of_node(self, node: Node) -> Iterator[Row]:
        model, state = self._session.state.model, self._session.state
        assert model is not None
        for title, names in (("reads", node.inputs), ("writes", node.outputs)):
            for name in names:
                spec = model.graph.tensors.get(name)
                if spec is not None:
                    shape = f"{text.shape(spec.shape)} {spec.dtype}, {text.nbytes(spec.nbytes)}"
                    yield title, f"{escape(shape)} <span class='name'>{escape(name)}</span>"
        for name in node.source[:SOURCES]:
            known = dict(self._attributes.get(name, {}))
            op = known.pop("op", "")
            said = ", ".join(f"{key}={value}" for key, value in known.items())
            yield "fused from", f"{escape(f'{op} {said}')} <span class='name'>{escape(name)}</span>"
        if self._attributes_problem:
            yield "attributes", f"<span class='bad'>{escape(self._attributes_problem)}</span>"
        if len(node.source) > SOURCES:
            yield "", f"and {len(node.source) - SOURCES} more ONNX nodes"
        if node.flops:
            yield "operations", f"{text.count(node.flops)} FLOP a run"
        workload = state.find(node.workload)
        if workload is None:
            return
        uses = workload.workload.uses
        said = f"{escape(workload.workload.name)}, used by {uses} node{'s' * (uses > 1)}"
        yield "workload", said
        settings = workload.incumbent or "default"
        mine = [r for r in self._records if r.workload == node.workload]
        running = [r for r in mine if r.settings == settings]
        code = ""
        if running:
            record = running[0]
            code = f", {record.key.tier}, {text.nbytes(len(record.wasm))}"
        yield "kernel", escape(f"{settings}{code}") + self._link(DO + "kernel", "inspect")
        if workload.candidates:
            rows = workload.rows()
            tried = [r for r in rows if r.state not in (NOT_TRIED, INCUMBENT)]
            best = max((r.gflops for r in rows if r.gflops), default=0.0)
            told = f"{len(rows)}, {len(tried)} tried, best {best:.1f} GFLOP/s"
        else:
            told = "none yet: F5 tunes" if workload.workload.tunable else "no lite space"
        yield "candidates", told + self._link("space", "show")
        yield "database", f"{len(mine)} rows" + self._link("database", "show")
        yield "profile", self._profiled(node)
        yield "diff", self._compared(node)
        if self._weights_problem:
            yield "weights", f"<span class='bad'>{escape(self._weights_problem)}</span>"
        for w in self.weights:
            yield "weights", escape(describe(w))

    def _profiled(self, node: Node) -> str:
        steps = self.profile.steps if self.profile is not None else ()
        step = next((s for s in steps if s.node == node.name), None)
        if step is None:
            return "none yet" + self._link("do:profile", "profile (F6)")
        roof = "" if step.percent_of_roof is None else f", {step.percent_of_roof:.0f} % of the roof"
        bound = f", bound by {step.bound}" if step.bound else ""
        return f"{step.ms:.4f} ms, IQR {step.iqr_ms:.4f}{roof}{bound}" + self._link(
            "profile", "show"
        )

    def _compared(self, node: Node) -> str:
        found = [t for t in self.diff.tensors if t.node == node.name] if self.diff else []
        if not found:
            return "not compared yet" + self._link("do:diff_node", "compare (Shift+F7)")
        worst = max(found, key=lambda t: t.max_rel)
        said = f"largest error {worst.max_rel:.2e} of its scale"
        return said + self._link("diff", "show")

    def _link(self, where: str, words: str) -> str:
        there = where.startswith(DO) or where in self.places
        return f" &nbsp;<a href='{where}'>{words}</a>" if there else ""

    def _take_records(self, records: list[TuningRecord]) -> None:
        self._records = records
        if self._box is not None:
            self._write()

    def _read_weights(self, node: Node | None) -> None:
        model = self._session.state.model
        self._wanted = None
        if node is None or model is None or not len(getattr(model.plan, "buffers", ())):
            return
        work = (model.weights, model.graph, model.plan, node)
        if not self._reader.start("weights", lambda _: (node.name, histograms(*work))):
            self._wanted = node

    def _take_weights(self, found: object, problem: str) -> None:
        if self._wanted is not None:
            self._read_weights(self._wanted)
            return
        name, weights = found if found else (self._read, [])  # type: ignore[misc]
        if name == self._read:
            self._show_bars(weights, problem)
            self._write()

    def _read_attributes(self) -> None:
        """Once for each model, when its first node is looked at."""
        model, bench = self._session.state.model, self._session.workbench
        if model is not None and self._read and self._asked_of is not model and not self._onnx.job:
            self._asked_of = model
            self._onnx.start("attributes", lambda _: (model, bench.run(onnx_attributes)))

    def _take_attributes(
        self, model: object, found: dict[str, dict[str, str]], problem: str = ""
    ) -> None:
        if model is self._session.state.model:
            self._attributes, self._attributes_problem = found, problem
            self._write()

    def _show_bars(self, weights: list[Histogram], problem: str = "") -> None:
        self.weights, self._weights_problem = weights, problem
        while self._bar_row.count():
            self._bar_row.takeAt(0).widget().deleteLater()
        for weight in sorted(weights, key=lambda w: -len(w.shape))[:3]:
            self._bar_row.addWidget(Bars(weight, self.theme))
        self.bars.setVisible(bool(weights))

    def _follow(self, url: QUrl) -> None:
        if self._box is not None and self._box.node is not None:
            self.asked.emit(url.toString(), self._box.node.name)


class Bars(QWidget):
    """The histogram of one weight."""

    def __init__(self, weight: Histogram, theme: Theme) -> None:
        super().__init__()
        self.weight, self.theme = weight, theme
        self.setFixedHeight(BARS_HEIGHT)
        self.setFont(scaled_font(self.font(), 0.8))
        named(self, f"Histogram of {weight.tensor}", describe(weight))

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        low = self.fontMetrics().height()
        room = QRectF(self.rect()).adjusted(0, 2, 0, -low)
        counts = self.weight.counts
        most = max(counts, default=0) or 1
        wide = room.width() / len(counts)
        colour = QColor(self.theme.series[0])
        for i, count in enumerate(counts):
            tall = room.height() * count / most
            painter.fillRect(
                QRectF(room.left() + i * wide, room.bottom() - tall, max(1.0, wide - 1), tall),
                colour,
            )
        painter.setPen(QColor(self.theme.muted))
        base = self.height() - 3
        end = f"{self.weight.high:.3g}"
        painter.drawText(0, base, f"{self.weight.low:.3g}")
        painter.drawText(self.width() - self.fontMetrics().horizontalAdvance(end), base, end)


def describe(w: Histogram) -> str:
    """A weight in a line."""
    strange = f", {w.strange} NaN or infinite" if w.strange else ""
    some = "" if w.every == 1 else f" (one number in {w.every} was looked at)"
    return (
        f"{w.tensor}: {text.shape(w.shape)} {w.dtype}, {w.low:.4g} to {w.high:.4g}, mean "
        f"{w.mean:.4g}, standard deviation {w.std:.4g}, {w.zeros:,} zeros{strange}{some}"
    )
