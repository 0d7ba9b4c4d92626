"""The model graph with its search field and legend."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QLinearGradient, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QStackedLayout, QVBoxLayout, QWidget

from nnjit_studio.ui import text
from nnjit_studio.ui.docks.graph_scene import Box, GraphView
from nnjit_studio.ui.session import Session
from nnjit_studio.ui.state import SessionState
from nnjit_studio.ui.theme import Theme, heat, named, panel, scaled_font


class Legend(QWidget):
    """What the colours say, with units; before any profile it says that."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self.top: float | None = None
        self.setFont(scaled_font(self.font(), 0.85))
        self.setFixedHeight(self.fontMetrics().height() + 14)

    @property
    def words(self) -> str:
        if self.top is None:
            return "No profile yet: boxes are neutral until the model has run once."
        return f"share of model time per node: 0 to {self.top * 100:.1f} %"

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self.theme.surface)
        painter.setPen(self.theme.muted)
        room = QRectF(self.rect()).adjusted(8, 0, -8, 0)
        middle = Qt.AlignmentFlag.AlignVCenter
        if self.top is None:
            painter.drawText(room, middle, self.words)
            return
        bar = QRectF(room.left(), room.center().y() - 5, 90, 10)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for i in range(7):
            gradient.setColorAt(i / 6, heat(self.theme, i / 6))
        painter.fillRect(bar, gradient)
        painter.drawText(room.adjusted(98, 0, 0, 0), middle, self.words)


class GraphPanel(QWidget):
    """Renders the graph of the session; clicks and searches select workloads."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        panel(self)
        self._session = session
        self._shown: object = None
        self._hits: list[Box] = []
        self.view = GraphView(theme)
        self.view.clicked.connect(session.select)
        self.legend = Legend(theme)
        self.search = named(
            QLineEdit(placeholderText="Find op, shape or ONNX node"), "Find in graph"
        )
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._find)
        self.search.returnPressed.connect(self._next)
        self.hits = QLabel()
        self.hits.setObjectName("muted")
        empty = QLabel(
            "The model graph appears here.\n\nDrop an .onnx model on the window,\nor press Ctrl+O.",
            alignment=Qt.AlignmentFlag.AlignCenter,
        )
        empty.setObjectName("empty")
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 6, 8, 4)
        bar.addWidget(self.search, 1)
        bar.addWidget(self.hits)
        self.pages = QStackedLayout()
        self.pages.addWidget(empty)
        self.pages.addWidget(self.view)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(bar)
        layout.addLayout(self.pages, 1)
        layout.addWidget(self.legend)

    def render(self, changes: frozenset[str]) -> None:
        state = self._session.state
        if "model" in changes and state.model is not None and state.model is not self._shown:
            self._shown = state.model
            self.pages.setCurrentIndex(1)
            self.view.show_graph(state.model.graph)
            self._find(self.search.text())
        if "graph" in changes and state.model is not None:
            self._colour(state)
            self.view.select_workload(state.selected)

    def set_theme(self, theme: Theme) -> None:
        self.legend.theme = theme
        self.view.set_theme(theme)
        self.legend.update()

    def _colour(self, state: SessionState) -> None:
        total = sum(state.node_ms.values())
        top = max(state.node_ms.values(), default=0.0)
        self.legend.top = top / total if total else None
        self.legend.update()
        for box in self.view.boxes.values():
            if box.node is None:
                continue
            ms = state.node_ms.get(box.node.name) if total else None
            box.fraction = None if ms is None or not top else ms / top
            box.cost = "" if ms is None else f"{text.latency(ms)} ms   {100 * ms / total:.1f} %"
            box.setToolTip(_tooltip(box, ms, state))
        self.view.scene().update()

    def _find(self, words: str) -> None:
        self._hits = self.view.find(words)
        self.hits.setText(f"{len(self._hits)} found" if words.strip() else "")
        if self._hits:
            self.view.centerOn(self._hits[0])

    def _next(self) -> None:
        if self._hits:
            hit = self._hits[0]
            self._hits = [*self._hits[1:], hit]
            self.view.centerOn(hit)
            if hit.node is not None:
                self._session.select(hit.node.workload)


def _tooltip(box: Box, ms: float | None, state: SessionState) -> str:
    node = box.node
    assert node is not None
    workload = state.find(node.workload)
    lines = [node.op, f"workload  {text.short_key(node.workload)}"]
    if workload is not None:
        lines.append(f"used by {workload.workload.uses} nodes")
        if workload.incumbent and state.code:
            lines.append(f"{state.code} kernel  {workload.incumbent}")
    if ms is not None:
        rate = f",  {node.flops / ms / 1e6:.1f} GFLOP/s" if node.flops and ms else ""
        lines.append(f"{text.latency(ms)} ms{rate}")
    if node.source:
        names = list(node.source[:8])
        more = len(node.source) - len(names)
        lines += ["", "ONNX nodes:", *names, *([f"and {more} more"] if more else [])]
    return "\n".join(lines)
