"""From a node of the graph to its rows in other docks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDockWidget

from nnjit_studio.ui.state.session import Session
from nnjit_studio.ui.widgets.tables import TablePanel

DO = "do:"
"""Before the name of an action, in a link."""


class Links:
    """Follows the links of the details: a dock to show, or an action to start."""

    def __init__(
        self,
        session: Session,
        docks: Mapping[str, QDockWidget],
        actions: Mapping[str, QAction],
        show: Callable[[str], object],
    ) -> None:
        self._session, self._docks, self._actions, self._show = session, docks, actions, show

    def follow(self, link: str, node: str) -> bool:
        """Do what a link says for a node; False where this window has nothing such."""
        if link.startswith(DO):
            action = self._actions.get(link[len(DO) :])
            if action is not None:
                action.trigger()
            return action is not None
        if link not in self._docks:
            return False
        self._show(link)
        workload = self._workload(node)
        panel = self._docks[link].widget()
        if link in ("profile", "diff"):
            select(panel, lambda row: row.node == node)
        elif link == "database":
            select(panel, lambda row: getattr(row, "workload", "") == workload)
        return True

    def _workload(self, node: str) -> str:
        model = self._session.state.model
        nodes = model.graph.nodes if model is not None else ()
        return next((n.workload for n in nodes if n.name == node), "")


def select(panel: TablePanel, wanted: Callable[[Any], bool]) -> bool:
    """Select the first row, as shown, that is wanted; a filter that hides it is cleared."""
    if not any(wanted(row) for row in panel.model.rows):
        return False
    for _ in range(2):
        for place in range(panel.proxy.rowCount()):
            index = panel.proxy.index(place, 0)
            if wanted(panel.model.rows[panel.proxy.mapToSource(index).row()]):
                panel.view.selectRow(place)
                panel.view.scrollTo(index)
                return True
        panel.filter.clear()
    return False
