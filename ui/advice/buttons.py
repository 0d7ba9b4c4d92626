"""The buttons in the rows of advice: what is done with each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtWidgets import QPushButton, QTableView, QWidget

from nnjit_studio.ui.advice.lines import ANYWAY, BUTTON, Line
from nnjit_studio.ui.widgets.panel import push_button, vbox


class RowButtons:
    """Buttons by the names of their lines; Tab goes from the list to that of the selected row.

    Parameters
    ----------
    act
        Called with the name of a line whose button was pressed.
    """

    def __init__(self, view: QTableView, act: Callable[[str], object]) -> None:
        self._view, self._act = view, act
        self.by_name: dict[str, QPushButton] = {}

    def put(self, lines: Sequence[Line], best: str, low: bool) -> None:
        """Lay the buttons of these lines into their rows, unless the same are there.

        ``best`` is the name of the line that is proposed.
        """
        wanted = {line.name: (line.action, low) for line in lines if line.action}
        there = {n: (b.text(), bool(b.property("low"))) for n, b in self.by_name.items()}
        if list(wanted.items()) == list(there.items()):
            return
        self.by_name = {}
        model = self._view.model()
        for place, line in enumerate(lines):
            index: QModelIndex = model.index(place, BUTTON)
            if line.action:
                made = self._made(line, low)
                if line.name == best and line.action != ANYWAY:
                    made.setObjectName("primary")
                self._view.setIndexWidget(index, self._framed(made))
            elif self._view.indexWidget(index) is not None:
                self._view.setIndexWidget(index, None)  # type: ignore[arg-type]

    def reach(self, chosen: str) -> None:
        """Have Tab reach the button of this line alone: a list is one stop of many rows."""
        policy = Qt.FocusPolicy
        for name, button in self.by_name.items():
            button.setFocusPolicy(policy.StrongFocus if name == chosen else policy.ClickFocus)

    def enable(self, possible: bool) -> None:
        for button in self.by_name.values():
            button.setEnabled(possible)

    def _made(self, line: Line, low: bool) -> QPushButton:
        button = push_button(line.action, f"{line.action}: {line.title}", line.note)
        button.setProperty("low", low)
        if line.action == ANYWAY:
            button.setObjectName("danger")
        # A click may replace this very button: it has to end first.
        button.clicked.connect(
            lambda: QTimer.singleShot(0, self._view, lambda: self._act(line.name))
        )
        self.by_name[line.name] = button
        return button

    def _framed(self, button: QPushButton) -> QWidget:
        """The button at its own height in the middle of a row."""
        # The view owns it: it would go with its last reference, while the view still places it.
        frame = QWidget(self._view.viewport())
        vbox(None, button, None, on=frame, margins=(2, 0, 6, 0))
        return frame
