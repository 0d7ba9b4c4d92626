"""The trace of a profile as a timeline: threads as tracks, steps as bars, as in Perfetto."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip

from nnjit_studio.ui.widgets.panel import Panel, named
from nnjit_studio.ui.widgets.text import time
from nnjit_studio.ui.widgets.theme import Theme, ink_on, series_style

ZOOM = 1.25
LEAST_US = 0.5
"""The shortest time that the window is zoomed to."""
AXIS_HEIGHT, ROW_HEIGHT, GAP = 22, 24, 4
LEGEND_ROWS = 8
LABELS_WIDTH = 124
DIM = 60
"""Opacity, of 255, of bars that a search does not find."""
DRAG_PX = 4


SEARCHED = ("step", "layer", "workload", "fused from")


@dataclass(frozen=True)
class Span:
    """A bar: microseconds since the start of its process."""

    name: str
    start_us: float
    end_us: float
    args: Mapping[str, Any]

    @property
    def step(self) -> str:
        """The plan step's node; empty for a phase or a layer."""
        return str(self.args.get("step", ""))

    @property
    def is_layer(self) -> bool:
        return "layer" in self.args

    def says(self, words: str) -> bool:
        """Whether its name, step, layer, workload or ONNX nodes hold these words, in lower case."""
        told = (self.name, *(str(self.args.get(k, "")) for k in SEARCHED))
        return words in " ".join(told).lower()


@dataclass(frozen=True)
class Track:
    """A thread's bars in order; they do not overlap."""

    name: str
    spans: tuple[Span, ...]


def processes(document: Mapping[str, Any]) -> dict[str, tuple[Track, ...]]:
    """The tracks of each process of a Chrome trace, by the process's name; empty ones left out."""
    names: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    spans: dict[tuple[int, int], list[Span]] = {}
    for event in document["traceEvents"]:
        key = (event["pid"], event["tid"])
        if event["ph"] == "M":
            name = event["args"]["name"]
            if event["name"] == "process_name":
                names[event["pid"]] = name
            else:
                threads[key] = name
        elif event["ph"] == "X":
            end = event["ts"] + event["dur"]
            spans.setdefault(key, []).append(Span(event["name"], event["ts"], end, event["args"]))
    return {
        name: tuple(
            Track(thread, tuple(sorted(spans.get(key, ()), key=lambda s: s.start_us)))
            for key, thread in threads.items()
            if key[0] == pid
        )
        for pid, name in names.items()
        if any(key[0] == pid for key in spans)
    }


