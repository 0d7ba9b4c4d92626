"""A slice as a heatmap, and bins of values as a histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from nnjit_studio.ui.tensors.slices import Figures, thinned
from nnjit_studio.ui.widgets.panel import named
from nnjit_studio.ui.widgets.theme import Theme

FOOT = 20


class Heatmap(QWidget):
    """One cell for each value, least to greatest in the theme's colours of heat; NaN is grey."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        named(self, "Heatmap of the slice")
        self.theme = theme
        self._slice: NDArray[np.float64] = np.zeros((0, 0))
        self._image: QImage | None = None
        self._steps = (1, 1)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, 80)

    def show_slice(self, values: NDArray[np.float64]) -> None:
        """Draw these values, rows from the top."""
        self._slice = values
        drawn, *steps = thinned(values)
        self._steps = steps[0], steps[1]
        self._image = self._coloured(drawn) if drawn.size else None
        self.update()

    def _coloured(self, values: NDArray[np.float64]) -> QImage:
        finite = np.isfinite(values)
        low = float(values[finite].min()) if finite.any() else 0.0
        high = float(values[finite].max()) if finite.any() else 0.0
        share = np.where(finite, values - low, 0.0) / ((high - low) or 1.0)
        ends = [QColor(getattr(self.theme, f"heat_{i}")) for i in range(4)]
        marks = np.linspace(0, 1, 4)
        channels = [
            np.interp(share, marks, [getattr(end, part)() for end in ends])
            for part in ("red", "green", "blue")
        ]
        pixels = np.ascontiguousarray(np.stack(channels, axis=-1), np.uint8)
        grey = QColor(self.theme.grey)
        pixels[~finite] = (grey.red(), grey.green(), grey.blue())
        height, width = values.shape
        form = QImage.Format.Format_RGB888
        return QImage(pixels.tobytes(), width, height, 3 * width, form).copy()

    def place(self) -> QRectF:
        """Where it is drawn: as large as it fits, with square cells unless they are below 1 px."""
        if self._image is None:
            return QRectF()
        room = QRectF(self.rect()).adjusted(0, 0, 0, -FOOT)
        height, width = self._slice.shape
        cell = min(room.width() / width, room.height() / height)
        if cell * min(height, width) < 12:  # a thin strip would show nothing
            return QRectF(0, 0, room.width(), min(room.height(), max(24.0, cell * height)))
        return QRectF(0, 0, cell * width, cell * height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(QColor(self.theme.muted))
        if self._image is None:
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, "No values fetched yet")
            return
        where = self.place()
        painter.drawImage(where, self._image)
        height, width = self._slice.shape
        foot = QRectF(0, where.bottom() + 2, self.width(), FOOT)
        every = (
            "" if self._steps == (1, 1) else ", every {}. row and {}. column".format(*self._steps)
        )
        painter.drawText(foot, Qt.AlignmentFlag.AlignTop, f"{height} rows, {width} columns{every}")

    def value_at(self, point: QPointF) -> str:
        """Row, column and value below a point; empty beside the picture."""
        where = self.place()
        if not where.contains(point) or not self._slice.size:
            return ""
        height, width = self._slice.shape
        row = min(height - 1, int(point.y() / where.height() * height))
        column = min(width - 1, int(point.x() / where.width() * width))
        return f"[{row}, {column}]  {self._slice[row, column]:.7g}"

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.value_at(QPointF(event.pos())), self)
            return True
        return super().event(event)


class Bins(QWidget):
    """A histogram with its ends written below it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        named(self, "Histogram of the values")
        self.theme = theme
        self.figures: Figures | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def sizeHint(self) -> QSize:
        return QSize(260, 90)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, 48)

    def show_figures(self, figures: Figures | None) -> None:
        self.figures = figures
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        found = self.figures
        if found is None or not any(found.counts):
            return
        painter = QPainter(self)
        room = QRectF(self.rect()).adjusted(0, 4, 0, -FOOT)
        width, most = room.width() / len(found.counts), max(found.counts)
        for place, count in enumerate(found.counts):
            height = room.height() * count / most
            bar = QRectF(place * width, room.bottom() - height, max(1.0, width - 1), height)
            painter.fillRect(bar, QColor(self.theme.untuned))
        painter.setPen(QColor(self.theme.muted))
        foot = QRectF(0, room.bottom() + 2, self.width(), FOOT)
        painter.drawText(foot, Qt.AlignmentFlag.AlignLeft, f"{found.low:.4g}")
        painter.drawText(foot, Qt.AlignmentFlag.AlignRight, f"{found.high:.4g}")
