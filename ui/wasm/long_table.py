"""A table of tens of thousands of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt

from nnjit_studio.ui.widgets.tables import Column, OwnOrder, TablePanel, missing
from nnjit_studio.ui.widgets.theme import Theme


class LongTable(TablePanel):
    """Sorts and filters its rows as a list, which Qt's own way takes too long for."""

    def __init__(self, title: str, columns: Sequence[Column], theme: Theme) -> None:
        order = OwnOrder()
        self._rows: list[Any] = []
        super().__init__(title, columns, theme, order)
        self._sorted = (-1, Qt.SortOrder.DescendingOrder)
        order.wanted.connect(self._sort)
        self.filter.textChanged.connect(lambda _: self.show_some())

    def words(self, row: Any) -> str:
        """What of a row the filter looks at."""
        return " ".join(column.text(column.value(row)) for column in self.model.columns)

    def show_all(self, rows: Sequence[Any], column: int, order: Qt.SortOrder) -> None:
        """Show these rows, sorted by a column; -1 leaves them in their order."""
        self._rows, self._sorted = list(rows), (column, order)
        self.view.horizontalHeader().setSortIndicator(column, order)
        self.show_some()

    def show_some(self) -> None:
        """Show the rows that hold all words of the filter."""
        wanted = self.filter.text().lower().split()
        rows = self._rows
        if wanted:
            rows = [r for r in rows if _holds(self.words(r).lower(), wanted)]
        place, order = self._sorted
        if place < 0:
            self.model.set_rows(rows, keep=False)
            return
        value = self.model.columns[place].value
        known = [row for row in rows if not missing(value(row)) and value(row) != ""]
        known.sort(key=value, reverse=order == Qt.SortOrder.DescendingOrder)
        unknown = [row for row in rows if missing(value(row)) or value(row) == ""]
        self.model.set_rows(known + unknown, keep=False)

    def hidden_rows(self) -> int:
        return 0 if self.model.rows else len(self._rows)

    def _sort(self, column: int, order: Qt.SortOrder) -> None:
        self._sorted = (column, order)
        self.show_some()


def _holds(line: str, wanted: Sequence[str]) -> bool:
    return all(word in line for word in wanted)
