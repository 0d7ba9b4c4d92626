"""Tables whose rows name kernels: F4 and a double click inspect them."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction

from nnjit_studio.ui.widgets.tables import TablePanel


class KernelTables(QObject):
    """Finds the kernel of a row.

    Signals
    -------
    wanted(str, str)
        A kernel is to be inspected: the key of its workload, empty for the selected one, and its
        settings, empty for the kernel that runs.
    """

    wanted = Signal(str, str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._tables: list[TablePanel] = []

    def add(self, table: TablePanel, inspect: QAction) -> None:
        """Lead from the rows of a table, which have ``settings`` and may name a ``workload``."""
        self._tables.append(table)
        table.view.addAction(inspect)
        table.view.doubleClicked.connect(lambda _: self._want_row(table))

    def want(self) -> None:
        """Inspect the kernel of the selected row that has the focus, else the one that runs."""
        for table in self._tables:
            if table.view.hasFocus() and table.view.selectionModel().hasSelection():
                return self._want_row(table)
        return self.wanted.emit("", "")

    def _want_row(self, table: TablePanel) -> None:
        rows = table.view.selectionModel().selectedRows()
        if rows:
            row = table.row_at(rows[0])
            self.wanted.emit(getattr(row, "workload", ""), row.settings)
