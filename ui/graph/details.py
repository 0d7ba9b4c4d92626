"""The facts of the node that is current in the graph, and histograms of its weights."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from PySide6.QtCore import QRectF, QUrl, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QTextBrowser, QWidget

from nnjit_studio.model import Node
from nnjit_studio.records import TuningRecord
from nnjit_studio.ui.graph.boxes import Box
from nnjit_studio.ui.graph.node_texts import Known, Row, describe, passes_rows, rows_of
from nnjit_studio.ui.graph.weights import Histogram, histograms
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import Panel, clear, hbox, named, scaled_font, vbox
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.ui.widgets.worker import Worker

EMPTY = "Click a box, or walk with Up and Down: its facts appear here."
BARS_HEIGHT = 80
MOST_BARS = 3
Attributes = dict[str, dict[str, str]]


def _table(rows: Iterable[Row]) -> str:
    return "<table>{}</table>".format(
        "".join(
            f"<tr><td class='name'>{name}&nbsp;&nbsp;</td><td>{value}</td></tr>"
            for name, value in rows
        )
    )


class NodeDetails(Panel):
    """A table of facts; the histograms of the weights come when they have been read."""

    asked = Signal(str, str)
    """A link was followed: the dock or action it names, and the node."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__()
        self._session, self.theme = session, theme
        self.known = Known()
        self._box: Box | None = None
        self._read = ""
        self._wanted: Node | None = None
        self._asked_of: object = None
        self._onnx = Worker(self)
        self._onnx.returned.connect(lambda _, found: self._take_attributes(*found))
        self._onnx.failed.connect(
            lambda _, error: self._take_attributes(self._asked_of, {}, str(error))
        )
        self._reader = Worker(self)
        self._reader.returned.connect(lambda _, found: self._take_weights(*found))
        self._reader.failed.connect(lambda _, error: self._take_weights(self._read, [], str(error)))
        self.page = named(QTextBrowser(), "Details of the node")
        self.page.setOpenLinks(False)
        self.page.setFrameShape(QFrame.Shape.NoFrame)
        self.page.setFont(scaled_font(self.page.font(), 0.9))
        self.page.anchorClicked.connect(self._follow)
        self.bars = QWidget()
        self._bar_row = hbox(on=self.bars, margins=(8, 2, 8, 4), spacing=20)
        vbox((self.page, 1), self.bars, on=self)
        session.records.connect(self._take_records)
        self.show_box(None)

    def show_box(self, box: Box | None) -> None:
        """Show the facts of a box, or of none."""
        self._box = box if box is not None and box.unit.nodes else None
        node = self._box.node if self._box is not None else None
        if node is None or node.name != self._read:
            self._read = node.name if node is not None else ""
            self._show_weights([])
            self._read_weights(node)
            self._read_attributes()
        self._write()

    def refresh(self, changes: frozenset[str]) -> None:
        if "model" in changes:
            self._asked_of = None
            known = self.known
            self.known = Known(known.facts, records=known.records, places=known.places)
        if changes & {"graph", "space", "model"}:
            self._write()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        for bars in self.bars.findChildren(WeightBars):
            bars.set_theme(theme)
        self._write()

    def _write_again(self) -> None:
        if self._box is not None:
            self._write()

    def _write(self) -> None:
        t, box = self.theme, self._box
        self.page.document().setDefaultStyleSheet(
            f"a {{ color: {t.accent}; }} .name {{ color: {t.muted}; }} .bad {{ color: {t.bad}; }}"
        )
        if box is None:
            model = self._session.state.model
            passes = model.graph.passes if model is not None else ()
            self.page.setHtml(f"<p class='name'>{EMPTY}</p>{_table(passes_rows(passes))}")
            return
        heading = box.unit.group or box.unit.nodes[0].name
        warning = f"<p class='bad'>⚠ {escape(box.warning)}</p>" if box.warning else ""
        rows = _table(rows_of(box.unit, self.known, self._session.state))
        bar = self.page.verticalScrollBar()
        at = bar.value()
        self.page.setHtml(f"<b>{escape(heading)}</b>{warning}{rows}")
        bar.setValue(at)

    def _take_records(self, records: list[TuningRecord]) -> None:
        self.known.records = records
        self._write_again()

    def _read_weights(self, node: Node | None) -> None:
        model = self._session.state.model
        self._wanted = None
        if node is None or model is None or not len(getattr(model.plan, "buffers", ())):
            return
        work = (model.weights, model.graph, model.plan, node)
        if not self._reader.start("weights", lambda _: (node.name, histograms(*work))):
            self._wanted = node

    def _take_weights(self, name: str, weights: list[Histogram], problem: str = "") -> None:
        if self._wanted is not None:
            self._read_weights(self._wanted)
        elif name == self._read:
            self._show_weights(weights, problem)
            self._write()

    def _read_attributes(self) -> None:
        """Once for each model, when its first node is shown."""
        model, process = self._session.state.model, self._session.workbench.process
        if model is not None and self._read and self._asked_of is not model and not self._onnx.job:
            self._asked_of = model
            path = model.path
            self._onnx.start("attributes", lambda _: (model, process.onnx_attributes(path)))

    def _take_attributes(self, model: object, found: Attributes, problem: str = "") -> None:
        if model is self._session.state.model:
            self.known.attributes, self.known.attributes_problem = found, problem
            self._write()

    def _show_weights(self, weights: list[Histogram], problem: str = "") -> None:
        self.known.weights, self.known.weights_problem = weights, problem
        clear(self._bar_row)
        for weight in sorted(weights, key=lambda w: -len(w.shape))[:MOST_BARS]:
            self._bar_row.addWidget(WeightBars(weight, self.theme))
        self.bars.setVisible(bool(weights))

    def _follow(self, url: QUrl) -> None:
        if self._box is not None and self._box.node is not None:
            self.asked.emit(url.toString(), self._box.node.name)


class WeightBars(QWidget):
    """The histogram of one weight, below its shape and name."""

    def __init__(self, weight: Histogram, theme: Theme) -> None:
        super().__init__()
        self.weight, self.theme = weight, theme
        self.setFixedHeight(BARS_HEIGHT)
        self.setFont(scaled_font(self.font(), 0.8))
        named(self, f"Histogram of {weight.tensor}", describe(weight))
        self.title = quiet(ElidedLabel(f"{text.shape(weight.shape)}  {weight.tensor}"))
        self.title.tip = describe(weight)
        vbox(self.title, None, on=self)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        low = self.fontMetrics().height()
        room = QRectF(self.rect()).adjusted(0, self.title.height() + 2, 0, -low)
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
