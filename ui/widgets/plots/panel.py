"""Plots with a button bar: theme, reset, image and data export."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QPen, QResizeEvent
from PySide6.QtWidgets import QLabel, QMenu, QToolButton

from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import (
    Panel,
    hbox,
    named,
    push_button,
    scaled_font,
    tool_button,
    vbox,
)
from nnjit_studio.ui.widgets.theme import Theme

Array = NDArray[np.float64]
Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Header and rows of a CSV file."""
AROUND_PX = 44
"""Height of a plot's lower axis and edges."""
POWERS = range(-6, 9)
TICKS = [
    [(power, f"{10.0**power:g}") for power in POWERS],
    [(power + math.log10(n), f"{n * 10.0**power:g}") for power in POWERS for n in (2, 5)],
]
"""Of logarithmic axes: pyqtgraph would label every digit between them, as powers."""


class PlotPanel(Panel):
    """A plot with a button bar and a sentence while it is empty."""

    def __init__(self, title: str, x: str, y: str, y_units: str, empty: str, theme: Theme) -> None:
        from nnjit_studio.ui.widgets.plots.axis import DirectAxis  # loads the plot library

        super().__init__()
        self.theme = theme
        self._axis_names = {"bottom": (x, ""), "left": (y, y_units)}
        axes = {side: DirectAxis(side) for side in ("bottom", "left")}
        # Without the menu from the start: building it takes 20 ms of each plot.
        plot = self.pg.PlotWidget(background=theme.surface, axisItems=axes, enableMenu=False)
        self.plot = named(plot, title)
        # Else the panel and the dock below are painted first, with every step of a pan.
        self.plot.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.plot.hideButtons()
        self.plot.setAccessibleDescription("The table of the lite space shows the same figures.")
        self.item: Any = self.plot.getPlotItem()
        self.item.showGrid(x=True, y=True, alpha=0.15)
        self.item.getViewBox().setDefaultPadding(0.04)
        for side in axes:
            self._dress_axis(self.item.getAxis(side))
        self.empty = QLabel(empty, self.plot, alignment=Qt.AlignmentFlag.AlignCenter)
        self.empty.setWordWrap(True)
        self.empty.setContentsMargins(32, 0, 12, 0)
        self.empty.setObjectName("empty")
        self.empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.reset_button = push_button(
            "Reset", f"{title}: reset view", "Show all data again (Ctrl+R)", self.reset
        )
        self.save_button = tool_button("Save", f"{title}: save", "Save as an image or as numbers")
        menu = named(QMenu(self.save_button), f"{title}: save as")
        self.png_action = menu.addAction("Image, PNG…")
        self.csv_action = menu.addAction("Numbers, CSV…")
        self.save_button.setMenu(menu)
        self.save_button.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self.save_button.clicked.connect(self.save_button.showMenu)
        self.bar = hbox(None, self.reset_button, self.save_button, margins=(8, 6, 8, 2))
        self.box = vbox(self.bar, (self.plot, 1), on=self)
        self._zoomed = False
        self.item.getViewBox().sigRangeChangedManually.connect(self._keep_view)
        self.label_axes()

    @property
    def pg(self) -> Any:
        """The plot library. The first plot loads it: that takes a fifth of a start of the program,
        and its first picture has no plot."""
        import pyqtgraph

        return pyqtgraph

    def _dress_axis(self, axis: Any) -> None:
        axis.setStyle(tickFont=scaled_font(self.font(), 0.85), hideOverlappingLabels=True)
        axis.enableAutoSIPrefix(False)
        axis.setZValue(-1)  # its grid goes below what is plotted
        axis.setStyle(maxTickLevel=1)  # each line of the grid costs a fill

    def add_caption(self) -> ElidedLabel:
        """A line below the buttons, for figures of what is plotted."""
        caption = quiet(ElidedLabel())
        caption.setContentsMargins(10, 0, 10, 0)
        self.box.insertWidget(1, caption)
        return caption

    def label_axes(self, **names: tuple[str, str]) -> None:
        """Name axes as ``side=(name, unit)``; those not given keep theirs."""
        self._axis_names |= names
        for side, (name, unit) in self._axis_names.items():
            label = f"{name} ({unit})" if unit else name
            axis = self.item.getAxis(side)
            room = self.plot.height() - AROUND_PX if side == "left" else self.plot.width()
            if unit and self.fontMetrics().horizontalAdvance(label) > room:
                label = unit  # a name that is cut says less
            axis.setLabel(label, color=self.theme.muted)
            axis.resizeEvent()  # it places its label nowhere else
            axis.ground = QColor(self.theme.surface)
            axis.setPen(self.theme.line)
            axis.setTextPen(self.theme.muted)

    def show_empty(self, empty: bool) -> None:
        self.empty.setVisible(empty)
        for side in ("bottom", "left"):
            self.item.getAxis(side).setStyle(showValues=not empty)
        self._place_empty()

    def _place_empty(self) -> None:
        """Above the name of the axis, which is all of it that is seen."""
        name = round(self.item.getAxis("bottom").label.boundingRect().height())
        self.empty.setGeometry(self.plot.rect().adjusted(0, 0, 0, -name))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place_empty()
        if event.size().height() != event.oldSize().height():
            self.label_axes()

    def frame(self, top: float, room: float = 1.15) -> None:
        """Show 0 to ``room`` times ``top``, unless the user chose another view."""
        if not self._zoomed and top > 0:
            self.item.setYRange(0, top * room, padding=0)

    def reset(self) -> None:
        self._zoomed = False
        self.item.enableAutoRange()
        self.redraw()

    def redraw(self) -> None:
        """Draw all data again."""
        raise NotImplementedError

    def _keep_view(self, *_: object) -> None:
        self._zoomed = True

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.plot.setBackground(theme.surface)
        self.plot.resetCachedContent()  # else the old ground stays until the plot is resized
        self.label_axes()
        self.redraw()

    def table(self) -> Table:
        """The numbers that are plotted."""
        raise NotImplementedError

    def export_csv(self, path: Path) -> None:
        header, rows = self.table()
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)

    def export_png(self, path: Path) -> None:
        """Save what is seen.

        Raises
        ------
        OSError
            When the image cannot be written.
        """
        if not self.plot.grab().save(str(path), "PNG"):
            raise OSError(f"The image {path.name} could not be written.")


def steps(x: Array, y: Array) -> tuple[Array, Array]:
    """A staircase: each value holds until the next one."""
    return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]


def pen(colour: str, width: float, dash: Sequence[float] = ()) -> QPen:
    made = QPen(QColor(colour), width)
    made.setCosmetic(True)  # as wide on the screen, however the plot is stretched
    if dash:
        made.setDashPattern(list(dash))
    return made


def brush(colour: str) -> QBrush:
    return QBrush(QColor(colour))


def use_log_axes(item: Any) -> None:
    """Draw both axes in powers of ten, with plain numbers."""
    item.setLogMode(x=True, y=True)
    for side in ("bottom", "left"):
        item.getAxis(side).setTicks(TICKS)
