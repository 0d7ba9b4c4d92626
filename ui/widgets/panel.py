"""Panels, and the rows and columns that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontInfo
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QBoxLayout,
    QFrame,
    QGraphicsView,
    QHBoxLayout,
    QLayout,
    QPushButton,
    QScrollArea,
    QSplitter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.ui.widgets.choosers import Chooser
from nnjit_studio.ui.widgets.theme import PIXELS, Theme

W = TypeVar("W", bound=QWidget)
B = TypeVar("B", bound=QBoxLayout)
S = TypeVar("S", bound=QAbstractSpinBox)
Part = QWidget | QLayout | None
"""Of a row or column; None is a space that stretches."""
Margins = tuple[int, int, int, int]


class Panel(QWidget):
    """A widget with the ground of a panel; the view of a dock is one.

    What it shows of the session's state it draws in :meth:`refresh`.
    """

    def __init__(self) -> None:
        super().__init__()
        ground(self)

    def refresh(self, changes: frozenset[str]) -> None:
        """Draw what changed: names of :data:`~nnjit_studio.ui.state.state.VIEWS`."""

    def set_theme(self, theme: Theme) -> None:
        """Draw in the colours of another theme."""

    def be_seen(self, seen: bool) -> None:
        """Whether the dock is in front now; behind others a view may rest."""

    def take_keys(self) -> None:
        """Give the keys to the first list or picture in it, or else to what Tab reaches first."""
        reached = [
            widget
            for widget in self.findChildren(QWidget)
            if widget.isVisibleTo(self)
            and widget.isEnabled()
            and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        ]
        views = (w for w in reached if isinstance(w, (QAbstractItemView, QGraphicsView)))
        if first := next(views, next(iter(reached), None)):
            first.setFocus()


def ground(widget: W) -> W:
    """Give a widget the ground of a panel; a plain ``QWidget`` paints none."""
    widget.setObjectName("panel")
    widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return widget


def named(widget: W, name: str, tip: str = "") -> W:
    """Give a widget its accessible name and, if there is one, its tooltip."""
    widget.setAccessibleName(name)
    if tip:
        widget.setToolTip(tip)
    return widget


def inset(field: S) -> S:
    """Keep a number off its field's border: a style sheet's padding does not reach it there."""
    field.lineEdit().setTextMargins(5, 0, 0, 0)
    return field


def hbox(
    *parts: Part | tuple[Part, int],
    on: QWidget | None = None,
    margins: Margins | None = (0, 0, 0, 0),
    spacing: int | None = 6,
) -> QHBoxLayout:
    """Parts from left to right, as the layout of ``on`` if that is given; see :func:`vbox`."""
    return _filled(QHBoxLayout(on) if on else QHBoxLayout(), parts, margins, spacing)


def vbox(
    *parts: Part | tuple[Part, int],
    on: QWidget | None = None,
    margins: Margins | None = (0, 0, 0, 0),
    spacing: int | None = 0,
) -> QVBoxLayout:
    """Parts from top to bottom, each alone or with its stretch.

    Parameters
    ----------
    margins
        Left, top, right and bottom, in pixels; None for those of the style.
    spacing
        Between the parts, in pixels; None for that of the style.
    """
    return _filled(QVBoxLayout(on) if on else QVBoxLayout(), parts, margins, spacing)


def _filled(
    box: B, parts: tuple[Part | tuple[Part, int], ...], margins: Margins | None, spacing: int | None
) -> B:
    if margins is not None:
        box.setContentsMargins(*margins)
    if spacing is not None:
        box.setSpacing(spacing)
    for given in parts:
        part, stretch = given if isinstance(given, tuple) else (given, 0)
        if part is None:
            box.addStretch(stretch or 1)
        elif isinstance(part, QWidget):
            box.addWidget(part, stretch)
        else:
            box.addLayout(part, stretch)
    return box


def clear(layout: QLayout) -> None:
    """Delete what a layout holds."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()


def scrolled(widget: QWidget, name: str = "") -> QScrollArea:
    """A widget in a frameless area that scrolls when there is too little room.

    With a ``name`` it takes the keys too; a form needs none, for it follows its fields.
    """
    area = QScrollArea(widgetResizable=True)
    if name:
        named(area, name)
    else:
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidget(widget)
    return area


def push_button(
    text: str, name: str, tip: str = "", act: Callable[[], object] | None = None
) -> QPushButton:
    """A button that calls ``act``."""
    button = named(QPushButton(text), name, tip)
    if act is not None:
        button.clicked.connect(lambda: act())
    return button


def chooser(name: str, tip: str = "", items: Iterable[str] = ()) -> Chooser:
    """A combo box over these texts."""
    combo = named(Chooser(), name, tip)
    combo.addItems(list(items))
    return combo


def splitter(way: Qt.Orientation, *parts: tuple[QWidget, int]) -> QSplitter:
    """Widgets with their first sizes, none of them collapsible."""
    made = QSplitter(way, childrenCollapsible=False)
    for widget, _ in parts:
        made.addWidget(widget)
    made.setSizes([size for _, size in parts])
    return made


def tool_button(text: str, name: str, tip: str = "") -> QToolButton:
    button = named(QToolButton(), name, tip)
    button.setText(text)
    return button


def scaled_font(font: QFont, factor: float, bold: bool = False) -> QFont:
    """A copy in another size but never below a caption's, digits of equal width."""
    copy = QFont(font)
    copy.setPixelSize(max(PIXELS["caption"], round(QFontInfo(font).pixelSize() * factor)))
    copy.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    copy.setFeature(QFont.Tag("tnum"), 1)
    return copy
