"""Squarified treemaps (Bruls, Huizing and van Wijk, 2000), without Qt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle: left, top, width, height."""

    x: float
    y: float
    width: float
    height: float


def squarified(areas: Sequence[float], frame: Box) -> list[Box]:
    """A box for each area, in its order; areas fall and fill the frame in proportion.

    Rows are laid along the shorter side and grow while their worst ratio of sides improves.
    """
    total = sum(areas)
    if not areas or total <= 0 or frame.width <= 0 or frame.height <= 0:
        return [Box(frame.x, frame.y, 0, 0) for _ in areas]
    scale = frame.width * frame.height / total
    sizes = [area * scale for area in areas]
    boxes: list[Box] = []
    first = 0
    while first < len(sizes):
        side = min(frame.width, frame.height)
        last = _row_end(sizes, first, side)
        row, frame = _cut(sizes[first:last], frame)
        boxes += row
        first = last
    return boxes


def _row_end(sizes: Sequence[float], first: int, side: float) -> int:
    """Behind the last of the sizes that make the best row from ``first`` on."""
    total, worst = sizes[first], _worst(sizes[first], sizes[first], sizes[first], side)
    last = first + 1
    while last < len(sizes):
        longer = _worst(sizes[first], sizes[last], total + sizes[last], side)
        if longer > worst:
            break
        total, worst = total + sizes[last], longer
        last += 1
    return last


def _worst(largest: float, smallest: float, total: float, side: float) -> float:
    """The worst ratio of sides in a row with this total along a side."""
    if smallest <= 0 or side <= 0:
        return float("inf")
    square, along = total * total, side * side
    return max(along * largest / square, square / (along * smallest))


def _cut(row: Sequence[float], frame: Box) -> tuple[list[Box], Box]:
    """The boxes of a row at the frame's left or top, and the frame that is left."""
    x, y, width, height = frame
    total = sum(row)
    boxes: list[Box] = []
    if width >= height:
        depth = total / height
        for size in row:
            boxes.append(Box(x, y, depth, size / depth if depth else 0))
            y += boxes[-1].height
        return boxes, Box(x + depth, frame.y, max(0.0, width - depth), height)
    depth = total / width
    for size in row:
        boxes.append(Box(x, y, size / depth if depth else 0, depth))
        x += boxes[-1].width
    return boxes, Box(frame.x, y + depth, width, max(0.0, height - depth))
