"""Where docks are at first, in windows of each size."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from itertools import pairwise

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from nnjit_studio.ui.dock.feature import BOTTOM, PLOTS, RIGHT, STAGE, Feature, Place
from nnjit_studio.ui.widgets.panel import Panel

LAYOUT_VERSION = 2
ENGINE = "Engine"
NARROW_WINDOW, TALL_WINDOW = 1180, 880
"""Pixels below which plots and drawer have no room side by side, and from which the column has
room for a plot below a verdict."""
LOW_WINDOW = 600
"""Pixels of height below which the stage and a drawer have no room one above the other."""


class Plots(Enum):
    """Where the plots are at first."""

    COLUMN = "in the right column, whose session leaves them its height"
    BESIDE = "beside the drawer"
    TABS = "in front of the drawer's tabs"

    @classmethod
    def fitting(cls, room: QSize) -> Plots:
        """The place that suits a window of this size."""
        if room.width() < NARROW_WINDOW:
            return cls.TABS
        return cls.COLUMN if room.height() >= TALL_WINDOW else cls.BESIDE


def first_places(
    features: Sequence[Feature[Panel]],
    plots: Plots,
    hidden: Collection[str] = (),
    front: Sequence[str] = (),
) -> QByteArray:
    """Where every dock is at first, as Qt's bytes.

    They are those of other docks of the same names: docks that move before they are seen leave
    the tabs of their former places behind.

    Parameters
    ----------
    hidden
        Keys of the docks that are not shown.
    front
        Keys of those that come to the front of their tabs, where two have the same the earlier one;
        otherwise the first that is shown.
    """
    area, way, stage = Qt.DockWidgetArea, Qt.Orientation, QMainWindow()
    stage.setDockNestingEnabled(True)
    stage.setCorner(Qt.Corner.BottomRightCorner, area.RightDockWidgetArea)
    areas = {STAGE: area.LeftDockWidgetArea, RIGHT: area.RightDockWidgetArea}
    at: dict[Place, list[QDockWidget]] = {place: [] for place in Place}

    def add(name: str, place: Place) -> QDockWidget:
        dock = QDockWidget(stage)
        dock.setObjectName(name)
        stage.addDockWidget(areas.get(place, area.BottomDockWidgetArea), dock)
        at[place].append(dock)
        return dock

    docks = {feature.key: add(feature.title, feature.area) for feature in features}
    add(ENGINE, RIGHT)
    tabs = [at[STAGE], at[PLOTS], at[BOTTOM]]
    if plots is Plots.COLUMN:
        stage.splitDockWidget(at[RIGHT][-2], at[PLOTS][0], way.Vertical)
    elif plots is Plots.BESIDE:
        stage.splitDockWidget(at[PLOTS][0], at[BOTTOM][0], way.Horizontal)
    else:
        tabs = [at[STAGE], at[PLOTS] + at[BOTTOM]]
    for group in tabs:
        for left_tab, right_tab in pairwise(group):
            stage.tabifyDockWidget(left_tab, right_tab)
    for key in hidden:
        docks[key].hide()
    wanted = [docks[key] for key in front if key not in hidden]
    for group in tabs:
        shown = [dock for dock in group if not dock.isHidden()]
        for dock in [*(d for d in wanted if d in shown), *shown][:1]:
            dock.raise_()
    return stage.saveState(LAYOUT_VERSION)
