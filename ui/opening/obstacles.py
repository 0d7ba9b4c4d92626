"""A model that cannot be imported: what stands in its way, and its run in native ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel, QTableWidget, QTableWidgetItem, QWidget

from nnjit_studio.model.native_run import NativeRun
from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.panel import named, scaled_font, vbox

MOST_NODES = 200
NAMED = 3
"""Nodes of an operator that are named."""


class ObstaclesDialog(QDialog):
    """The refusal, every operator without a rule, and the time of each node as it runs natively."""

    def __init__(
        self, survey: Survey, refusal: str, run: NativeRun | None, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"What stands in the way of {survey.path.name}")
        self.summary = QLabel(refusal, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        parts: list[QWidget | tuple[QWidget, int]] = [self.summary]
        rows = [
            (o.op, str(len(o.nodes)), ", ".join(o.nodes[:NAMED]), o.why) for o in survey.obstacles
        ]
        self.obstacles = _table("Obstacles", ("operator", "nodes", "such as", "why"), rows)
        if rows:
            parts += [_heading("Operators without a rule"), (self.obstacles, 1)]
        nodes = run.nodes[:MOST_NODES] if run is not None else ()
        total = sum(node.ms for node in run.nodes) if run is not None else 0.0
        self.nodes = _table(
            "Nodes in native ONNX Runtime",
            ("node", "operator", "ms", "share"),
            [
                (n.name, n.op, text.fixed(n.ms, 3), f"{100 * n.ms / total:.1f} %" if total else "")
                for n in nodes
            ],
        )
        if run is not None:
            parts += [_heading(told(run)), (self.nodes, 2)]
        vbox(*parts, on=self, margins=(18, 14, 18, 14), spacing=8)
        self.resize(720, 520 if run is not None else 300)


def told(run: NativeRun) -> str:
    """A run in a sentence."""
    made = ", ".join(f"{name} {text.shape(shape)}" for name, shape in run.outputs.items())
    return (
        f"Native ONNX Runtime runs it in {text.latency(run.ms)} ms on one thread of this machine "
        f"(median of {run.runs}); outputs {made}."
    )


def _table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> QTableWidget:
    table = named(QTableWidget(len(rows), len(heads)), name)
    table.setHorizontalHeaderLabels(list(heads))
    table.verticalHeader().hide()
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    table.horizontalHeader().setStretchLastSection(True)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            table.setItem(i, j, QTableWidgetItem(cell))
    table.resizeColumnsToContents()
    return table


def _heading(words: str) -> QLabel:
    label = QLabel(words, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
    label.setFont(scaled_font(label.font(), 1.0, bold=True))
    return label
