"""The colours of the graph, and a legend of their scale with units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QLinearGradient, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from nnjit_studio.ui.graph.facts import COLOUR_BY, ColourBy, Facts, place, span, worth_a_mark
from nnjit_studio.ui.graph.view import GraphView
from nnjit_studio.ui.widgets.panel import scaled_font
from nnjit_studio.ui.widgets.theme import Theme, ink_on, ramp

# Each scale changes its lightness all along, or blue against orange: both are read without
# telling red from green.
GOOD = {
    "light": ("#f3f5f8", "#b9d4ec", "#5596cf", "#084a86"),
    "dark": ("#262c35", "#1d4263", "#2f7abb", "#8fcaff"),
}
DELTA = {
    "light": ("#0b5cb8", "#9cc5ec", "#f3f5f8", "#f5bd83", "#b93d16"),
    "dark": ("#6db1ff", "#24507c", "#262c35", "#7a4417", "#ffab52"),
}
BAR = 90
STOPS = 9
SHADES = 64
"""Colours that the boxes' scale is made of."""


def stops_of(theme: Theme, scale: str) -> tuple[str, ...]:
    if scale == "delta":
        return DELTA[theme.name]
    return GOOD[theme.name] if scale == "good" else theme.heat


def colour_of(theme: Theme, by: ColourBy, place: float) -> QColor:
    """The colour of a place on a scale, 0 to 1."""
    return ramp(stops_of(theme, by.scale), place)


def colour_boxes(
    sides: Sequence[tuple[GraphView, Facts]], by: ColourBy, warnings: Mapping[str, str]
) -> tuple[tuple[float, float] | None, int]:
    """Colour the boxes of all sides on one scale, and mark those whose workload has a warning.

    Returns
    -------
    tuple
        The ends of the scale, None where no value is known, and how many boxes of the last
        side are marked.
    """
    values = [
        [(box, by.value(facts, box.unit.nodes)) for box in view.boxes.values() if box.unit.nodes]
        for view, facts in sides
    ]
    known = [value for side in values for _, value in side if value is not None]
    ends = span(by, known) if known else None
    marked = 0
    for (view, facts), side in zip(sides, values, strict=True):
        shades = [colour_of(view.theme, by, i / (SHADES - 1)) for i in range(SHADES)]
        inks = [ink_on(shade) for shade in shades]
        for box, value in side:
            box.fill = box.ink = None
            if value is not None and ends is not None:
                shade = round(place(by, value, *ends) * (SHADES - 1))
                box.fill, box.ink = shades[shade], inks[shade]
            warned = [node for node in box.unit.nodes if warnings.get(node.workload)]
            box.reason = warnings[warned[0].workload] if warned else ""
            box.warning = box.reason if worth_a_mark(facts, warned) else ""
        marked = sum(bool(box.warning) for box, _ in side)
        view.redraw()
    return ends, marked


class Legend(QWidget):
    """The scale in use with its ends; while there are no values, how to get some."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self.by = COLOUR_BY[0]
        self.ends: tuple[float, float] | None = None
        self.marked = self.copies = 0
        self.setFont(scaled_font(self.font(), 0.85))
        self.setFixedHeight(self.fontMetrics().height() + 14)

    def show_scale(
        self, by: ColourBy, ends: tuple[float, float] | None, marked: int, copies: int = 0
    ) -> None:
        self.by, self.ends, self.marked, self.copies = by, ends, marked, copies
        self.setToolTip(f"{by.title}: {by.source}.")
        self.setAccessibleName(f"Legend: {self.words}")
        self.update()

    @property
    def words(self) -> str:
        if self.ends is None:
            words = f"Boxes are neutral {self.by.missing}."
        else:
            low, high = self.by.number(self.ends[0]), self.by.say(self.ends[1])
            faster = " (blue is faster)" if self.by.scale == "delta" else ""
            words = f"{self.by.title} per box: {low} to {high}{faster}"
        words += f"   ·   framed in red: {self.marked} avoidable" if self.marked else ""
        told = f"   ·   red line: copied between WebGPU and Wasm, {self.copies} times"
        return words + (told if self.copies else "")

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self.theme.surface)
        painter.setPen(self.theme.muted)
        room = QRectF(self.rect()).adjusted(8, 0, -8, 0)
        if self.ends is not None:
            bar = QRectF(room.left(), room.center().y() - 5, BAR, 10)
            gradient = QLinearGradient(bar.topLeft(), bar.topRight())
            for i in range(STOPS):
                gradient.setColorAt(
                    i / (STOPS - 1), colour_of(self.theme, self.by, i / (STOPS - 1))
                )
            painter.fillRect(bar, gradient)
            room.adjust(BAR + 8, 0, 0, 0)
        words = self.fontMetrics().elidedText(
            self.words, Qt.TextElideMode.ElideRight, int(room.width())
        )
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, words)
