"""Bars of times, each with its interval and what else is known of its engine."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from nnjit_studio.ui.widgets.panel import scaled_font
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.verdict.result import PEERS, Row, Verdict
from nnjit_studio.verdict.text import COLUMNS, cells

LINE = 19
BAR = 13
NAME, TIME, COLUMN, GAP = 132, 150, 82, 10
LEAST_BAR, MOST_BAR = 80, 420
HALF = Qt.AlignmentFlag.AlignVCenter
NOT_INSTALLED = "not installed"
TIP = (
    "time: of one inference. memory: of the page's WebAssembly. cold start: from the address to "
    "the first result in a new page. shipped code: what a visitor downloads of code, kernels and "
    "plan, compressed; the weights come on top. largest error: of the outputs, as a "
    "share of their largest value, against ONNX Runtime Web's."
)
"""What the columns are."""


def bar_colour(theme: Theme, who: str) -> QColor:
    """What is ours is blue, what is not is grey; a turbo module is ours."""
    name = "tuned" if who == "turbo" else who
    return QColor(theme.peer if who in PEERS else getattr(theme, name))


class Bars(QWidget):
    """A verdict's rows on one scale of time; columns that do not fit are left out, last first."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self.verdict: Verdict | None = None
        self.setToolTip(TIP)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_verdict(self, verdict: Verdict | None) -> None:
        if (len(verdict.rows) if verdict else 0) != (len(self.verdict.rows) if self.verdict else 0):
            self.updateGeometry()
        self.verdict = verdict
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(NAME + MOST_BAR + TIME + 4 * COLUMN, 4 * LINE)

    def minimumSizeHint(self) -> QSize:
        return QSize(NAME + LEAST_BAR + TIME, 4 * LINE)

    def columns(self) -> tuple[int, ...]:
        """Places in :data:`COLUMNS` that fit behind the bars."""
        room = self.width() - NAME - LEAST_BAR - TIME
        return tuple(range(2, len(COLUMNS)))[: max(0, room // COLUMN)]

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.verdict is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        columns = self.columns()
        room = self.width() - NAME - TIME - len(columns) * COLUMN
        length = max(LEAST_BAR, min(MOST_BAR, room))
        known = [row.ms.high for row in self.verdict.rows if row.ms]
        scale = length / max(known) if known and max(known) > 0 else 0.0
        self._captions(painter, columns, length)
        for place, row in enumerate(self.verdict.rows, 1):
            self._row(painter, row, place * LINE, scale, columns, length)

    def _captions(self, painter: QPainter, columns: tuple[int, ...], length: int) -> None:
        painter.setFont(scaled_font(self.font(), 0.85))
        painter.setPen(QColor(self.theme.muted))
        what = "time of one inference, median of runs in turns"
        painter.drawText(QRectF(0, 0, NAME + length + TIME, LINE), HALF, what)
        for place, column in enumerate(columns):
            painter.drawText(self._cell(place, 0, length), HALF | RIGHT, COLUMNS[column])

    @staticmethod
    def _cell(place: int, top: int, length: int) -> QRectF:
        left = NAME + length + TIME + place * COLUMN
        return QRectF(left, top, COLUMN - GAP, LINE)

    def _row(
        self,
        painter: QPainter,
        row: Row,
        top: int,
        scale: float,
        columns: tuple[int, ...],
        length: int,
    ) -> None:
        assert self.verdict is not None
        mine = self.verdict.ours is row
        painter.setFont(_weighted(self.font(), mine))
        painter.setPen(QColor(self.theme.text))
        texts = cells(row, self.verdict.busy)
        painter.drawText(QRectF(0, top, NAME - GAP, LINE), HALF, texts[0])
        right = NAME + self._bar(painter, row, top, scale, length)
        painter.setPen(QColor(self.theme.text if row.ms else self.theme.muted))
        room = QRectF(right + 8, top, NAME + length + TIME - right - 8, LINE)
        said = texts[1] or self._absent(row)
        elided = painter.fontMetrics().elidedText(
            said, Qt.TextElideMode.ElideRight, int(room.width())
        )
        painter.drawText(room, HALF, elided)
        for place, column in enumerate(columns):
            painter.drawText(self._cell(place, top, length), HALF | RIGHT, texts[column])

    def _absent(self, row: Row) -> str:
        """Why a row has no time."""
        assert self.verdict is not None
        missing = row.who in PEERS and not self.verdict.versions
        return NOT_INSTALLED if missing else "…" if self.verdict.phase else ""

    def _bar(self, painter: QPainter, row: Row, top: int, scale: float, length: int) -> float:
        """Draw a bar and its interval; where they end."""
        assert self.verdict is not None
        middle = top + LINE / 2
        box = QRectF(NAME, middle - BAR / 2, 0, BAR)
        if row.ms is None:
            if row.problem:
                return 0.0
            box.setWidth(length / 3)
            painter.setPen(QPen(QColor(self.theme.muted), 1, Qt.PenStyle.DashLine))
            painter.drawRect(box)
            return box.width()
        colour = bar_colour(self.theme, row.who)
        if self.verdict.state == "not told apart" and self.verdict.ours is row:
            colour = QColor(self.theme.grey)
        box.setWidth(max(1.0, row.ms.median * scale))
        if self.verdict.busy:
            painter.setPen(QPen(colour, 1, Qt.PenStyle.DashLine))
            painter.drawRect(box)
        else:
            painter.fillRect(box, colour)
        painter.setPen(QPen(QColor(self.theme.text), 1.5))
        low, high = NAME + row.ms.low * scale, NAME + row.ms.high * scale
        painter.drawLine(QPointF(low, middle), QPointF(high, middle))
        for end in (low, high):
            painter.drawLine(QPointF(end, middle - 4), QPointF(end, middle + 4))
        return max(box.width(), row.ms.high * scale)


RIGHT = Qt.AlignmentFlag.AlignRight


def _weighted(font: QFont, bold: bool) -> QFont:
    return scaled_font(font, 1.0, bold)
