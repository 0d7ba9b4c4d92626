"""The ways into the kernel inspector: a node, a row of the lite space, a record, a key."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction

from nnjit_studio.ui.kernel.dock import KernelPanel
from nnjit_studio.ui.state.session import Session
from nnjit_studio.ui.widgets.message_bar import MessageBar
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.ui.widgets.text import short_key


class KernelLinks:
    """Finds out which kernel is meant, and shows it in the view that ``kernel`` gives."""

    def __init__(
        self,
        session: Session,
        kernel: Callable[[], KernelPanel],
        action: QAction,
        show: Callable[[], None],
        message: MessageBar,
    ) -> None:
        self._session, self._kernel, self._action = session, kernel, action
        self._show, self._message = show, message
        self._tables: list[TablePanel] = []

    def offer(self, table: TablePanel) -> None:
        """Lead from the rows of a table, which have ``settings`` and may name a ``workload``."""
        self._tables.append(table)
        table.view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        table.view.addAction(self._action)
        table.view.doubleClicked.connect(lambda _: self._of_row(table))

    def inspect(self) -> None:
        """The row of the table that has the focus, else the kernel of the selected workload."""
        for table in self._tables:
            if table.view.hasFocus() and table.view.selectionModel().hasSelection():
                return self._of_row(table)
        return self._look("", "")

    def _of_row(self, table: TablePanel) -> None:
        rows = table.view.selectionModel().selectedRows()
        if not rows:
            return
        found = table.model.rows[table.proxy.mapToSource(rows[0]).row()]
        self._look(getattr(found, "workload", ""), found.settings)

    def _look(self, workload: str, settings: str) -> None:
        state = self._session.state
        if state.model is None:
            self._message.say("No model is open: open one first (Ctrl+O), then inspect a kernel.")
        elif workload and workload not in state.workloads:
            self._message.say(
                f"The open model has no {short_key(workload)}: open the model that this record is "
                "of to compile its kernel."
            )
        else:
            if workload:
                self._session.select(workload)
            self._show()
            self._kernel().look(settings)
