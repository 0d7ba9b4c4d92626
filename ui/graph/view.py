"""The view of a graph: pan, zoom, walk, and the box that is current."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QGraphicsScene, QGraphicsView, QMenu, QToolTip

from nnjit_studio.model import Node
from nnjit_studio.ui.graph.boxes import Box, Sheet
from nnjit_studio.ui.graph.canvas import Canvas
from nnjit_studio.ui.graph.groups import Unit
from nnjit_studio.ui.graph.minimap import Minimap
from nnjit_studio.ui.widgets.panel import named
from nnjit_studio.ui.widgets.theme import Theme

ZOOM_STEP, ZOOM_MIN, ZOOM_MAX = 1.2, 0.01, 4.0
READABLE = 0.78
"""Smallest scale at which the text of a box can be read."""


class GraphView(QGraphicsView):
    """Pan by dragging, zoom by wheel or ``+ -``, arrows walk, open and close.

    Its actions are the context menu of a box.
    """

    clicked = Signal(str)
    """The workload of the node that became current."""
    moved = Signal()
    """Another box is current."""
    panned = Signal()
    """Another part of the graph is in view, or at another scale."""
    wants_open = Signal(str)
    """``str), wants_closed(str``: A group to open, and one to close."""
    wants_closed = Signal(str)
    wants_kernel = Signal(str)
    """The workload of a node whose kernel is to be inspected."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setScene(QGraphicsScene(self))
        self.scene().setItemIndexMethod(QGraphicsScene.ItemIndexMethod.NoIndex)
        named(self, "Model graph")
        self.canvas = Canvas(theme)
        self.scene().addItem(self.canvas)
        self.boxes: dict[str, Box] = {}
        self.tip: Callable[[Box], str] = lambda box: box.title
        self.minimap = Minimap(self.viewport(), theme, self._go)
        self.panned.connect(self._show_seen)
        self._order: list[Box] = []
        self._current: Box | None = None
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        for bars in (self.setHorizontalScrollBarPolicy, self.setVerticalScrollBarPolicy):
            bars(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setResizeAnchor(QGraphicsView.ViewportAnchor.AnchorViewCenter)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        self.setOptimizationFlag(QGraphicsView.OptimizationFlag.DontSavePainterState)
        self.setOptimizationFlag(QGraphicsView.OptimizationFlag.DontAdjustForAntialiasing)
        self.viewport().setCursor(Qt.CursorShape.ArrowCursor)

    @property
    def theme(self) -> Theme:
        return self.canvas.theme

    def show_sheet(self, sheet: Sheet) -> None:
        """Draw a graph; the view stays where it is."""
        self._current = None
        self._order = sheet.boxes
        self.boxes = {box.unit.key: box for box in sheet.boxes}
        self.canvas.show_sheet(sheet)
        self.minimap.show_sheet(sheet)
        self.scene().setSceneRect(sheet.bounds)
        self.redraw()
        self._show_seen()

    def redraw(self) -> None:
        """Draw the boxes again, after they have changed."""
        self.canvas.update()
        self.minimap.forget_colours()

    @property
    def current(self) -> Node | None:
        """The node that was clicked, walked or gone to last; None also for a group."""
        return self._current.node if self._current is not None else None

    @property
    def current_box(self) -> Box | None:
        return self._current

    @property
    def current_unit(self) -> Unit | None:
        return self._current.unit if self._current is not None else None

    def pick(self, box: Box | None, into_view: bool = True) -> None:
        """Make a box the current one."""
        if self._current is not None:
            self._current.current = False
        self._current, self.canvas.lit = box, None
        if box is not None:
            box.current = True
            if into_view:
                self.ensureVisible(box.rect)
            if box.node is not None:
                self.clicked.emit(box.node.workload)
        self.redraw()
        self.moved.emit()

    def show_top(self) -> None:
        """Readable scale, the first nodes in view."""
        area = self.scene().sceneRect()
        room = self.viewport().width() / area.width() if area.width() else 1.0
        scale = min(max(room, READABLE), 1.0)
        self.resetTransform()
        self.scale(scale, scale)
        height = self.viewport().height() / scale
        ends = area.top() + height
        seen = [b.pos().x() for b in self._order if b.unit.nodes and b.area[1] < ends]
        middle = statistics.median(seen) if seen else area.center().x()
        self.centerOn(middle, area.top() + height / 2)
        self.panned.emit()

    def look_at(self, box: Box) -> None:
        """Bring a box to the middle, at a scale at which it can be read."""
        if self.transform().m11() < READABLE:
            self.resetTransform()
        self.centerOn(box.pos())
        self.panned.emit()

    def look_at_area(self, area: QRectF) -> None:
        """Bring an area into view, as large as can be read well, and point at it."""
        self.canvas.lit = area.adjusted(-6, -6, 6, 6)
        self.fitInView(self.canvas.lit, Qt.AspectRatioMode.KeepAspectRatio)
        if self.transform().m11() > 1:
            self.resetTransform()
            self.centerOn(area.center())
        self.redraw()
        self.panned.emit()

    def fit(self) -> None:
        self.fitInView(self.scene().sceneRect(), Qt.AspectRatioMode.KeepAspectRatio)
        self.panned.emit()

    def set_theme(self, theme: Theme) -> None:
        self.canvas.theme = self.minimap.theme = theme
        self.redraw()

    def select_workload(self, key: str) -> None:
        """Mark all boxes of a workload; the view stays where it is if one is seen."""
        chosen = []
        for box in self._order:
            box.selected = bool(key) and any(n.workload == key for n in box.unit.nodes)
            if box.selected:
                chosen.append(box)
        seen = self.mapToScene(self.viewport().rect()).boundingRect()
        if chosen and not any(seen.contains(box.pos()) for box in chosen):
            self.centerOn(chosen[0].pos())
        self.redraw()

    def zoom(self, factor: float) -> None:
        scale = self.transform().m11() * factor
        if ZOOM_MIN <= scale <= ZOOM_MAX:
            self.scale(factor, factor)
            self.panned.emit()

    def _go(self, place: QPointF) -> None:
        self.centerOn(place)
        self.panned.emit()

    def _show_seen(self) -> None:
        room = self.viewport().rect()
        seen = self.mapToScene(room).boundingRect()
        self.minimap.show_seen(seen, QPointF(room.width(), room.height()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_seen()

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        super().scrollContentsBy(dx, dy)
        self.panned.emit()

    def box_at(self, event: QMouseEvent | QHelpEvent | QContextMenuEvent) -> Box | None:
        at = event.position().toPoint() if isinstance(event, QMouseEvent) else event.pos()
        return self.canvas.at(self.mapToScene(at))

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            box = self.box_at(event)
            QToolTip.showText(event.globalPos(), self.tip(box) if box is not None else "", self)
            return True
        return super().viewportEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.zoom(ZOOM_STEP ** (event.angleDelta().y() / 120))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        box = self.box_at(event)
        if box is not None and box.unit.nodes:
            self.pick(box, into_view=False)
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        box = self.box_at(event)
        if box is not None and box.unit.group:
            self.wants_open.emit(box.unit.group)
        elif box is not None and box.node is not None and box.node.workload:
            self.wants_kernel.emit(box.node.workload)
        elif box is None:
            frame = self.canvas.frame_at(self.mapToScene(event.position().toPoint()))
            if frame is not None:
                self.wants_closed.emit(frame.group)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        box = self._current if by_key else self.box_at(event)
        if box is not None and box.unit.nodes:
            menu = named(QMenu(self), "Node")
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.addActions(self.actions())
            menu.popup(event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, box = event.key(), self._current
        group = box.unit.group if box is not None else ""
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom(ZOOM_STEP)
        elif key == Qt.Key.Key_Minus:
            self.zoom(1 / ZOOM_STEP)
        elif key == Qt.Key.Key_F:
            self.fit()
        elif key == Qt.Key.Key_Home:
            self.show_top()
        elif key in (Qt.Key.Key_Down, Qt.Key.Key_Up):
            self._walk(1 if key == Qt.Key.Key_Down else -1)
        elif key in (Qt.Key.Key_Right, Qt.Key.Key_Return, Qt.Key.Key_Enter) and group:
            self.wants_open.emit(group)
        elif key == Qt.Key.Key_Left and box is not None:
            self.wants_closed.emit("")
        else:
            super().keyPressEvent(event)

    def _walk(self, step: int) -> None:
        places = [box for box in self._order if box.unit.nodes]
        if not places:
            return
        at = places.index(self._current) + step if self._current in places else 0
        if 0 <= at < len(places):
            self.pick(places[at])
