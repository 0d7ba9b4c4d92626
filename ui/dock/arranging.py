"""Where the docks of the stage are: at first, in a named layout, and where the user put them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from PySide6.QtCore import (
    QByteArray,
    QCoreApplication,
    QEvent,
    QObject,
    QSettings,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabBar

from nnjit_studio.ui.commands.history import History, UndoStep
from nnjit_studio.ui.dock.dock import LEAST, Dock
from nnjit_studio.ui.dock.feature import (
    BOTTOM,
    COMPARE,
    INSPECT,
    PLOTS,
    TUNE,
    WASM_FILE,
    Feature,
    Place,
)
from nnjit_studio.ui.dock.places import LAYOUT_VERSION, LOW_WINDOW, Plots, first_places
from nnjit_studio.ui.widgets.kept_sizes import KeptSizes
from nnjit_studio.ui.widgets.panel import Panel

AREA = Qt.DockWidgetArea
FIRST, BY_HAND = "first", "by hand"
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
DRAWER, DRAWER_SHARE = -20, 0.31
"""First height of the drawer: so many pixels, and of the window's height so much."""
BESIDE_PLOTS = 520
"""Pixels of width that the drawer's tables show all their controls in."""
LEAST_STAGE = QSize(640, 240)
"""Pixels that the docks have room in: those of the program's arrangements need no more, and a
window may be made so small at once."""
NARROW = 170
"""Width of the right column where it holds the engine's tile alone."""


def _key(plots: Plots, what: str) -> str:
    """Names a setting: windows of each size have their own."""
    return f"{plots.name.lower()}/{what}"


@dataclass(frozen=True)
class Arrangement:
    """Places of all docks, as Qt's bytes, in a window where the plots belong there."""

    plots: Plots
    places: QByteArray
    layout: str = BY_HAND
    """The action of a named layout, or one of the two others: from :data:`FIRST` on."""


