"""The whole graph in a corner of its view, with the part that is in sight."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from nnjit_studio.ui.graph.boxes import Sheet
from nnjit_studio.ui.widgets.panel import named
from nnjit_studio.ui.widgets.theme import Theme

MOST = QSize(150, 220)
LARGEST_SHARE = 0.4
"""Of its view's width and height; a smaller view has a smaller map."""
MARGIN = 10
LEAST_BOX = 1.5
"""Pixels of a box's shorter side."""


class Minimap(QWidget):
    """Hidden while the whole graph is in sight; a click or drag moves the view there."""

    def __init__(self, parent: QWidget, theme: Theme, go: Callable[[QPointF], object]) -> None:
        super().__init__(parent)
        named(self, "Minimap", "The whole graph; click or drag to move")
        self.theme = theme
        self._go = go
        self._sheet: Sheet | None = None
        self._picture: QPixmap | None = None
        self._seen = QRectF()
        self.hide()

    def show_sheet(self, sheet: Sheet | None) -> None:
        self._sheet = sheet
        self.forget_colours()

    def forget_colours(self) -> None:
        """Draw the boxes anew when they are next seen."""
        self._picture = None
        self.update()

    def show_seen(self, seen: QRectF, corner: QPointF) -> None:
        """Mark what is in sight, and stand left above this corner of the view."""
        sheet = self._sheet
        inside = sheet is None or seen.contains(sheet.bounds)
        self.setVisible(not inside)
        if sheet is None or inside:
            return
        room = QSize(round(corner.x() * LARGEST_SHARE), round(corner.y() * LARGEST_SHARE))
        room = room.boundedTo(MOST)
        size = sheet.bounds.size().toSize().scaled(room, Qt.AspectRatioMode.KeepAspectRatio)
        size = size.expandedTo(QSize(30, 30))
        self.setGeometry(
            round(corner.x()) - size.width() - MARGIN,
            round(corner.y()) - size.height() - MARGIN,
            size.width(),
            size.height(),
        )
        self._seen = seen
        self.update()

    def _scale(self) -> tuple[float, float]:
        assert self._sheet is not None
        bounds = self._sheet.bounds
        return self.width() / bounds.width(), self.height() / bounds.height()

    def _placed(self, area: QRectF) -> QRectF:
        assert self._sheet is not None
        (x, y), origin = self._scale(), self._sheet.bounds.topLeft()
        corner = QPointF((area.x() - origin.x()) * x, (area.y() - origin.y()) * y)
        wide, tall = max(area.width() * x, LEAST_BOX), max(area.height() * y, LEAST_BOX)
        return QRectF(corner.x(), corner.y(), wide, tall)

    def _drawn(self, sheet: Sheet) -> QPixmap:
        ratio = self.devicePixelRatioF()
        made = QPixmap(self.size() * ratio)
        made.setDevicePixelRatio(ratio)
        made.fill(QColor(self.theme.surface))
        painter = QPainter(made)
        plain = QColor(self.theme.line)
        for box in sheet.boxes:
            painter.fillRect(self._placed(box.rect), box.fill or plain)
        painter.end()
        return made

    def paintEvent(self, _: QPaintEvent) -> None:
        if self._sheet is None:
            return
        if self._picture is None or self._picture.deviceIndependentSize().toSize() != self.size():
            self._picture = self._drawn(self._sheet)
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        painter.setPen(QPen(QColor(self.theme.edge), 1))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        soft = QColor(self.theme.accent)
        soft.setAlpha(40)
        painter.setPen(QPen(QColor(self.theme.accent), 1.5))
        painter.setBrush(soft)
        painter.drawRect(self._placed(self._seen) & QRectF(self.rect()).adjusted(1, 1, -2, -2))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._move(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._move(event)

    def _move(self, event: QMouseEvent) -> None:
        if self._sheet is not None:
            (x, y), origin = self._scale(), self._sheet.bounds.topLeft()
            at = event.position()
            self._go(QPointF(origin.x() + at.x() / x, origin.y() + at.y() / y))
