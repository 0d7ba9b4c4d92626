"""A dock of the stage, whose view is made when it is first seen."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDockWidget, QFrame, QMainWindow, QScrollArea, QWidget

from nnjit_studio.ui.dock.feature import RIGHT, Feature, Place
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.state import VIEWS
from nnjit_studio.ui.widgets.panel import Panel, named
from nnjit_studio.ui.widgets.plots.panel import PlotPanel
from nnjit_studio.ui.widgets.tables import TablePanel

LEAST = QSize(320, 90)
"""Pixels of a view that do not scroll away."""


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