class Arranging(QObject):
    """Arranges the docks, and follows the window's size.

    What the program arranged it arranges anew where the window's size asks for other places; the
    docks that are shown stay shown. What the user arranged stays where it has room; without it what
    is side by side below the middle or in it becomes tabs, until there is room again.
    """

    def __init__(
        self,
        stage: QMainWindow,
        docks: Mapping[str, Dock],
        engine: QDockWidget,
        features: Sequence[Feature[Panel]],
        history: History,
    ) -> None:
        super().__init__(stage)
        self._stage, self._docks, self._engine = stage, docks, engine
        self._features, self._history = features, history
        self.plots, self.layout = Plots.BESIDE, FIRST
        self.own: dict[Plots, Arrangement] = {}
        """What the user arranged in windows of other sizes."""
        self._of_file: Arrangement | None = None
        self._roomy: tuple[int, QByteArray] | None = None
        self._folded: set[str] = set()
        self._front: list[str] = []
        self._column = 0
        self._low = self._busy = False
        stage.installEventFilter(self)  # told after the filter of KeptSizes, which comes later
        self.kept = KeptSizes(stage, [*docks.values(), engine])
        for dock in (*docks.values(), engine):
            dock.dockLocationChanged.connect(self._moved)

    # Places

    def places(self) -> QByteArray:
        """Where every dock is, as Qt's bytes."""
        return self._stage.saveState(LAYOUT_VERSION)

    def mine(self) -> Arrangement:
        """What a later window may :meth:`take_back`: not what the program chose for a file."""
        if self._of_file is not None:
            return self._of_file
        places = self.places() if self._roomy is None else self._roomy[1]
        return Arrangement(self.plots, places, self.layout)

    def take_back(self, arrangement: Arrangement) -> bool:
        """Put the docks where they were; False for places of another version of the layout."""
        if not self._place(arrangement.places):
            return False
        self.layout, self._of_file, self._roomy = arrangement.layout, None, None
        self._folded.clear()
        if arrangement.plots is not self.plots and self.layout != BY_HAND:
            self._arrange_anew()
        self._fold()
        self._make_room()
        return True

    def place(self, places: QByteArray) -> bool:
        """Put the docks where a user had them in some window."""
        return self.take_back(Arrangement(self.plots, places))

    def read(self, settings: QSettings) -> None:
        """Put the docks where they were in a window of this size that was closed."""
        for plots in Plots:
            places, layout = (settings.value(_key(plots, what)) for what in ("state", "layout"))
            if isinstance(places, QByteArray):
                kept = Arrangement(plots, places, str(layout or BY_HAND))
                if kept.layout == BY_HAND:
                    self.own[plots] = kept
                if plots is self.plots and self.take_back(kept):
                    sizes = settings.value(_key(plots, "sizes"))
                    self.kept.take(sizes if isinstance(sizes, dict) else {})

    def write(self, settings: QSettings) -> None:
        """Keep where the docks are for a window that is opened later."""
        mine = self.mine()
        for kept in (*self.own.values(), mine):
            settings.setValue(_key(kept.plots, "state"), kept.places)
            settings.setValue(_key(kept.plots, "layout"), kept.layout)
        if self._of_file is None:
            settings.setValue(_key(mine.plots, "sizes"), self.kept.sizes())

    def reset(self) -> None:
        """Put every dock where it is at first in a window of this size."""
        self._take(FIRST, (), ())

    def take(self, action: str, for_file: bool = False) -> None:
        """Show the docks of a named layout at their first places, and no others.

        ``for_file`` it is for as long as nobody arranges anything, and not kept.
        """
        before = self.mine() if for_file else None
        if not for_file:
            self.own.clear()
        hidden = [f.key for f in self._features if action not in f.layouts]
        self._take(action, hidden, LAYOUTS[action][1])
        self._of_file = before

    def leave_file(self) -> None:
        """End the layout that the program chose for a file."""
        if self._of_file is not None:
            self.take_back(self._of_file)

    def rearrange(self, done: str, arrange: Callable[[], object]) -> None:
        """Move docks; undo puts them back where the user had them."""
        before = self.mine()
        self._history.do(UndoStep.at_once(done, arrange, lambda: self.take_back(before)))

    def _take(self, layout: str, hidden: Iterable[str], front: Sequence[str]) -> None:
        self.plots, self.layout = Plots.fitting(self._room()), layout
        self._of_file = self._roomy = None
        self._low = self._room().height() < LOW_WINDOW
        gone = {*hidden, *(self._drawer() if self._low and layout == INSPECT else ())}
        self._folded, self._front = gone.difference(hidden), [*front]
        self._place(first_places(self._features, self.plots, gone, front))
        self._size()

    def _place(self, places: QByteArray) -> bool:
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        before = self._stage.findChildren(QTabBar, options=direct)
        with self._arranging():
            placed = self._stage.restoreState(places, LAYOUT_VERSION)
        if placed:
            for bar in before:  # Qt makes others for these places, and leaves those in sight
                bar.hide()
            self._show_titles()
        return placed

    def _show_titles(self) -> None:
        for dock in self._docks.values():
            dock.show_title()

    @contextmanager
    def _arranging(self) -> Iterator[None]:
        """What moves meanwhile, the user did not move."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def _moved(self) -> None:
        """The user dragged a dock elsewhere, let it float, or put it back."""
        if not self._busy:
            self.layout, self._of_file, self._roomy = BY_HAND, None, None

    # Sizes

    def _room(self) -> QSize:
        """Of the window; one that is maximised has that of its screen before it is shown."""
        window = self._stage.window()
        first = window.isMaximized() and not window.isVisible()
        return window.screen().availableSize() if first else window.size()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self._stage.isVisible() and not self._busy:
            with self._arranging():
                self._follow()
        return False

    def _follow(self) -> None:
        before, self.plots = self.plots, Plots.fitting(self._room())
        if before is not self.plots:
            if self.layout == BY_HAND:
                self.own[before] = Arrangement(before, self.mine().places)
            if self.plots in self.own:
                self.take_back(self.own[self.plots])
            elif self.layout != BY_HAND:
                self._arrange_anew()
        self._fold()
        self._make_room()

    def _arrange_anew(self) -> None:
        """Put the docks that are shown where they are at first in a window of this size."""
        hidden = [key for key, dock in self._docks.items() if dock.isHidden()]
        front = [key for key, dock in self._docks.items() if dock.seen]
        self._front = [*front, *(key for key in self._front if key not in front)]
        given = self.kept.column if self._docks["tuning"].seen else 0
        wanted = given if given > self._column + self.kept.edge else 0
        self._place(first_places(self._features, self.plots, hidden, self._front))
        self._size(wanted)

    def _fold(self) -> None:
        """Hide the drawer of the layout for inspecting while the window is too low for both."""
        was, self._low = self._low, self._room().height() < LOW_WINDOW
        if self._low and not was and self.layout == INSPECT:
            self._folded = {key for key in self._drawer() if not self._docks[key].isHidden()}
        elif self._low:
            return
        for key in self._folded:
            self._docks[key].setVisible(not self._low)
        if not self._low:
            self._folded = set()

    def _drawer(self) -> list[str]:
        return [feature.key for feature in self._features if feature.area is BOTTOM]

    def _make_room(self) -> None:
        """Make tabs of what the user put side by side, or put it back, as the width asks for."""
        if self._roomy is not None and self._stage.width() >= self._roomy[0]:
            places, self._roomy = self._roomy[1], None
            self._place(places)
        stage, least = self._stage, LEAST_STAGE
        if self.layout == BY_HAND:
            for area in (AREA.BottomDockWidgetArea, AREA.LeftDockWidgetArea):
                if (needed := stage.minimumSizeHint().width()) > stage.width():
                    self._roomy = self._roomy or (needed, self.places())
                    self._make_tabs(area)
            needs = stage.minimumSizeHint()
            if needs.expandedTo(stage.size()) != stage.size():
                least = needs  # it has more docks beside each other, and the window grows
        stage.setMinimumSize(least)

    def _make_tabs(self, area: AREA) -> None:
        stage = self._stage
        docks = (dock for dock in self._docks.values() if not dock.isFloating())
        here = [dock for dock in docks if dock.seen and stage.dockWidgetArea(dock) == area]
        if here:
            most = max(here, key=lambda dock: len(stage.tabifiedDockWidgets(dock)))
            with self._arranging():
                for dock in here:
                    if dock is not most:
                        stage.tabifyDockWidget(most, dock)
            here[0].raise_()
            self._show_titles()

    def _size(self, wanted: int = 0) -> None:
        """Give the docks their first sizes, the column and the drawer smaller in small windows.

        ``wanted`` is the width that the user gave the column.
        """
        way, stage, window = Qt.Orientation, self._stage, self._stage.window()
        room = QSize(window.width(), (stage if stage.isVisible() else window).height())
        graph, tuning = self._docks["graph"], self._docks["tuning"]
        rounds, space = self._in_front(PLOTS), self._in_front(BOTTOM)
        first = max(LEAST.width(), round(COLUMN * min(1.0, room.width() / FIRST_SIZE.width())))
        column = min(wanted, room.width() - LEAST.width()) if wanted else first
        drawer = round(DRAWER + DRAWER_SHARE * window.height())
        tile = min(TILE, round(TILE_SHARE * window.height()))
        middle = room.width() - column - self.kept.edge
        wide = min(round(middle * 0.42), middle - self.kept.edge - BESIDE_PLOTS)
        stage.resizeDocks([graph, tuning], [middle, column], way.Horizontal)
        if self.plots is Plots.BESIDE:
            stage.resizeDocks([rounds, space], [wide, middle - wide], way.Horizontal)
        stage.resizeDocks([graph, space], [room.height() - drawer, drawer], way.Vertical)
        if self.plots is Plots.COLUMN:
            rest = room.height() - SESSION - tile
            stage.resizeDocks([tuning, rounds, self._engine], [SESSION, rest, tile], way.Vertical)
        else:
            stage.resizeDocks([tuning, self._engine], [room.height() - tile, tile], way.Vertical)
        # The layout takes these sizes before a message above it changes the height again.
        QCoreApplication.sendPostedEvents(stage, QEvent.Type.LayoutRequest)
        self._column = first
        # The layout learns in its next turn that others are hidden.
        QTimer.singleShot(0, stage, self._narrow_column)

    def _in_front(self, place: Place) -> Dock:
        """The dock of a place that is in front of the others there, or is at first."""
        docks = [self._docks[f.key] for f in self._features if f.area is place]
        return next((dock for dock in docks if dock.seen), docks[0])

    def _narrow_column(self) -> None:
        """The engine's tile alone in the right column needs no quarter of the width."""
        column = self._stage.dockWidgetArea(self._engine)
        seen = (dock for dock in self._docks.values() if dock.seen)
        if any(self._stage.dockWidgetArea(dock) == column for dock in seen):
            return
        sizes = [self._stage.width() - NARROW, NARROW]
        self._stage.resizeDocks(
            [self._docks["wasm"], self._engine], sizes, Qt.Orientation.Horizontal
        )
