"""The height of the views in the middle: what passes above them takes it, and gives it back."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow


class MiddleHeight(QObject):
    """Remembers how high the middle was at each height of the stage.

    Qt takes the height of a message from the middle and gives it back to the docks below, so that
    each message would leave the middle lower. Where the user moves the edge between them, what was
    remembered is forgotten.

    Parameters
    ----------
    docks
        Those of the middle, behind one another.
    """

    def __init__(self, stage: QMainWindow, docks: Sequence[QDockWidget]) -> None:
        super().__init__(stage)
        self._stage, self._docks = stage, docks
        self._heights: dict[int, int] = {}
        self._settled = 0
        for watched in (stage, *docks):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            if watched is self._stage:
                QTimer.singleShot(0, self, self._put_back)
            elif watched is self._dock() and self.settled:
                self._heights.clear()
                self._settle()
        return False

    @property
    def settled(self) -> bool:
        """Whether the docks have their heights for the stage as it is."""
        return self._settled == self._stage.height()

    def _put_back(self) -> None:
        dock, height = self._dock(), self._heights.get(self._stage.height(), 0)
        view = dock.widget() if dock is not None else None
        if dock is not None and view is not None and view.height() < height:
            view.setMinimumHeight(height)  # resizeDocks() makes the docks below no lower
            for holder in (dock, self._stage):
                QCoreApplication.sendPostedEvents(holder, QEvent.Type.LayoutRequest)
            view.setMinimumHeight(0)
        self._settle()

    def _settle(self) -> None:
        dock = self._dock()
        if dock is not None:
            self._settled = self._stage.height()
            self._heights.setdefault(self._settled, dock.height())

    def _dock(self) -> QDockWidget | None:
        """The dock of the middle that is in sight; those behind it have no place."""
        area = Qt.DockWidgetArea.LeftDockWidgetArea
        placed = (dock for dock in self._docks if self._stage.dockWidgetArea(dock) == area)
        seen = (d for d in placed if d.isVisible() and not d.isFloating() and d.y() >= 0)
        return next(seen, None)
