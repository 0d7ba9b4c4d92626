"""The model as a drawing: one box per fused node, coloured by its share of time."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPen,
    QPolygonF,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QGraphicsItem,
    QGraphicsPathItem,
    QGraphicsScene,
    QGraphicsView,
    QMenu,
    QStyleOptionGraphicsItem,
    QWidget,
)

from nnjit_studio.graph import Graph, Node
from nnjit_studio.ui import text
from nnjit_studio.ui.layout import draw
from nnjit_studio.ui.theme import Theme, heat, ink_on, named, scaled_font

WIDTH, HEIGHT, PORT_HEIGHT = 152.0, 58.0, 24.0
GAP_X, STEP_Y = 10.0, 84.0
ZOOM_STEP, ZOOM_MIN, ZOOM_MAX = 1.2, 0.05, 4.0


class Box(QGraphicsItem):
    """A fused node, or with ``node`` None an input or output of the model."""

    def __init__(self, title: str, line: str, node: Node | None, theme: Theme) -> None:
        super().__init__()
        self.title, self.line, self.node = title, line, node
        self.cost = ""
        self.fraction: float | None = None
        self.selected = self.found = self.current = False
        self.theme = theme
        self.setZValue(1)

    def boundingRect(self) -> QRectF:
        height = HEIGHT if self.node else PORT_HEIGHT
        return QRectF(-WIDTH / 2 - 3, -height / 2 - 3, WIDTH + 6, height + 6)

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        t = self.theme
        box = self.boundingRect().adjusted(3, 3, -3, -3)
        fill = QColor(t.raised) if self.fraction is None else heat(t, self.fraction)
        edge = QColor(t.accent if self.selected else t.warn if self.found else t.line)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        marked = self.selected or self.found
        painter.setPen(QPen(edge, 5.0 if self.current else 3.0 if marked else 1.0))
        painter.setBrush(fill if self.node else QColor(t.surface))
        radius = 5.0 if self.node else PORT_HEIGHT / 2
        painter.drawRoundedRect(box, radius, radius)
        if option.levelOfDetailFromTransform(painter.worldTransform()) < 0.3:
            return
        ink = ink_on(fill) if self.node else QColor(t.muted)
        font = painter.font()
        painter.setPen(ink)
        inner = box.adjusted(8, 3, -8, -3)
        if self.node is None:
            painter.setFont(scaled_font(font, 0.9))
            shown = QFontMetricsF(painter.font()).elidedText(
                f"{self.title}  {self.line}", Qt.TextElideMode.ElideRight, inner.width()
            )
            painter.drawText(inner, Qt.AlignmentFlag.AlignCenter, shown)
            return
        painter.setFont(scaled_font(font, 0.95, bold=True))
        room = QFontMetricsF(painter.font())
        title = room.elidedText(self.title, Qt.TextElideMode.ElideRight, inner.width())
        painter.drawText(inner, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft, title)
        painter.setFont(scaled_font(font, 0.9))
        left = Qt.AlignmentFlag.AlignLeft
        painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter | left, self.line)
        painter.drawText(inner, Qt.AlignmentFlag.AlignBottom | left, self.cost)


class GraphView(QGraphicsView):
    """Pan by dragging, zoom by wheel or ``+ -``, arrows walk through the nodes.

    Its actions are the context menu of a node.
    """

    clicked = Signal(str)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setScene(QGraphicsScene(self))
        named(self, "Model graph")
        self.theme = theme
        self.boxes: dict[str, Box] = {}
        self._edges: list[QGraphicsPathItem] = []
        self._current = -1
        self.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        for bars in (self.setHorizontalScrollBarPolicy, self.setVerticalScrollBarPolicy):
            bars(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        self.viewport().setCursor(Qt.CursorShape.ArrowCursor)

    def show_graph(self, graph: Graph) -> None:
        """Draw another graph from its top."""
        self.scene().clear()
        self._edges = []
        self._current = -1
        boxes = {
            f"in:{name}": self._port(graph, name) for name in graph.inputs
        }  # inputs come first in the order of execution
        boxes |= {node.name: self._node(graph, node) for node in graph.nodes}
        maker = {name: f"in:{name}" for name in graph.inputs}
        maker |= {out: node.name for node in graph.nodes for out in node.outputs}
        # A tensor that nobody makes is a weight: weights are not drawn.
        pairs = [(maker[i], n.name) for n in graph.nodes for i in n.inputs if i in maker]
        for name in graph.outputs:
            boxes[f"out:{name}"] = self._port(graph, name)
            if name in maker:
                pairs.append((maker[name], f"out:{name}"))
        drawing = draw(dict.fromkeys(boxes, WIDTH), list(dict.fromkeys(pairs)), GAP_X, STEP_Y)
        for name, box in boxes.items():
            self.scene().addItem(box)
            box.setPos(*drawing.places[name])
        for (source, target), route in drawing.routes.items():
            self._edge(route, boxes[source], boxes[target])
        self.boxes = boxes
        area = self.scene().itemsBoundingRect().adjusted(-20, -20, 20, 20)
        self.scene().setSceneRect(area)
        self.show_top()

    @property
    def current(self) -> Node | None:
        """The node that was clicked, walked or gone to last."""
        return next((box.node for box in self.boxes.values() if box.current), None)

    def go_to(self, name: str) -> None:
        """Select a node, by its name or that of an ONNX node in it, and bring it into view."""
        for place, box in enumerate(self.boxes.values()):
            if box.node is not None and name in (box.node.name, *box.node.source):
                self._pick(place)
                self.ensureVisible(box)
                return

    def _pick(self, place: int) -> None:
        self._current = place
        for i, box in enumerate(self.boxes.values()):
            box.current = i == place
            if box.current and box.node is not None:
                self.clicked.emit(box.node.workload)
        self.scene().update()

    def show_top(self) -> None:
        """Readable scale, the first nodes in view."""
        area = self.scene().sceneRect()
        room = self.viewport().width() / area.width() if area.width() else 1.0
        scale = min(max(room, 0.78), 1.0)
        self.resetTransform()
        self.scale(scale, scale)
        height = self.viewport().height() / scale
        seen = [b.x() for b in self.boxes.values() if b.node and b.y() < area.top() + height]
        middle = median(seen) if seen else area.center().x()
        self.centerOn(middle, area.top() + height / 2)

    def fit(self) -> None:
        self.fitInView(self.scene().sceneRect(), Qt.AspectRatioMode.KeepAspectRatio)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        for box in self.boxes.values():
            box.theme = theme
        for edge in self._edges:
            edge.setPen(QPen(QColor(theme.muted), 1.2))
        self.scene().update()

    def select_workload(self, key: str) -> None:
        """Mark all nodes of a workload; the view stays where it is if one is seen."""
        chosen = []
        for box in self.boxes.values():
            box.selected = box.node is not None and box.node.workload == key
            if box.selected:
                chosen.append(box)
        seen = self.mapToScene(self.viewport().rect()).boundingRect()
        if chosen and not any(seen.contains(box.pos()) for box in chosen):
            self.centerOn(chosen[0])
        self.scene().update()

    def find(self, words: str) -> list[Box]:
        """Mark the nodes whose op, shape, workload or ONNX names hold every word."""
        wanted = words.lower().split()
        hits = []
        for box in self.boxes.values():
            node = box.node
            parts = [box.title, box.line, *((node.workload, *node.source) if node else ())]
            haystack = " ".join(parts).lower()
            box.found = bool(wanted) and all(word in haystack for word in wanted)
            if box.found:
                hits.append(box)
        self.scene().update()
        return hits

    def zoom(self, factor: float) -> None:
        scale = self.transform().m11() * factor
        if ZOOM_MIN <= scale <= ZOOM_MAX:
            self.scale(factor, factor)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.zoom(ZOOM_STEP ** (event.angleDelta().y() / 120))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        item = self.itemAt(event.position().toPoint())
        if isinstance(item, Box) and item.node is not None:
            self._pick(list(self.boxes.values()).index(item))
        super().mousePressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        item = self.itemAt(event.pos())
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        node = self.current if by_key else item.node if isinstance(item, Box) else None
        if node is not None:
            menu = named(QMenu(self), "Node")
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.addActions(self.actions())
            menu.popup(event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
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
        else:
            super().keyPressEvent(event)

    def _walk(self, step: int) -> None:
        boxes = list(self.boxes.values())
        place = self._current + step
        while 0 <= place < len(boxes):
            if boxes[place].node is not None:
                self._pick(place)
                self.ensureVisible(boxes[place])
                return
            place += step

    def _port(self, graph: Graph, name: str) -> Box:
        spec = graph.tensors.get(name)
        line = f"{text.shape(spec.shape)} {spec.dtype}" if spec else ""
        box = Box(name, line, None, self.theme)
        box.setToolTip(f"{name}  {line}")
        return box

    def _node(self, graph: Graph, node: Node) -> Box:
        spec = graph.tensors.get(node.outputs[0]) if node.outputs else None
        return Box(node.op, text.shape(spec.shape) if spec else "", node, self.theme)

    def _edge(self, route: tuple[tuple[float, float], ...], source: Box, target: Box) -> None:
        points = [QPointF(*p) for p in route]
        points[0].setY(points[0].y() + source.boundingRect().height() / 2 - 3)
        end = QPointF(points[-1].x(), points[-1].y() - target.boundingRect().height() / 2 + 1)
        points[-1] = QPointF(end.x(), end.y() - 5)
        path = QPainterPath(points[0])
        for a, b in pairwise(points):
            bend = (b.y() - a.y()) / 2
            path.cubicTo(a.x(), a.y() + bend, b.x(), b.y() - bend, b.x(), b.y())
        path.addPolygon(QPolygonF([end, end + QPointF(-3.5, -6), end + QPointF(3.5, -6), end]))
        item = QGraphicsPathItem(path)
        item.setPen(QPen(QColor(self.theme.muted), 1.2))
        self._edges.append(item)
        self.scene().addItem(item)
