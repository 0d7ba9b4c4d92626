"""The views of a window and their docks. What stands behind a tab is made when it is first seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.device.dock import DevicePanel
from nnjit_studio.ui.diff.backends import FasterPanel
from nnjit_studio.ui.diff.dock import DiffPanel
from nnjit_studio.ui.generation.dock import TextPanel
from nnjit_studio.ui.graph.dock import GraphPanel
from nnjit_studio.ui.kernel.dock import KernelPanel
from nnjit_studio.ui.log.dock import LogPanel
from nnjit_studio.ui.profile.dock import ProfilePanel
from nnjit_studio.ui.profile.perfetto import TraceSaved
from nnjit_studio.ui.records.dock import DatabasePanel
from nnjit_studio.ui.state.state import VIEWS as EVERYTHING
from nnjit_studio.ui.tuning.dock import TuningPanel
from nnjit_studio.ui.tuning.latency import LatencyPanel
from nnjit_studio.ui.tuning.rounds import RoundsPanel
from nnjit_studio.ui.tuning.space import SpacePanel
from nnjit_studio.ui.widgets.plots import PlotPanel
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.ui.widgets.theme import named

if TYPE_CHECKING:
    from nnjit_studio.ui.window.main_window import StudioWindow

LEFT, RIGHT, BOTTOM = (
    Qt.DockWidgetArea.LeftDockWidgetArea,
    Qt.DockWidgetArea.RightDockWidgetArea,
    Qt.DockWidgetArea.BottomDockWidgetArea,
)


@dataclass(frozen=True)
class View:
    """One view; ``follows`` the session's state by its method ``render``."""

    title: str
    area: Qt.DockWidgetArea
    make: Callable[[StudioWindow], QWidget]
    follows: bool = True


VIEWS = {
    "graph": View("Model graph", LEFT, lambda w: GraphPanel(w.session, w.theme)),
    "tuning": View("Tuning", RIGHT, lambda w: TuningPanel(w.session, w.theme, w.actions_by_id)),
    "rounds": View("GFLOP/s per round", RIGHT, lambda w: RoundsPanel(w.session, w.theme)),
    "latency": View("Model latency", RIGHT, lambda w: LatencyPanel(w.session, w.theme)),
    "space": View("Lite space", BOTTOM, lambda w: SpacePanel(w.session, w.theme)),
    "kernel": View("Kernel", BOTTOM, lambda w: KernelPanel(w.session, w.theme)),
    "profile": View("Profile", BOTTOM, lambda w: ProfilePanel(w.session, w.theme, w.actions_by_id)),
    "diff": View(
        "Numerical diff", BOTTOM, lambda w: DiffPanel(w.session, w.theme, w.actions_by_id)
    ),
    "faster": View(
        "Wasm or WebGPU", BOTTOM, lambda w: FasterPanel(w.session, w.theme, w.actions_by_id)
    ),
    "text": View("Text", BOTTOM, lambda w: TextPanel(w.session, w.theme, w.actions_by_id)),
    "database": View(
        "Kernel database",
        BOTTOM,
        lambda w: DatabasePanel(w.session, w.theme, w.actions_by_id),
        follows=False,
    ),
    "device": View("Device", BOTTOM, lambda w: DevicePanel(w.session, w.theme)),
    "log": View("Log", BOTTOM, lambda w: LogPanel(w.log_handler, w.theme), follows=False),
}
"""By the name of the dock; those at the bottom are tabs of one another, in this order."""

SEEN_AT_FIRST = ("graph", "tuning", "rounds", "latency", "space")


class Dock(QDockWidget):
    """A dock that makes its view when it is first seen, or asked for."""

    def __init__(self, name: str, window: StudioWindow) -> None:
        view = VIEWS[name]
        super().__init__(view.title, window)
        named(self, view.title)
        self.setObjectName(view.title)
        self._window, self._name = window, name
        self.seen = False
        self.visibilityChanged.connect(self._see)

    def fill(self) -> QWidget:
        """The view, made if need be."""
        if self.widget() is None:
            self.setWidget(VIEWS[self._name].make(self._window))
            wire(self._window, self._name, self.widget())
        return self.widget()

    def _see(self, seen: bool) -> None:
        self.seen = seen
        if seen:
            self.fill()


def build(window: StudioWindow) -> dict[str, Dock]:
    """The docks of a window, at their first places."""
    docks = {name: Dock(name, window) for name in VIEWS}
    for name, dock in docks.items():
        cast(QMainWindow, window).addDockWidget(VIEWS[name].area, dock)
    tabs = [dock for name, dock in docks.items() if VIEWS[name].area == BOTTOM]
    for left, right in pairwise(tabs):
        window.tabifyDockWidget(left, right)
    tabs[0].raise_()
    return docks


def view(name: str) -> Any:
    """An attribute of the window: the view of a dock."""
    return property(lambda window: window.docks[name].fill())


def wire(window: StudioWindow, name: str, panel: QWidget) -> None:
    """Connect a view that was just made, and tell it what the others know already."""
    for table in _all(panel, TablePanel):
        window.saver.offer_table(table)
    for plot in _all(panel, PlotPanel):
        window.saver.offer_plot(plot)
    if isinstance(panel, ProfilePanel):
        offer = window.saver.offer
        offer(
            panel.trace_button, "Save trace", "-trace.json",
            lambda path: _save_trace(window, panel, path),
        )  # fmt: skip
        offer(panel.save_button, "Save profile", "-profile.json", panel.save_profile)
    if isinstance(panel, (ProfilePanel, DiffPanel, FasterPanel)):
        panel.picked.connect(lambda row: window.graph.go_to(row.node))
        if name in window.results:
            panel.show_result(window.results[name])
    if isinstance(panel, (SpacePanel, DatabasePanel)):
        window.kernel_links.offer(panel)
    if isinstance(panel, KernelPanel):
        window.docks[name].visibilityChanged.connect(panel.be_seen)
        panel.be_seen(window.docks[name].seen)
        window.session.read_records()
    if isinstance(panel, DatabasePanel):
        panel.picked.connect(lambda row: window.graph.go_to_workload(row.workload))
        window.habits.use_records(panel)
        panel.store.refresh()
    if isinstance(panel, DevicePanel):
        window.session.read_device()
    if VIEWS[name].follows:
        panel.render(EVERYTHING)  # type: ignore[arg-type, call-overload]


def _save_trace(window: StudioWindow, panel: ProfilePanel, path: Path) -> None:
    panel.save_trace(path)
    dialogs.show(TraceSaved(window, path))


def _all(panel: QWidget, kind: type[Any]) -> list[Any]:
    inside = panel.findChildren(kind)
    return [panel, *inside] if isinstance(panel, kind) else inside