class Timeline(Panel):
    """Wheel and plus or minus zoom, drag and arrow keys move, Home shows all."""

    picked = Signal(object)
    """``Span``: A bar was clicked."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        named(self, "Trace timeline")
        self.setAccessibleDescription("The table of steps shows the same times.")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.theme = theme
        self.tracks: tuple[Track, ...] = ()
        self.from_us, self.to_us, self.end_us = 0.0, 1.0, 1.0
        self.selected = ""
        self.found: list[Span] = []
        self._words = ""
        self._place = -1
        self.drawn = 0
        self._ranks: dict[str, int] = {}
        self._taken_us: list[tuple[str, float]] = []
        self._starts: list[list[float]] = []
        self._ends: list[list[float]] = []
        self._pressed: QPointF | None = None
        self._dragged = False

    def show_tracks(self, tracks: Sequence[Track]) -> None:
        """Show these, whole; kinds that take most time have the first colours."""
        self.tracks = tuple(tracks)
        self._starts = [[s.start_us for s in t.spans] for t in self.tracks]
        self._ends = [[s.end_us for s in t.spans] for t in self.tracks]
        taken: dict[str, float] = {}
        for span in (s for t in self.tracks for s in t.spans if not s.is_layer):
            taken[span.name] = taken.get(span.name, 0.0) + span.end_us - span.start_us
        self._taken_us = sorted(taken.items(), key=lambda item: -item[1])
        self._ranks = {name: rank for rank, (name, _) in enumerate(self._taken_us)}
        self.end_us = max((s.end_us for t in self.tracks for s in t.spans), default=1.0)
        self.selected = ""
        self.search(self._words)
        self.fit()

    def search(self, words: str) -> int:
        """Dim the bars that do not hold these words; how many steps do, or layers."""
        self._words, self._place = words.strip().lower(), -1
        every = (s for t in self.tracks for s in t.spans)
        self.found = sorted(
            (s for s in every if self._words and s.says(self._words)), key=lambda s: s.start_us
        )
        self.update()
        return len(self.found)

    def step_found(self, step: int) -> int:
        """Show the next (1) or previous (-1) bar that was found; its place from 1, 0 for none."""
        if not self.found:
            return 0
        self._place = (self._place + step if self._place >= 0 else min(0, step)) % len(self.found)
        self.show_span(self.found[self._place])
        return self._place + 1

    def show_span(self, span: Span) -> None:
        """Have a bar take a fifth of the width, in the middle, and select its step."""
        width = max(span.end_us - span.start_us, LEAST_US)
        self._look(span.start_us - 2 * width, span.end_us + 2 * width)
        self.selected = span.step
        self.picked.emit(span)

    def fit(self) -> None:
        self._look(0.0, self.end_us)

    def select(self, step: str) -> None:
        """Mark a step's bars, and move there if none of them is in sight."""
        self.selected = step
        found = [s for t in self.tracks for s in t.spans if step and s.step == step]
        if found and not any(s.end_us > self.from_us and s.start_us < self.to_us for s in found):
            half = (self.to_us - self.from_us) / 2
            middle = (found[0].start_us + found[0].end_us) / 2
            self._look(middle - half, middle + half)
        self.update()

    def zoom(self, factor: float, at_us: float | None = None) -> None:
        """Show ``1 / factor`` of the time, what is at ``at_us`` staying where it is."""
        at = (self.from_us + self.to_us) / 2 if at_us is None else at_us
        self._look(at - (at - self.from_us) / factor, at + (self.to_us - at) / factor)

    def zoom_to(self, span: Span) -> None:
        """Have a layer fill the width."""
        self._look(span.start_us, span.end_us)

    def span_at(self, place: QPointF) -> Span | None:
        row = int((place.y() - AXIS_HEIGHT) // (ROW_HEIGHT + GAP))
        if place.x() < LABELS_WIDTH or not 0 <= row < len(self.tracks):
            return None
        time_us, slack = self._time(place.x()), self._time(2) - self._time(0)
        index = bisect_right(self._starts[row], time_us + slack) - 1
        if index < 0:
            return None
        span = self.tracks[row].spans[index]
        return span if span.end_us + slack >= time_us else None

    def sizeHint(self) -> QSize:
        rows = max(1, len(self.tracks))
        return QSize(600, AXIS_HEIGHT + rows * (ROW_HEIGHT + GAP))

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.update()

    def _look(self, start_us: float, end_us: float) -> None:
        width = min(max(end_us - start_us, LEAST_US), self.end_us)
        start = min(max(0.0, start_us), self.end_us - width)
        self.from_us, self.to_us = start, start + width
        self.update()

    def _scale(self) -> float:
        return max(1, self.width() - LABELS_WIDTH - 8) / (self.to_us - self.from_us)

    def _x(self, time_us: float) -> float:
        return LABELS_WIDTH + (time_us - self.from_us) * self._scale()

    def _time(self, x: float) -> float:
        return self.from_us + (x - LABELS_WIDTH) / self._scale()

    # Painting

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        self.drawn = 0
        self._paint_axis(painter)
        for row, track in enumerate(self.tracks):
            top = AXIS_HEIGHT + row * (ROW_HEIGHT + GAP)
            painter.setPen(QColor(self.theme.muted))
            name = QRectF(8, top, LABELS_WIDTH - 12, ROW_HEIGHT)
            painter.drawText(name, Qt.AlignmentFlag.AlignVCenter, track.name)
            painter.save()
            painter.setClipRect(
                QRectF(LABELS_WIDTH, top, self.width() - LABELS_WIDTH - 8, ROW_HEIGHT)
            )
            for span in self._in_sight(row):
                self._paint_span(painter, span, top)
            painter.restore()
        self._paint_legend(painter)

    def _paint_legend(self, painter: QPainter) -> None:
        """The colours of kinds, with their times over all tracks, where there is room."""
        top = AXIS_HEIGHT + len(self.tracks) * (ROW_HEIGHT + GAP) + ROW_HEIGHT
        height = self.fontMetrics().height() + GAP
        total = sum(us for _, us in self._taken_us) or 1.0
        room = max(0, int((self.height() - top) / height))
        for name, us in self._taken_us[: min(room, LEGEND_ROWS)]:
            colour = QColor(series_style(self.theme, self._ranks[name])[0])
            painter.fillRect(QRectF(LABELS_WIDTH, top + 3, 12, height - 6), colour)
            painter.setPen(QColor(self.theme.muted))
            words = f"{name}: {us / 1e3:.4g} ms, {us / total:.1%}"
            place = QRectF(LABELS_WIDTH + 20, top, self.width() - LABELS_WIDTH - 28, height)
            painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, words)
            top += height

    def _in_sight(self, row: int) -> Iterator[Span]:
        """Bars of a track that can be seen; of those that end in one pixel, the first alone."""
        spans, ends = self.tracks[row].spans, self._ends[row]
        pixel = 1.0 / self._scale()
        index = bisect_right(ends, self.from_us)
        while index < len(spans) and spans[index].start_us < self.to_us:
            span = spans[index]
            yield span
            index = max(index + 1, bisect_right(ends, span.start_us + pixel))

    def _paint_span(self, painter: QPainter, span: Span, top: float) -> None:
        self.drawn += 1
        left, right = self._x(span.start_us), self._x(span.end_us)
        colour = self._colour(span)
        box = QRectF(left, top, max(1.0, right - left - (1 if right - left > 3 else 0)), ROW_HEIGHT)
        painter.fillRect(box, colour)
        if self.selected and span.step == self.selected:
            painter.setPen(QColor(self.theme.text))
            painter.drawRect(box.adjusted(1, 1, -1, -1))
        if box.width() > 30:
            painter.setPen(QColor(self.theme.text) if colour.alpha() < 255 else ink_on(colour))
            inside = box.intersected(QRectF(LABELS_WIDTH, top, self.width(), ROW_HEIGHT))
            inside.adjust(4, 0, -2, 0)
            words = self.fontMetrics().elidedText(
                self._label(span), Qt.TextElideMode.ElideRight, int(inside.width())
            )
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, words)

    def _colour(self, span: Span) -> QColor:
        if span.is_layer:
            colour = QColor(self.theme.accent_soft)
        else:
            colour = QColor(series_style(self.theme, self._ranks[span.name])[0])
        if self._words and not span.says(self._words):
            colour.setAlpha(DIM)
        return colour

    @staticmethod
    def _label(span: Span) -> str:
        if span.is_layer:
            return f"{span.name}  {time((span.end_us - span.start_us) / 1e3)}"
        return f"{span.name} {span.step}".strip()

    def _paint_axis(self, painter: QPainter) -> None:
        if not self.tracks:
            return
        tick = _tick_us((self.to_us - self.from_us) / max(2.0, (self.width() - LABELS_WIDTH) / 110))
        bottom = AXIS_HEIGHT + len(self.tracks) * (ROW_HEIGHT + GAP)
        number = int(self.from_us // tick)
        while number * tick <= self.to_us:
            x = self._x(number * tick)
            if x >= LABELS_WIDTH:
                painter.setPen(QColor(self.theme.line))
                painter.drawLine(QPointF(x, 0), QPointF(x, bottom))
                painter.setPen(QColor(self.theme.muted))
                place = QRectF(x + 4, 0, 104, AXIS_HEIGHT)
                painter.drawText(
                    place, Qt.AlignmentFlag.AlignVCenter, f"{number * tick / 1e3:.6g} ms"
                )
            number += 1

    # Mouse and keys

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.angleDelta()
        if abs(delta.x()) > abs(delta.y()):
            shift = -delta.x() / self._scale()
            self._look(self.from_us + shift, self.to_us + shift)
        else:
            self.zoom(ZOOM ** (delta.y() / 120), self._time(event.position().x()))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed, self._dragged = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed is None:
            return
        moved = event.position().x() - self._pressed.x()
        if self._dragged or abs(moved) > DRAG_PX:
            self._dragged = True
            shift = -moved / self._scale()
            self._look(self.from_us + shift, self.to_us + shift)
            self._pressed = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed = self._pressed, None
        span = self.span_at(event.position())
        if pressed is not None and not self._dragged and span is not None:
            if span.is_layer:
                self.zoom_to(span)
            else:
                self.select(span.step)
                self.picked.emit(span)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, width = Qt.Key(event.key()), self.to_us - self.from_us
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom(ZOOM)
        elif key == Qt.Key.Key_Minus:
            self.zoom(1 / ZOOM)
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            shift = width / 8 if key == Qt.Key.Key_Right else -width / 8
            self._look(self.from_us + shift, self.to_us + shift)
        elif key == Qt.Key.Key_Home:
            self.fit()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            span = self.span_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), _tip(span) if span else "", self)
            return True
        return super().event(event)


def _tick_us(least: float) -> float:
    """1, 2 or 5 times a power of ten, not below ``least``."""
    power = 1e-3
    while power * 10 < least:
        power *= 10
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least)


def _tip(span: Span) -> str:
    lines = [f"{span.name}: {(span.end_us - span.start_us) / 1e3:.4f} ms"]
    lines += [f"{name}: {value}" for name, value in span.args.items() if value != ""]
    return "\n".join(lines)
