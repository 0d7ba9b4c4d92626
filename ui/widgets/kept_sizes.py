"""Column and drawer keep their sizes: what the stage gains or loses is the middle's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QStyle

_PLACED = (QEvent.Type.Resize, QEvent.Type.Move)
"""Told of a dock that gets another size, and of one that comes to the front among tabs."""
STAGE, OUTSIDE = "stage", "outside"
"""Names of the stage's size, and of that of column and drawer, among those of docks."""

Sizes = Mapping[str, QSize]
"""By name."""


class KeptSizes(QObject):
    """Remembers the sizes that docks had, or that the user gave them, while the stage's changes.

    Qt gives what a window gains to the docks on the right and below, and takes the height of a
    message from the middle, which does not get it back. The middle is the dock area on the left.
    """

    def __init__(self, stage: QMainWindow, docks: Sequence[QDockWidget]) -> None:
        super().__init__(stage)
        self._stage, self._docks = stage, docks
        self._settled, self._outside = QSize(), QSize()
        self._sizes: dict[QDockWidget, QSize] = {}
        self._earlier: Sizes | None = None
        for watched in (stage, *docks):
            watched.installEventFilter(self)

    def sizes(self) -> Sizes:
        """What a later window may :meth:`take`; empty before the stage was seen."""
        if not self._outside.isValid():
            return {}
        docks = {dock.objectName(): size for dock, size in self._sizes.items()}
        return {STAGE: self._settled, OUTSIDE: self._outside, **docks}

    @property
    def column(self) -> int:
        """Width that the column has where there is room for it; 0 where that is unknown."""
        return max(0, self._outside.width() - self.edge)

    @property
    def edge(self) -> int:
        """Pixels between two docks."""
        return self._stage.style().pixelMetric(QStyle.PixelMetric.PM_DockWidgetSeparatorExtent)

    def take(self, sizes: Sizes) -> None:
        """Sizes of an earlier window, for the moment at which the stage is seen first: Qt keeps
        how much of the stage each dock had, and a stage without a verdict above it is higher."""
        self._earlier = sizes if {STAGE, OUTSIDE} <= sizes.keys() else None

    def _put_earlier(self, sizes: Sizes) -> None:
        self._earlier = None
        if layout := self._stage.layout():
            layout.activate()  # tells which docks are in front, and learns their sizes
        self._settled, self._outside = sizes[STAGE], sizes[OUTSIDE]
        self._sizes = {d: sizes[d.objectName()] for d in self._docks if d.objectName() in sizes}
        self._put_back()
        self._settled = self._stage.size()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._stage and event.type() == QEvent.Type.Show and self._earlier:
            self._put_earlier(self._earlier)
        if event.type() not in _PLACED:
            return False
        seen = self._stage.isVisible()  # else it is not shown yet, or is taken apart
        if watched is not self._stage:
            if seen and self._settled == self._stage.size():
                self._learn()
        elif event.type() == QEvent.Type.Resize:
            if seen:
                self._put_back()
            self._settled = self._stage.size()
        return False

    def _learn(self) -> None:
        self._sizes = {dock: dock.size() for dock in self._docks if self._is_placed(dock)}
        middle = self._in(Qt.DockWidgetArea.LeftDockWidgetArea)
        if middle:
            self._outside = self._settled - _extent(middle)

    def _put_back(self) -> None:
        area, way, room = Qt.DockWidgetArea, Qt.Orientation, self._stage.size()
        column, drawer = self._in(area.RightDockWidgetArea), self._in(area.BottomDockWidgetArea)
        middle = self._in(area.LeftDockWidgetArea)
        if not middle or not self._outside.isValid():
            return
        edge = self.edge
        outside = self._outside - QSize(edge, edge)
        # Given more, the column would leave docks beside each other less than they can be.
        least = max((dock.minimumSizeHint().width() for dock in column), default=0)
        spare = max(0, room.width() - self._stage.minimumSizeHint().width())
        outside.setWidth(min(outside.width(), least + spare))
        inside = room - outside - QSize(edge, edge)
        share = inside.width() / max(1, self._settled.width() - self._outside.width())
        sizes = self._sizes  # without those that come to the front in this very moment
        heights = {d: sizes[d].height() for d in column if d in sizes}
        tallest = max(heights, key=lambda dock: heights[dock], default=None)
        steady = {d: height for d, height in heights.items() if d is not tallest}
        rest = max(1, room.height() - sum(steady.values()) - edge * len(steady))
        self._resize(
            way.Horizontal,
            dict.fromkeys(middle, inside.width()) | dict.fromkeys(column, outside.width()),
        )
        self._resize(
            way.Horizontal, {d: round(sizes[d].width() * share) for d in drawer if d in sizes}
        )
        self._resize(
            way.Vertical,
            dict.fromkeys(middle, inside.height()) | dict.fromkeys(drawer, outside.height()),
        )
        self._resize(way.Vertical, {d: steady.get(d, rest) for d in column})
        # The layout takes the sizes in its next turn, which may come after the first picture.
        QCoreApplication.sendPostedEvents(self._stage, QEvent.Type.LayoutRequest)

    def _resize(self, way: Qt.Orientation, sizes: dict[QDockWidget, int]) -> None:
        """Qt moves an edge only where both of its sides are given a size."""
        self._stage.resizeDocks([*sizes], [*sizes.values()], way)

    def _in(self, area: Qt.DockWidgetArea) -> list[QDockWidget]:
        """Docks of an area that are in sight."""
        seen = (dock for dock in self._docks if self._is_placed(dock))
        return [dock for dock in seen if self._stage.dockWidgetArea(dock) == area]

    def _is_placed(self, dock: QDockWidget) -> bool:
        """Whether the dock has a place of its own; one behind others lies above the stage."""
        return dock.isVisibleTo(self._stage) and not dock.isFloating() and dock.y() >= 0


def _extent(docks: Sequence[QDockWidget]) -> QSize:
    """How far docks reach from the left and from the top, their tabs included."""
    boxes = [dock.geometry() for dock in docks]
    return QSize(max(b.x() + b.width() for b in boxes), max(b.y() + b.height() for b in boxes))
