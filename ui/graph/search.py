"""The search field of the graph: nodes that were found, and steps from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QLineEdit, QToolButton, QWidget

from nnjit_studio.model import Node
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import hbox, named


class GraphSearch(QWidget):
    """A field, the number of nodes found, and two arrows."""

    changed = Signal()
    """Other nodes are found now."""
    wanted = Signal(object)
    """``Node``: One of them is to be shown."""

    def __init__(self, find: Callable[[str], Sequence[Node]]) -> None:
        super().__init__()
        self._find_nodes = find
        self.found: Sequence[Node] = ()
        self._place = -1
        self.field = named(
            QLineEdit(placeholderText="Find op, shape or ONNX node"), "Find in graph"
        )
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(lambda _: self.search())
        self.field.returnPressed.connect(lambda: self.step(1))
        self.hits = quiet(QLabel())
        back = self._arrow("Previous found", Qt.ArrowType.UpArrow, "Shift+F3", -1)
        on = self._arrow("Next found", Qt.ArrowType.DownArrow, "F3", 1)
        hbox((self.field, 1), self.hits, back, on, on=self, spacing=2)

    def begin(self) -> None:
        """Take the keyboard's focus."""
        self.field.setFocus()
        self.field.selectAll()

    def search(self) -> None:
        """Search again, after the text or the graph has changed."""
        self.found, self._place = self._find_nodes(self.field.text()), -1
        self._count()
        self.changed.emit()

    def step(self, step: int) -> None:
        """Show the next (1) or previous (-1) node that was found."""
        if self.found:
            at = self._place + step if self._place >= 0 else min(0, step)
            self._place = at % len(self.found)
            self._count()
            self.wanted.emit(self.found[self._place])

    def _count(self) -> None:
        place = f"{self._place + 1} of " if self._place >= 0 else ""
        found = f"{place}{len(self.found)} found"
        self.hits.setText(found if self.field.text().strip() else "")

    def _arrow(self, name: str, arrow: Qt.ArrowType, keys: str, step: int) -> QToolButton:
        button = named(QToolButton(), name, f"{name} ({keys})")
        button.setArrowType(arrow)
        button.setAutoRaise(True)
        button.clicked.connect(lambda: self.step(step))
        return button
