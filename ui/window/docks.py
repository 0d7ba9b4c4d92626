"""The docks of the window: their places, their views, and the named layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtWidgets import QDockWidget, QFrame, QMainWindow, QScrollArea

from nnjit_studio.ui.commands.history import UndoStep
from nnjit_studio.ui.dock.feature import BOTTOM, COMPARE, INSPECT, LEFT, TUNE, WASM_FILE, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.state import VIEWS
from nnjit_studio.ui.widgets.panel import Panel, named
from nnjit_studio.ui.widgets.plots import PlotPanel
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.ui.widgets.theme import Theme

LAYOUT_VERSION = 1
LAYOUTS = {
    TUNE: ("Tune", "space"),
    INSPECT: ("Inspect", "profile"),
    COMPARE: ("Compare", "database"),
    WASM_FILE: ("Wasm file", "wasm"),
}
"""Names of layouts and the docks in front, by the actions that take them."""


FIRST_SIZE = QSize(1600, 1000)
"""Of the window, where the screen has room for it."""
LEAST = QSize(640, 130)
"""Pixels of a view that do not scroll away."""


class Dock(QDockWidget):
    """A dock that makes its view when it is first seen, or asked for."""

    def __init__(self, feature: Feature[Panel], host: Host) -> None:
        super().__init__(feature.title, host.window)
        named(self, feature.title)
        self.setObjectName(feature.title)
        self._feature, self._host = feature, host
        self.made: Panel | None = None
        self.seen = False
        self.visibilityChanged.connect(self._see)

    def panel(self) -> Panel:
        """The view, made if need be."""
        if self.made is None:
            self.made = self._feature.make(self._host)
            self.setWidget(_Scrolled(self.made))
            self._offer_files(self.made)
            self.made.refresh(VIEWS)
            self.made.be_seen(self.seen)
        return self.made

    def _offer_files(self, panel: Panel) -> None:
        saver = self._host.saver
        for inner in (panel, *panel.findChildren(Panel)):
            if isinstance(inner, TablePanel):
                saver.offer_table(inner)
            elif isinstance(inner, PlotPanel):
                saver.offer_plot(inner)

    def _see(self, seen: bool) -> None:
        self.seen = seen
        if seen:
            self.panel()
        if self.made is not None:
            self.made.be_seen(seen)


class _Scrolled(QScrollArea):
    """A view that scrolls where the window has less room than it needs."""

    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self._panel = panel
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(panel)

    def minimumSizeHint(self) -> QSize:
        return self._panel.minimumSizeHint().boundedTo(LEAST)


class WindowDocks(Mapping[str, Dock]):
    """All docks of a window by their keys, in the order of the table of features."""

    def __init__(self, window: QMainWindow, host: Host, features: Sequence[Feature[Panel]]) -> None:
        self._window, self._history, self._features = window, host.history, features
        self._narrow: dict[str, int] = {}
        self._docks = {feature.key: Dock(feature, host) for feature in features}
        window.setCorner(Qt.Corner.BottomLeftCorner, LEFT)
        window.setCorner(Qt.Corner.BottomRightCorner, BOTTOM)
        for feature in features:
            window.addDockWidget(feature.area, self._docks[feature.key])
        tabs = [self._docks[feature.key] for feature in features if feature.area == BOTTOM]
        for left, right in pairwise(tabs):
            window.tabifyDockWidget(left, right)
        tabs[0].raise_()

    def __getitem__(self, key: str) -> Dock:
        return self._docks[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._docks)

    def __len__(self) -> int:
        return len(self._docks)

    def panel(self, key: str) -> Panel:
        """The view of a dock, made if need be."""
        return self[key].panel()

    def show(self, key: str) -> None:
        """Bring a dock to the front."""
        self.panel(key)
        self[key].show()
        self[key].raise_()

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
        return self._window.saveState(LAYOUT_VERSION)

    def place(self, places: QByteArray) -> None:
        """Put the docks where they were."""
        self._window.restoreState(places, LAYOUT_VERSION)

    def keep_first_places(self) -> None:
        """Have :meth:`reset` put every dock where it is now."""
        self._first_places = self.places()

    def reset(self) -> None:
        """Put every dock where it was at first."""
        self.place(self._first_places)
        self.size()

    def size(self) -> None:
        """Give the docks their first sizes, in proportion to the window's."""
        window, way = self._window, Qt.Orientation
        wide, tall = window.width() / FIRST_SIZE.width(), window.height() / FIRST_SIZE.height()

        def resize(pixels: Mapping[str, int], along: Qt.Orientation, share: float) -> None:
            sizes = [round(share * n) for n in pixels.values()]
            window.resizeDocks([self[key] for key in pixels], sizes, along)

        resize({"graph": 400, "rounds": 620}, way.Horizontal, wide)
        resize({"space": 330}, way.Vertical, tall)
        resize({"tuning": 150, "rounds": 330, "latency": 190}, way.Vertical, tall)

    def rearrange(self, done: str, arrange: Callable[[], object]) -> None:
        """Move docks; undo puts them back where the user had them."""
        before = self.places()
        self._history.do(UndoStep.at_once(done, arrange, lambda: self.place(before)))

    def take_layout(self, action: str) -> None:
        """Show the docks of a named layout at their first places, and no others."""
        name, front = LAYOUTS[action]

        def arrange() -> None:
            self.reset()
            for feature in self._features:
                self[feature.key].setVisible(action in feature.layouts)
            self[front].raise_()

        self.rearrange(f"Changed to the layout {name}", arrange)

    def widen(self, key: str, pixels: int) -> None:
        """Make a dock so wide, as far as the window has room; 0 for the width before."""
        dock, room = self[key], self._window.width() // 2
        wanted = min(pixels, room) if pixels else self._narrow.pop(key, 0)
        if pixels and dock.width() < wanted:
            self._narrow[key] = dock.width()
        elif pixels or not wanted:
            return
        self._window.resizeDocks([dock], [wanted], Qt.Orientation.Horizontal)

    def heighten(self, key: str, pixels: int) -> None:
        """Make a dock at least so high."""
        if self[key].height() < pixels:
            self._window.resizeDocks([self[key]], [pixels], Qt.Orientation.Vertical)
