"""The docks of the window: their places, their views, and the named layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import pairwise

from PySide6.QtCore import QByteArray, QCoreApplication, QEvent, QSize, Qt, QTimer
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QMainWindow,
    QScrollArea,
    QTabBar,
    QTabWidget,
    QWidget,
)

from nnjit_studio.ui.commands.history import UndoStep
from nnjit_studio.ui.dock.feature import (
    BOTTOM,
    COMPARE,
    INSPECT,
    PLOTS,
    RIGHT,
    STAGE,
    TUNE,
    WASM_FILE,
    Feature,
    Place,
)
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.state import VIEWS
from nnjit_studio.ui.widgets.kept_sizes import KeptSizes
from nnjit_studio.ui.widgets.panel import Panel, named
from nnjit_studio.ui.widgets.plots.panel import PlotPanel
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.ui.widgets.theme import Theme

LAYOUT_VERSION = 2
ENGINE = "Engine"
LAYOUTS = {
    TUNE: ("Tune", ("graph", "rounds", "space")),
    INSPECT: ("Inspect", ("profile", "kernel")),
    COMPARE: ("Compare", ("graph", "database")),
    WASM_FILE: ("Wasm file", ("wasm",)),
}
"""Names of layouts and the docks in front, by the actions that take them."""


FIRST_SIZE = QSize(1600, 1000)
"""Of the window, where the screen has room for it."""
COLUMN, TILE, SESSION = 380, 230, 232
"""First width of the right column, heights of the engine's tile and of the session, in pixels."""
TILE_SHARE = 0.3
"""Of the window's height, which the tile has at most."""
DRAWER, DRAWER_SHARE = 70, 0.22
"""First height of the drawer: so many pixels, and of the window's height so much."""
NARROW = 170
"""Width of the right column where it holds the engine's tile alone."""
LEAST = QSize(320, 90)
"""Pixels of a view that do not scroll away."""


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


NARROW_WINDOW, TALL_WINDOW = 1000, 880
"""Pixels below which plots and drawer have no room side by side, and from which the column has
room for a plot below a verdict."""
LOW_WINDOW = 600
"""Pixels of height below which the stage and a drawer have no room one above the other."""


class Dock(QDockWidget):
    """A dock that makes its view when it is first seen, or asked for.

    Among tabs the tab is its title: it needs none above its view. While it ``waits``, it is not
    enough to be seen.
    """

    waits = False

    def __init__(self, feature: Feature[Panel], host: Host, stage: QMainWindow) -> None:
        super().__init__(feature.title, stage)
        named(self, feature.title)
        self.setObjectName(feature.title)
        self._feature, self._host, self._stage = feature, host, stage
        self.made: Panel | None = None
        self.seen = False
        self._no_title = QWidget()
        self.visibilityChanged.connect(self._see)
        self.topLevelChanged.connect(self._see_floating)

    def panel(self) -> Panel:
        """The view, made if need be."""
        if self.made is None:
            self.made = self._feature.make(self._host)
            self.setWidget(_Scrolled(self.made, self._feature.area))
            self._offer_files(self.made)
            self.made.refresh(VIEWS)
            self.made.be_seen(self.seen)
        return self.made

    def show_title(self) -> None:
        """Show the title where no tab does."""
        tabbed = not self.isFloating() and bool(self._stage.tabifiedDockWidgets(self))
        wanted = self._no_title if tabbed else None
        if self.titleBarWidget() is not wanted:
            self.setTitleBarWidget(wanted)  # type: ignore[arg-type]

    def _offer_files(self, panel: Panel) -> None:
        saver = self._host.saver
        for inner in (panel, *panel.findChildren(Panel)):
            if isinstance(inner, TablePanel):
                saver.offer_table(inner)
            elif isinstance(inner, PlotPanel):
                saver.offer_plot(inner)

    def _take_keys(self) -> None:
        """The keys come along from a dock that is behind this one now, or out of sight."""
        used, behind = self.window().focusWidget(), self._stage.tabifiedDockWidgets(self)
        hidden = used is not None and not used.isVisible()
        if hidden or any(dock.isAncestorOf(used) for dock in behind):
            self.panel().take_keys()

    def _see(self, seen: bool) -> None:
        self.seen = seen
        self.show_title()
        if seen and not self.waits:
            self.panel()
            self._take_keys()
        if self.made is not None:
            self.made.be_seen(seen)

    def _see_floating(self, floating: bool) -> None:
        """Qt does not say that a dock is visible which floats from behind its tab."""
        self.show_title()
        if floating and self.isVisible():
            self._see(True)


