"""The docks of the window and their views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabWidget, QWidget

from nnjit_studio.ui.dock.arranging import LAYOUTS, Arranging
from nnjit_studio.ui.dock.dock import Dock
from nnjit_studio.ui.dock.feature import STAGE, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.places import ENGINE
from nnjit_studio.ui.widgets.panel import Panel, named
from nnjit_studio.ui.widgets.theme import Theme


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
        self._features = features
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
        self.arranging = Arranging(self.stage, self, self.engine, features, host.history)

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

    def reset(self) -> None:
        """Put every dock where it is at first in a window of this size."""
        self.arranging.reset()

    def take_layout(self, action: str, for_file: bool = False) -> None:
        """Show the docks of a named layout at their first places, and no others.

        ``for_file`` it is not the user's: see :meth:`Arranging.take`.
        """

        def arrange() -> None:
            self.bring_forward()
            self.arranging.take(action, for_file)

        self.arranging.rearrange(f"Changed to the layout {LAYOUTS[action][0]}", arrange)
