"""Boxes of a graph with their places, made ready to paint."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF
from PySide6.QtGui import QColor, QPainterPath

from nnjit_studio.model import Node
from nnjit_studio.ui.graph.drawing import ARROW, Area, Arranged, Segment
from nnjit_studio.ui.graph.groups import Unit

MARGIN = 20.0


class Box:
    """A unit of the graph as it is drawn; ``reason`` is what could be
    avoided, ``warning`` the same where it costs enough to be marked; ``fill`` None is neutral."""

    __slots__ = (
        "area", "current", "fill", "found", "ink", "line", "reason", "rect", "selected",
        "shown", "title", "unit", "warning",
    )  # fmt: skip

    def __init__(self, unit: Unit, area: Area, line: str) -> None:
        self.unit, self.area, self.line = unit, area, line
        self.rect = _rect(area)
        self.title = unit.title.rsplit("/")[-1] if unit.group else unit.title
        self.warning = self.reason = ""
        self.fill: QColor | None = None
        self.ink: QColor | None = None
        self.selected = self.found = self.current = False
        self.shown: dict[tuple[str, int], str] = {}

    @property
    def node(self) -> Node | None:
        """The node of a box; None for a group or a port."""
        return self.unit.node

    def pos(self) -> QPointF:
        return self.rect.center()


class Places:
    """Rectangles, and which of them an area touches."""

    def __init__(self, areas: NDArray[np.float64]) -> None:
        self._areas = areas

    @classmethod
    def around(cls, segments: Sequence[Segment]) -> Places:
        """The bounds of lines, with room for an arrow at their ends."""
        ends = np.array(segments, dtype=np.float64).reshape(-1, 2, 2)
        low, high = ends.min(axis=1) - ARROW, ends.max(axis=1) + ARROW
        return cls(np.concatenate((low, high), axis=1))

    def within(self, area: QRectF) -> list[int]:
        a = self._areas
        hit = (a[:, 0] <= area.right()) & (a[:, 2] >= area.left())
        hit &= (a[:, 1] <= area.bottom()) & (a[:, 3] >= area.top())
        found: list[int] = np.flatnonzero(hit).tolist()
        return found

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
        self.box_places = Places(areas)
        self.line_places = Places.around(arranged.segments)
        self.tip_places = Places.around([(tip, tip) for tip in arranged.tips])
        bounds = self.box_places.bounds().united(self.line_places.bounds())
        for _, rect in self.frames:
            bounds = bounds.united(rect)
        self.bounds = bounds.adjusted(-MARGIN, -MARGIN, MARGIN, MARGIN)

    def twin(self) -> Sheet:
        """The same drawing with boxes of its own, to be coloured otherwise."""
        made = copy.copy(self)
        made.boxes = [Box(box.unit, box.area, box.line) for box in self.boxes]
        return made


def _rect(area: Area) -> QRectF:
    return QRectF(area[0], area[1], area[2] - area[0], area[3] - area[1])