class _Scrolled(QScrollArea):
    """A view that scrolls where the window has less room than it needs."""

    def __init__(self, panel: Panel, area: Place) -> None:
        super().__init__()
        self._panel, self._area = panel, area
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(panel)

    def minimumSizeHint(self) -> QSize:
        return self._panel.minimumSizeHint().boundedTo(LEAST) if self._area is RIGHT else LEAST


class WindowDocks(Mapping[str, Dock]):
    """All docks of a window by their keys, in the order of the table of features.

    They fill a main window of their own, the stage, whose middle is no widget but a dock area, so
    that every view can be moved. The engine's view is a tile there that cannot be closed: Chromium
    slows down a page that nobody sees. ``bring_forward`` is called before a dock is shown.
    """

    def __init__(
        self, host: Host, engine_view: QWidget, features: Sequence[Feature[Panel]]
    ) -> None:
        self.stage = QMainWindow(flags=Qt.WindowType.Widget)
        self.stage.setDockNestingEnabled(True)
        self.stage.setDockOptions(self.stage.dockOptions() | QMainWindow.DockOption.GroupedDragging)
        everywhere = Qt.DockWidgetArea.AllDockWidgetAreas
        self.stage.setTabPosition(everywhere, QTabWidget.TabPosition.North)
        self._history, self._features = host.history, features
        self.bring_forward: Callable[[], object] = lambda: None
        self._docks = {feature.key: Dock(feature, host, self.stage) for feature in features}
        self.engine = named(QDockWidget(ENGINE, self.stage), ENGINE)
        self.engine.setObjectName(ENGINE)
        self.engine.setFeatures(
            QDockWidget.DockWidgetFeature.DockWidgetMovable
            | QDockWidget.DockWidgetFeature.DockWidgetFloatable
        )
        self.engine.setWidget(engine_view)
        column = Qt.DockWidgetArea.RightDockWidgetArea
        self.stage.setCorner(Qt.Corner.BottomRightCorner, column)
        for dock in self.values():
            dock.toggleViewAction().triggered.connect(lambda _: self.bring_forward())
        for placed in (*self.values(), self.engine):
            self.stage.addDockWidget(column, placed)  # they have their places by reset()
        self.kept = KeptSizes(self.stage, [*self._docks.values(), self.engine])

    def __getitem__(self, key: str) -> Dock:
        return self._docks[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._docks)

    def __len__(self) -> int:
        return len(self._docks)

    def panel(self, key: str) -> Panel:
        """The view of a dock, made if need be."""
        return self[key].panel()

    def wait(self) -> None:
        """Until :meth:`begin`, make no view that is not asked for: Qt says of docks behind the
        welcome page, too, that they are seen."""
        for dock in self.values():
            dock.waits = True

    def begin(self) -> None:
        """Make the views that are seen, one after the other: what the user does meanwhile comes
        between them."""
        for dock in self.values():
            dock.waits = False
        self._make_next()

    def _make_next(self) -> None:
        if dock := next((d for d in self.values() if d.seen and d.made is None), None):
            dock.panel()
            QTimer.singleShot(0, self.stage, self._make_next)

    def show(self, key: str) -> None:
        """Bring a dock to the front."""
        self.bring_forward()
        self.panel(key)
        self[key].show()
        self[key].raise_()

    def hide(self, widget: QWidget) -> bool:
        """Whether it is a dock behind another's tab, which Qt counts as visible, or the engine's
        tile, which has nothing to press."""
        return widget is self.engine or (isinstance(widget, Dock) and not widget.seen)

    def take_keys(self) -> None:
        """Give the keys to the dock of the middle that is in front."""
        middle = (self[f.key] for f in self._features if f.area is STAGE)
        if front := next((dock for dock in middle if dock.seen), None):
            front.panel().take_keys()

    def refresh(self, changes: frozenset[str]) -> None:
        """Have the views that are made draw what changed."""
        for panel in self._panels():
            panel.refresh(changes)

    def set_theme(self, theme: Theme) -> None:
        for panel in self._panels():
            panel.set_theme(theme)

    def _panels(self) -> Iterator[Panel]:
        return (dock.made for dock in self.values() if dock.made is not None)

    # Places

    def places(self) -> QByteArray:
        """Where every dock is, as Qt's bytes."""
        return self.stage.saveState(LAYOUT_VERSION)

    def place(self, places: QByteArray) -> bool:
        """Put the docks where they were; False for places of another version of the layout."""
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        before = self.stage.findChildren(QTabBar, options=direct)
        if not self.stage.restoreState(places, LAYOUT_VERSION):
            return False
        for bar in before:  # Qt makes others for these places, and leaves those in sight
            bar.hide()
        self._show_titles()
        return True

    def reset(self) -> None:
        """Put every dock where it is at first in a window of this size."""
        self.plots = Plots.fitting(self.stage.window().size())
        self.place(_first_places(self._features, self.plots))
        self._size()

    def _show_titles(self) -> None:
        for dock in self.values():
            dock.show_title()

    def _size(self) -> None:
        """Give the docks their first sizes, the column and the drawer smaller in small windows."""
        way, stage, window = Qt.Orientation, self.stage, self.stage.window()
        room = QSize(window.width(), (stage if stage.isVisible() else window).height())
        graph, tuning, rounds, space = map(self.__getitem__, ("graph", "tuning", "rounds", "space"))
        column = max(LEAST.width(), round(COLUMN * min(1.0, room.width() / FIRST_SIZE.width())))
        drawer = round(DRAWER + DRAWER_SHARE * window.height())
        tile = min(TILE, round(TILE_SHARE * window.height()))
        wide = round((room.width() - column) * 0.42)
        stage.resizeDocks([graph, tuning], [room.width() - column, column], way.Horizontal)
        if self.plots is Plots.BESIDE:
            stage.resizeDocks([rounds, space], [wide, room.width() - column - wide], way.Horizontal)
        stage.resizeDocks([graph, space], [room.height() - drawer, drawer], way.Vertical)
        if self.plots is Plots.COLUMN:
            rest = room.height() - SESSION - tile
            stage.resizeDocks([tuning, rounds, self.engine], [SESSION, rest, tile], way.Vertical)
        else:
            stage.resizeDocks([tuning, self.engine], [room.height() - tile, tile], way.Vertical)
        # The layout takes these sizes before a message above it changes the height again.
        QCoreApplication.sendPostedEvents(stage, QEvent.Type.LayoutRequest)

    def _narrow_column(self) -> None:
        """The engine's tile alone in the right column needs no quarter of the width."""
        column = self.stage.dockWidgetArea(self.engine)
        if any(d.seen and self.stage.dockWidgetArea(d) == column for d in self.values()):
            return
        sizes = [self.stage.width() - NARROW, NARROW]
        self.stage.resizeDocks([self["wasm"], self.engine], sizes, Qt.Orientation.Horizontal)

    def rearrange(self, done: str, arrange: Callable[[], object]) -> None:
        """Move docks; undo puts them back where the user had them."""
        before = self.places()
        self._history.do(UndoStep.at_once(done, arrange, lambda: self.place(before)))

    def take_layout(self, action: str) -> None:
        """Show the docks of a named layout at their first places, and no others."""
        name, front = LAYOUTS[action]

        def arrange() -> None:
            self.bring_forward()
            self.reset()
            low = action == INSPECT and self.stage.window().height() < LOW_WINDOW
            for feature in self._features:
                drawn = action in feature.layouts and not (low and feature.area is BOTTOM)
                self[feature.key].setVisible(drawn)
            self._show_titles()
            for key in reversed(front):
                self[key].raise_()
            # The layout learns in its next turn that the others are hidden.
            QTimer.singleShot(0, self.stage, self._narrow_column)

        self.rearrange(f"Changed to the layout {name}", arrange)


