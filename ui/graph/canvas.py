"""The scene item that paints every box, edge and frame in view.

Places are kept in arrays, so the cost of a frame depends on what is in view, not on the size of
the graph. At small scales there are plain rectangles and lines, and no text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from nnjit_studio.ui.graph.boxes import Box, Sheet
from nnjit_studio.ui.graph.drawing import ARROW, FRAME_TITLE, Frame
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.panel import scaled_font
from nnjit_studio.ui.widgets.theme import Theme, mixed

FAR, LEGIBLE = 0.42, 0.6
"""Scales below which boxes are plain rectangles, and below which they have a title alone."""
TITLE_PX = 9.0
"""Of a title alone, on the screen."""
MARK_WIDTH = 5.0
FRAME_ALPHA = 14
KEPT_TEXTS = 12


class Canvas(QGraphicsItem):
    """Paints a sheet; ``cost`` gives the last line of a box, ``lit`` is an area to point at,
    ``copies`` are the bytes of edges that lead from one device to the other.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemUsesExtendedStyleOption)
        self.theme = theme
        self.sheet: Sheet | None = None
        self.lit: QRectF | None = None
        self.cost: Callable[[Box], str] = lambda box: ""
        self.copies: Mapping[tuple[str, str], int] = {}

    def show_sheet(self, sheet: Sheet) -> None:
        self.prepareGeometryChange()
        self.sheet, self.lit = sheet, None

    def at(self, place: QPointF) -> Box | None:
        sheet = self.sheet
        found = sheet.box_places.within(QRectF(place, place)) if sheet is not None else []
        return sheet.boxes[found[-1]] if sheet is not None and found else None

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
        self._paint_frames(painter, sheet, seen)
        if scale < FAR:
            self._paint_lines(painter, sheet, seen)
            self._paint_copies(painter, sheet, numbers=False)
            self._paint_far(painter, boxes)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_edges(painter, sheet, seen, arrows=scale >= LEGIBLE)
        self._paint_copies(painter, sheet, numbers=scale >= LEGIBLE)
        if scale >= LEGIBLE:
            self._paint_frame_titles(painter, sheet, seen)
        self._paint_near(painter, boxes)
        if scale >= LEGIBLE:
            self._paint_text(painter, boxes)
        else:
            self._paint_titles(painter, boxes, round(TITLE_PX / scale))

    def _paint_frames(self, painter: QPainter, sheet: Sheet, seen: QRectF) -> None:
        ground = QColor(self.theme.muted)
        ground.setAlpha(FRAME_ALPHA)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(QColor(self.theme.line), 0))
        painter.setBrush(ground)
        painter.drawRects([rect for _, rect in sheet.frames if rect.intersects(seen)])
        if self.lit is not None:
            painter.setPen(QPen(QColor(self.theme.accent), 2))
            painter.drawRect(self.lit)

    def _paint_frame_titles(self, painter: QPainter, sheet: Sheet, seen: QRectF) -> None:
        """Above the edges, each on a ground of its own: an edge goes on behind it."""
        painter.setFont(scaled_font(painter.font(), 0.8))
        metrics = painter.fontMetrics()
        muted, surface = QColor(self.theme.muted), QColor(self.theme.surface)
        painter.setPen(muted)
        for frame, rect in sheet.frames:
            if frame.title and rect.intersects(seen):
                title = metrics.elidedText(
                    f"▾ {frame.title}", Qt.TextElideMode.ElideMiddle, int(rect.width() - 6)
                )
                frames = 1 + len(sheet.arranged.groups.parents[frame.group])  # one over the other
                ground = mixed(muted, surface, 1 - (1 - FRAME_ALPHA / 255) ** frames)
                wide = metrics.horizontalAdvance(title) + 4
                painter.fillRect(QRectF(rect.left() + 1, rect.top() + 1, wide, FRAME_TITLE), ground)
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

    def _paint_copies(self, painter: QPainter, sheet: Sheet, numbers: bool) -> None:
        pen = QPen(QColor(self.theme.bad), 2.4)
        pen.setCosmetic(True)  # seen from afar, too
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setFont(scaled_font(painter.font(), 0.9))
        for edge, nbytes in self.copies.items():
            lines = [QLineF(*a, *b) for a, b in sheet.arranged.routes.get(edge, ())]
            for line in lines:
                painter.drawPath(_curve(line))
            if numbers and lines:
                painter.drawText(lines[0].center() + QPointF(5, 0), text.nbytes(nbytes))

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


def _curve(line: QLineF) -> QPainterPath:
    """A curve that leaves the start and enters the end vertically."""
    bend = line.dy() / 2
    path = QPainterPath(line.p1())
    path.cubicTo(line.x1(), line.y1() + bend, line.x2(), line.y2() - bend, line.x2(), line.y2())
    return path


def _elided(box: Box, words: str, metrics: QFontMetricsF, room: float, pixels: int = 0) -> str:
    """The text as it fits, kept for each text and size: eliding costs more than drawing."""
    shown = box.shown.get((words, pixels))
    if shown is None:
        if len(box.shown) >= KEPT_TEXTS:
            box.shown.clear()
        shown = metrics.elidedText(words, Qt.TextElideMode.ElideRight, room)
        box.shown[words, pixels] = shown
    return shown
