"""Tab goes through what is in sight, in the order in which a window is read.

Qt's own order is that in which widgets were made; a dock makes its view when it is first seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QDockWidget, QScrollArea, QWidget

ROW = 6
"""Pixels by which the middles of controls of one row may differ."""


def next_in_sight(
    window: QWidget, stage: QWidget, covered: Callable[[QWidget], bool], forward: bool
) -> QWidget | None:
    """What takes the keys after the widget that has them; None where nothing can.

    What stands above the ``stage`` comes first, then its docks by columns, from the top. What is
    ``covered`` is out of sight with all that it holds, though Qt counts it as visible.
    """
    boxes: dict[QWidget, list[QWidget]] = {}
    for widget in _in_sight(window, covered):
        reached = widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isEnabled()
        if reached and widget.focusProxy() is None:
            boxes.setdefault(_box(widget, stage), []).append(widget)

    def place(box: QWidget) -> tuple[bool, int, int]:
        on_stage, at = stage.isAncestorOf(box), box.mapTo(window, QPoint())
        return (True, at.x(), at.y()) if on_stage else (False, at.y(), at.x())

    order = [w for box in sorted(boxes, key=place) for w in _read(boxes[box], window)]
    used = window.focusWidget()
    if not order:
        return None
    if used not in order:
        return order[0 if forward else -1]
    return order[(order.index(used) + (1 if forward else -1)) % len(order)]


def bring_to_sight(widget: QWidget) -> None:
    """Scroll what it lies in."""
    ancestor = widget.parentWidget()
    while ancestor is not None:
        if isinstance(ancestor, QScrollArea):
            ancestor.ensureWidgetVisible(widget)
        ancestor = ancestor.parentWidget()


def _in_sight(part: QWidget, covered: Callable[[QWidget], bool]) -> Iterator[QWidget]:
    """From the outside in: of some thousand widgets most are in what is out of sight."""
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    for widget in part.findChildren(QWidget, options=direct):
        if widget.isVisible() and not widget.isWindow() and not covered(widget):
            yield widget
            yield from _in_sight(widget, covered)


def _box(widget: QWidget, stage: QWidget) -> QWidget:
    """Its dock; elsewhere on the stage itself, as tabs of docks; above it, all is one."""
    ancestor: QWidget | None = widget
    while ancestor is not None and not isinstance(ancestor, QDockWidget):
        ancestor = ancestor.parentWidget()
    return ancestor or (widget if stage.isAncestorOf(widget) else widget.window())


def _read(widgets: list[QWidget], window: QWidget) -> Iterator[QWidget]:
    """By rows, each from the left; what holds others, as a list its buttons, by its top."""
    row: list[tuple[int, int, QWidget]] = []
    holders = {w for w in widgets if any(w.isAncestorOf(other) for other in widgets)}
    middles = (
        (w.mapTo(window, QPoint() if w in holders else w.rect().center()), w) for w in widgets
    )
    for at, widget in sorted(middles, key=lambda one: (one[0].y(), one[0].x())):
        if row and at.y() - row[0][0] > ROW:
            yield from _by_left(row)
            row = []
        row.append((at.y(), at.x(), widget))
    yield from _by_left(row)


def _by_left(row: list[tuple[int, int, QWidget]]) -> Iterator[QWidget]:
    return (widget for _, _, widget in sorted(row, key=lambda one: one[1]))
