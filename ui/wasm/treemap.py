"""The functions of a Wasm file as a treemap: area is bytes, colour is what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from nnjit_studio.ui.wasm.layout import Box, squarified
from nnjit_studio.ui.widgets.panel import named, scaled_font
from nnjit_studio.ui.widgets.theme import Theme, ink_on

SHOWN = 3000
"""Largest functions with a box of their own; the others share the last one."""
GAP, MARGIN, SMALL = 1.0, 5.0, 6.0
REST = -1
Colouring = Callable[[int], QColor | None]
"""The colour of a function's box by its index."""


@dataclass(frozen=True)
class Cell:
    """A function: its index, or :data:`REST`, bytes, lines of text, and what a tooltip says."""

    index: int
    nbytes: int
    title: str
    note: str
    tip: str


class Treemap(QWidget):
    """Boxes in falling size. A click or the arrow keys pick one.

    Signals
    -------
    picked(int)
        The index of a function.
    """

    picked = Signal(int)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        named(self, "Treemap of functions by bytes")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._theme = theme
        self.cells: tuple[Cell, ...] = ()
        self.boxes: list[Box] = []
        self.selected = REST
        self.colour: Colouring = lambda index: None

    def sizeHint(self) -> QSize:
        return QSize(420, 260)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, 90)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def show_cells(self, cells: Sequence[Cell]) -> None:
        """Show these cells, the rest last."""
        self.cells = tuple(cells)
        self._lay_out()

    def recolour(self, colour: Colouring) -> None:
        """Colour by function; None is the plain ground."""
        self.colour = colour
        self.update()

    def select(self, index: int) -> None:
        """Draw the ring around a function; one without a box is within the rest."""
        self.selected = index
        self.update()

    def box_at(self, point: QPoint) -> Cell | None:
        """The cell at a point of the widget."""
        x, y = point.x(), point.y()
        for cell, box in zip(self.cells, self.boxes, strict=True):
            if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
                return cell
        return None

    def _lay_out(self) -> None:
        frame = Box(0, 0, self.width(), self.height())
        self.boxes = squarified([cell.nbytes for cell in self.cells], frame)
        self.update()

    # Qt asks these by its own names.
    def resizeEvent(self, event: QResizeEvent) -> None:
        self._lay_out()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self.box_at(event.position().toPoint())
        if cell is not None and cell.index != REST:
            self.picked.emit(cell.index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = Qt.Key
        step = {keys.Key_Right: 1, keys.Key_Down: 1, keys.Key_Left: -1, keys.Key_Up: -1}.get(
            keys(event.key())
        )
        order = [cell.index for cell in self.cells if cell.index != REST]
        if step is None or not order:
            super().keyPressEvent(event)
            return
        place = order.index(self.selected) + step if self.selected in order else 0
        self.picked.emit(order[max(0, min(place, len(order) - 1))])

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            cell = self.box_at(event.pos())
            QToolTip.showText(event.globalPos(), cell.tip if cell else "", self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        strong, plain = scaled_font(self.font(), 0.9, bold=True), scaled_font(self.font(), 0.85)
        ring: QRectF | None = None
        for cell, box in zip(self.cells, self.boxes, strict=True):
            gap = GAP if min(box.width, box.height) > SMALL else GAP / 2
            inner = QRectF(box.x, box.y, box.width - gap, box.height - gap)
            if inner.width() <= 0 or inner.height() <= 0:
                continue
            ground = self._ground(cell)
            painter.fillRect(inner, ground)
            _label(painter, cell, inner, ink_on(ground), (strong, plain))
            if cell.index == self.selected and cell.index != REST:
                ring = inner
        if ring is not None:
            painter.setPen(QPen(QColor(self._theme.accent), 2.5))
            painter.drawRect(ring.adjusted(1, 1, -1, -1))
        if self.hasFocus():
            painter.setPen(QPen(QColor(self._theme.accent), 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _ground(self, cell: Cell) -> QColor:
        if cell.index == REST:
            return QColor(self._theme.raised)
        return self.colour(cell.index) or QColor(self._theme.line)


def _label(
    painter: QPainter, cell: Cell, inner: QRectF, ink: QColor, fonts: tuple[QFont, QFont]
) -> None:
    """Title and note where they fit whole; half a word says nothing."""
    painter.setPen(ink)
    top = inner.top() + MARGIN - 1
    for text, font in zip((cell.title, cell.note), fonts, strict=True):
        painter.setFont(font)
        metrics = painter.fontMetrics()
        room = inner.width() - 2 * MARGIN
        if metrics.horizontalAdvance(text) > room or top + metrics.height() > inner.bottom():
            return
        painter.drawText(QRectF(inner.left() + MARGIN, top, room, metrics.height()), text)
        top += metrics.height()