def _first_places(features: Sequence[Feature[Panel]], plots: Plots) -> QByteArray:
    """Where every dock is at first, as Qt's bytes.

    They are those of other docks of the same names: docks that move before they are seen leave
    the tabs of their former places behind.
    """
    area, way, stage = Qt.DockWidgetArea, Qt.Orientation, QMainWindow()
    stage.setDockNestingEnabled(True)
    stage.setCorner(Qt.Corner.BottomRightCorner, area.RightDockWidgetArea)
    areas = {STAGE: area.LeftDockWidgetArea, RIGHT: area.RightDockWidgetArea}
    at: dict[Place, list[QDockWidget]] = {place: [] for place in Place}

    def add(name: str, place: Place) -> None:
        dock = QDockWidget(stage)
        dock.setObjectName(name)
        stage.addDockWidget(areas.get(place, area.BottomDockWidgetArea), dock)
        at[place].append(dock)

    for feature in features:
        add(feature.title, feature.area)
    add(ENGINE, RIGHT)
    tabs = [at[STAGE], at[PLOTS], at[BOTTOM]]
    if plots is Plots.COLUMN:
        stage.splitDockWidget(at[RIGHT][-2], at[PLOTS][0], way.Vertical)
    elif plots is Plots.BESIDE:
        stage.splitDockWidget(at[PLOTS][0], at[BOTTOM][0], way.Horizontal)
    else:
        tabs = [at[STAGE], at[PLOTS] + at[BOTTOM]]
    for docks in tabs:
        for left_tab, right_tab in pairwise(docks):
            stage.tabifyDockWidget(left_tab, right_tab)
        docks[0].raise_()
    return stage.saveState(LAYOUT_VERSION)
