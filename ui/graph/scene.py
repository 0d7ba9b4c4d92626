"""The model as a drawing: one scene item that paints every box, edge and frame in view.

Where things are stands in arrays, so a step of the view costs what is seen, not
what there is. From afar there are plain rectangles and lines, and no text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFontMetricsF,
    QHelpEvent,
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
    QGraphicsScene,
    QGraphicsView,
    QMenu,
    QStyleOptionGraphicsItem,
    QToolTip,
    QWidget,
)

from nnjit_studio.model import Node
from nnjit_studio.ui.graph.drawing import ARROW, FRAME_TITLE, Area, Arranged, Frame, Segment
from nnjit_studio.ui.graph.groups import Unit
from nnjit_studio.ui.widgets.theme import Theme, named, scaled_font

ZOOM_STEP, ZOOM_MIN, ZOOM_MAX = 1.2, 0.01, 4.0
FAR, LEGIBLE = 0.42, 0.6
"""Scales below which boxes are plain rectangles, and below which they have a title alone."""
TITLE_PX = 9.0
"""Of a title alone, on the screen."""
MARGIN = 20.0
MARK_WIDTH = 5.0
FRAME_ALPHA = 14
KEPT_TEXTS = 12


class Box:
    """A unit of the graph as it is drawn; ``warning`` marks it in red, ``fill`` None is neutral."""

    __slots__ = (
        "area", "current", "fill", "found", "ink", "line", "rect", "selected", "shown",
        "title", "unit", "warning",
    )  # fmt: skip

    def __init__(self, unit: Unit, area: Area, line: str) -> None:
        self.unit, self.area, self.line = unit, area, line
        self.rect = QRectF(area[0], area[1], area[2] - area[0], area[3] - area[1])
        self.title = unit.title.rsplit("/")[-1] if unit.group else unit.title
        self.warning = ""
        self.fill: QColor | None = None
        self.ink: QColor | None = None
        self.selected = self.found = self.current = False
        self.shown: dict[tuple[str, int], str] = {}

    @property
    def node(self) -> Node | None:
        """The node of a box that stands for one."""
        return self.unit.node

    def pos(self) -> QPointF:
        return self.rect.center()


class _Places:
    """Rectangles, and which of them an area touches."""

    def __init__(self, areas: NDArray[np.float64]) -> None:
        self._areas = areas

    @classmethod
    def around(cls, segments: Sequence[Segment]) -> _Places:
        """The bounds of lines, with room for an arrow at their ends."""
        ends = np.array(segments, dtype=np.float64).reshape(-1, 2, 2)
        low, high = ends.min(axis=1) - ARROW, ends.max(axis=1) + ARROW
        return cls(np.concatenate((low, high), axis=1))

    def within(self, area: QRectF) -> list[int]:
        a = self._areas
        hit = (a[:, 0] <= area.right()) & (a[:, 2] >= area.left())
        hit &= (a[:, 1] <= area.bottom()) & (a[:, 3] >= area.top())
        return np.flatnonzero(hit).tolist()

    def bounds(self) -> QRectF:
        if not len(self._areas):
            return QRectF()
        left, top = self._areas[:, :2].min(axis=0).tolist()
        right, bottom = self._areas[:, 2:].max(axis=0).tolist()
        return QRectF(left, top, right - left, bottom - top)


class Sheet:
    """An arranged graph made ready to paint; any thread may do that.

    ``line`` gives the second line of a unit's box.
    """

    def __init__(self, arranged: Arranged, line: Callable[[Unit], str]) -> None:
        self.arranged = arranged
        self.boxes = [
            Box(unit, arranged.areas[key], line(unit))
            for key, unit in arranged.folded.units.items()
        ]
        self.frames = [(frame, _rect(frame.area)) for frame in arranged.frames]
        self.lines = [QLineF(*a, *b) for a, b in arranged.segments]
        self.curves: list[QPainterPath | None] = [None] * len(self.lines)
        areas = np.array([box.area for box in self.boxes], dtype=np.float64).reshape(-1, 4)
        self.box_places = _Places(areas)
        self.line_places = _Places.around(arranged.segments)
        self.tip_places = _Places.around([(tip, tip) for tip in arranged.tips])
        bounds = self.box_places.bounds().united(self.line_places.bounds())
        for _, rect in self.frames:
            bounds = bounds.united(rect)
        self.bounds = bounds.adjusted(-MARGIN, -MARGIN, MARGIN, MARGIN)

    def twin(self) -> Sheet:
        """The same drawing with boxes of its own, to be coloured otherwise."""
        made = copy.copy(self)
        made.boxes = [Box(box.unit, box.area, box.line) for box in self.boxes]
        return made


class Canvas(QGraphicsItem):
    """Paints a sheet; ``cost`` gives the last line of a box."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemUsesExtendedStyleOption)
        self.theme = theme
        self.sheet: Sheet | None = None
        self.cost: Callable[[Box], str] = lambda box: ""

    def show(self, sheet: Sheet) -> None:
        self.prepareGeometryChange()
        self.sheet = sheet

    def at(self, place: QPointF) -> Box | None:
        found = self.sheet.box_places.within(QRectF(place, place)) if self.sheet else ()
        return self.sheet.boxes[found[-1]] if found else None

    def frame_at(self, place: QPointF) -> Frame | None:
        """The innermost frame around a place."""
        frames = self.sheet.frames if self.sheet else ()
        return next((f for f, rect in reversed(frames) if rect.contains(place)), None)

    def boundingRect(self) -> QRectF:
        return self.sheet.bounds if self.sheet else QRectF()

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        sheet, seen = self.sheet, option.exposedRect
        if sheet is None:
            return
        scale = option.levelOfDetailFromTransform(painter.worldTransform())
        boxes = [sheet.boxes[i] for i in sheet.box_places.within(seen)]
        self._paint_frames(painter, sheet, seen, titles=scale >= LEGIBLE)
        if scale < FAR:
            self._paint_lines(painter, sheet, seen)
            self._paint_far(painter, boxes)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_edges(painter, sheet, seen, arrows=scale >= LEGIBLE)
        self._paint_near(painter, boxes)
        if scale >= LEGIBLE:
            self._paint_text(painter, boxes)
        else:
            self._paint_titles(painter, boxes, round(TITLE_PX / scale))

    def _paint_frames(self, painter: QPainter, sheet: Sheet, seen: QRectF, titles: bool) -> None:
        ground = QColor(self.theme.muted)
        ground.setAlpha(FRAME_ALPHA)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(QColor(self.theme.line), 0))
        painter.setBrush(ground)
        frames = [(f, rect) for f, rect in sheet.frames if rect.intersects(seen)]
        painter.drawRects([rect for _, rect in frames])
        if not titles:
            return
        painter.setPen(QColor(self.theme.muted))
        painter.setFont(scaled_font(painter.font(), 0.8))
        metrics = painter.fontMetrics()
        for frame, rect in frames:
            if frame.title:
                title = metrics.elidedText(
                    f"▾ {frame.title}", Qt.TextElideMode.ElideMiddle, int(rect.width() - 6)
                )
                painter.drawText(QPointF(rect.left() + 3, rect.top() + FRAME_TITLE), title)

    def _paint_lines(self, painter: QPainter, sheet: Sheet, seen: QRectF) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(QColor(self.theme.muted), 0))
        found = sheet.line_places.within(seen)
        whole = len(found) == len(sheet.lines)
        painter.drawLines(sheet.lines if whole else [sheet.lines[i] for i in found])

    def _paint_edges(self, painter: QPainter, sheet: Sheet, seen: QRectF, arrows: bool) -> None:
        painter.setPen(QPen(QColor(self.theme.muted), 1.2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for i in sheet.line_places.within(seen):
            curve = sheet.curves[i]
            if curve is None:
                curve = sheet.curves[i] = _curve(sheet.lines[i])
            painter.drawPath(curve)
        if arrows:
            painter.setBrush(QColor(self.theme.muted))
            for i in sheet.tip_places.within(seen):
                x, y = sheet.arranged.tips[i]
                tip = (QPointF(x, y + ARROW), QPointF(x - 3.5, y - 1), QPointF(x + 3.5, y - 1))
                painter.drawPolygon(QPolygonF(tip))

    def _paint_far(self, painter: QPainter, boxes: list[Box]) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        plain = QColor(self.theme.line)
        by_colour: dict[int, list[QRectF]] = {}
        for box in boxes:
            colour = (box.fill or plain).rgb() if box.unit.nodes else plain.rgb()
            by_colour.setdefault(colour, []).append(box.rect)
        for colour, rects in by_colour.items():
            painter.setBrush(QColor(colour))
            painter.drawRects(rects)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for box in boxes:
            if box.selected or box.found or box.current or box.warning:
                painter.setPen(self._outline(box, 0 if not box.current else 12))
                painter.drawRect(box.rect)

    def _outline(self, box: Box, width: float) -> QPen:
        t = self.theme
        colour = (
            t.accent if box.selected or box.current else t.warn if box.found
            else t.bad if box.warning else t.line
        )  # fmt: skip
        return QPen(QColor(colour), width)

    def _paint_near(self, painter: QPainter, boxes: list[Box]) -> None:
        t = self.theme
        raised, surface, bad = QColor(t.raised), QColor(t.surface), QColor(t.bad)
        plain = QPen(QColor(t.line), 1.0)
        for box in boxes:
            marked = box.selected or box.found
            painter.setPen(
                self._outline(box, 5.0 if box.current else 3.0) if marked or box.current else plain
            )
            painter.setBrush((box.fill or raised) if box.unit.nodes else surface)
            radius = 5.0 if box.unit.nodes else box.rect.height() / 2
            if box.unit.group:
                # A second edge behind: a closed group is a stack.
                painter.drawRoundedRect(box.rect.translated(4, 4), radius, radius)
            painter.drawRoundedRect(box.rect, radius, radius)
            if box.warning:
                painter.fillRect(
                    QRectF(box.area[0], box.area[1] + 3, MARK_WIDTH, box.rect.height() - 6), bad
                )

    def _paint_titles(self, painter: QPainter, boxes: list[Box], pixels: int) -> None:
        font = painter.font()
        font.setPixelSize(pixels)
        painter.setFont(font)
        metrics, text = QFontMetricsF(font), QColor(self.theme.text)
        for box in boxes:
            if box.unit.nodes:
                painter.setPen(box.ink or text)
                inner = box.rect.adjusted(7, 0, -2, 0)
                title = _elided(box, box.title, metrics, inner.width(), pixels)
                painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter, title)

    def _paint_text(self, painter: QPainter, boxes: list[Box]) -> None:
        base = painter.font()
        bold, plain = scaled_font(base, 0.95, bold=True), scaled_font(base, 0.9)
        metrics = {True: QFontMetricsF(bold), False: QFontMetricsF(plain)}
        muted, text = QColor(self.theme.muted), QColor(self.theme.text)
        flag = Qt.AlignmentFlag
        for box in boxes:
            inner = box.rect.adjusted(9, 3, -6, -3)
            if not box.unit.nodes:
                painter.setFont(plain)
                painter.setPen(muted)
                line = _elided(box, f"{box.title}  {box.line}", metrics[False], inner.width())
                painter.drawText(inner, flag.AlignCenter, line)
                continue
            painter.setPen(box.ink or text)
            glyph = "▸ " if box.unit.group else "⚠ " if box.warning else ""
            for words, font, where in (
                (glyph + box.title, bold, flag.AlignTop),
                (box.line, plain, flag.AlignVCenter),
                (self.cost(box), plain, flag.AlignBottom),
            ):
                if words:
                    painter.setFont(font)
                    line = _elided(box, words, metrics[font is bold], inner.width())
                    painter.drawText(inner, where | flag.AlignLeft, line)


class GraphView(QGraphicsView):
    """Pan by dragging, zoom by wheel or ``+ -``, arrows walk, open and close.

    Its actions are the context menu of a box.

    Signals
    -------
    clicked(str)
        The workload of the node that became current.
    moved()
        Another box is current.
    panned()
        Another part of the graph is in view, or at another scale.
    wants_open(str), wants_closed(str)
        A group to open, and one to close.
    """

    clicked = Signal(str)
    moved = Signal()
    panned = Signal()
    wants_open = Signal(str)
    wants_closed = Signal(str)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setScene(QGraphicsScene(self))
        self.scene().setItemIndexMethod(QGraphicsScene.ItemIndexMethod.NoIndex)
        named(self, "Model graph")
        self.canvas = Canvas(theme)
        self.scene().addItem(self.canvas)
        self.boxes: dict[str, Box] = {}
        self.tip: Callable[[Box], str] = lambda box: box.title
        self._order: list[Box] = []
        self._current: Box | None = None
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        for bars in (self.setHorizontalScrollBarPolicy, self.setVerticalScrollBarPolicy):
            bars(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
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
        self.canvas.show(sheet)
        self.scene().setSceneRect(sheet.bounds)
        self.redraw()

    def redraw(self) -> None:
        """Something of the boxes changed."""
        self.canvas.update()

    @property
    def current(self) -> Node | None:
        """The node that was clicked, walked or gone to last; None also for a group."""
        return self._current.node if self._current is not None else None

    @property
    def current_box(self) -> Box | None:
        return self._current

    def pick(self, box: Box | None, into_view: bool = True) -> None:
        """Make a box the current one."""
        if self._current is not None:
            self._current.current = False
        self._current = box
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
        scale = min(max(room, 0.78), 1.0)
        self.resetTransform()
        self.scale(scale, scale)
        height = self.viewport().height() / scale
        ends = area.top() + height
        seen = [b.pos().x() for b in self._order if b.unit.nodes and b.area[1] < ends]
        middle = float(np.median(seen)) if seen else area.center().x()
        self.centerOn(middle, area.top() + height / 2)
        self.panned.emit()

    def fit(self) -> None:
        self.fitInView(self.scene().sceneRect(), Qt.AspectRatioMode.KeepAspectRatio)
        self.panned.emit()

    def set_theme(self, theme: Theme) -> None:
        self.canvas.theme = theme
        self.redraw()

    def select_workload(self, key: str) -> None:
        """Mark all boxes of a workload; the view stays where it is if one is seen."""
        chosen = []
        for box in self._order:
            box.selected = any(n.workload == key for n in box.unit.nodes)
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


def _rect(area: Area) -> QRectF:
    return QRectF(area[0], area[1], area[2] - area[0], area[3] - area[1])


def _curve(line: QLineF) -> QPainterPath:
    """From the start straight down, and so into the end."""
    bend = line.dy() / 2
    path = QPainterPath(line.p1())
    path.cubicTo(line.x1(), line.y1() + bend, line.x2(), line.y2() - bend, line.x2(), line.y2())
    return path


def _elided(box: Box, words: str, metrics: QFontMetricsF, room: float, pixels: int = 0) -> str:
    """Measured once for each text and size: eliding costs more than drawing."""
    shown = box.shown.get((words, pixels))
    if shown is None:
        if len(box.shown) >= KEPT_TEXTS:
            box.shown.clear()
        shown = metrics.elidedText(words, Qt.TextElideMode.ElideRight, room)
        box.shown[words, pixels] = shown
    return shown
