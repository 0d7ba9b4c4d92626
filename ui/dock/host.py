"""The services that a window offers to its docks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from PySide6.QtCore import QObject, QSettings, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.ui.commands.history import History
from nnjit_studio.ui.files.saving import Saver
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.log_lines import LineHandler
from nnjit_studio.ui.state.plan import PlanRow
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.message_bar import MessageBar
from nnjit_studio.ui.widgets.panel import Panel
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.ui.widgets.themes import Themes
from nnjit_studio.verdict.measure import Visits
from nnjit_studio.verdict.result import Verdict

OPENING = ("open", "drop")
"""Jobs that open a file."""
OTHER_FILE = (("Open another file", "open"), ("Open the documentation", "documentation"))


class KernelTables(QObject):
    """Finds the kernel of a row."""

    wanted = Signal(str, str)
    """A kernel is to be inspected: the key of its workload, empty for the selected one, and its
    settings, empty for the kernel that runs."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._tables: list[TablePanel] = []

    def add(self, table: TablePanel, inspect: QAction) -> None:
        """Lead from the rows of a table, which have ``settings`` and may name a ``workload``."""
        self._tables.append(table)
        table.view.addAction(inspect)
        table.view.doubleClicked.connect(lambda _: self._want_row(table))

    def want(self) -> None:
        """Inspect the kernel of the selected row that has the focus, else the one that runs."""
        for table in self._tables:
            if table.view.hasFocus() and table.view.selectionModel().hasSelection():
                return self._want_row(table)
        return self.wanted.emit("", "")

    def _want_row(self, table: TablePanel) -> None:
        rows = table.view.selectionModel().selectedRows()
        if rows:
            row = table.row_at(rows[0])
            if isinstance(row, PlanRow):
                return  # a way to import the model has no kernel of its own
            self.wanted.emit(getattr(row, "workload", ""), row.settings)


class Docks(Collection[str], Protocol):
    """The docks of a window, by their keys."""

    def panel(self, key: str) -> Panel:
        """The view of a dock, made if need be."""

    def show(self, key: str) -> None:
        """Bring a dock to the front."""

    def take_keys(self) -> None:
        """Give the keys to the dock of the middle that is in front."""

    def take_layout(self, action: str, for_file: bool = False) -> None:
        """Show the docks of a named layout; ``for_file``, until a model is opened."""


class Background(Protocol):
    """Work in a thread that is no job of the session."""

    @property
    def job(self) -> str:
        """Its name; empty while nothing is done."""

    def cancel(self) -> None:
        """Have it end soon."""


class Host(QObject):
    """Session, settings and services of a window, and requests from one dock to another.

    ``actions`` and ``docks`` are set while the window is built, before any view is made.
    ``background`` is what a window that closes cancels and waits for, ``measuring`` what of it
    measures: that, and the measuring jobs of the session, would disturb each other's figures.
    """

    node_wanted = Signal(str)
    """The graph is to select a node, by its name or that of an ONNX node in it."""
    workload_wanted = Signal(str)
    """The graph is to select a node of this workload, by its key."""
    wasm_shown = Signal(object, str)
    """``Path``, and its size in words: A Wasm file was read and is shown."""
    verdict_shown = Signal(object)
    """The window states another verdict of the open model, or None."""
    calm = Signal()
    """What was measured beside the session has ended."""
    verdict: Verdict | None = None
    """The one that it states now."""
    actions: Mapping[str, QAction]
    docks: Docks
    visits: Visits | None = None
    """Opens pages that nobody sees; None where a window has none."""

    def __init__(
        self, window: QWidget, session: StudioSession, settings: QSettings, themes: Themes
    ) -> None:
        super().__init__(window)
        self.window, self.session, self.settings = window, session, settings
        self.themes = themes
        self.message = MessageBar()
        self.saver = Saver(window, session, settings, self.message)
        self.history = History(self)
        self.history.told.connect(lambda said, tone: self.message.say(said, tone, passing=True))
        self.kernels = KernelTables(self)
        self.background: list[Background] = []
        self.measuring: list[Background] = []
        self.log_lines = LineHandler()

    def state_verdict(self, verdict: Verdict | None) -> None:
        """Tell the docks what stands above them."""
        self.verdict = verdict
        self.verdict_shown.emit(verdict)

    @property
    def beside(self) -> Background | None:
        """What measures now beside the session."""
        return next((work for work in self.measuring if work.job), None)

    @property
    def theme(self) -> Theme:
        return self.themes.current

    def tell(self, problem: JobProblem) -> None:
        """Show a problem in the message bar; what a user ended is none."""
        if problem.cancelled:
            self.message.say(str(problem), passing=True)
        elif problem.job in OPENING and problem.kind == UserError.kind:
            self.refuse_file(str(problem), problem.details)
        else:
            self.message.say(str(problem), "bad", problem.details)

    def refuse_file(self, why: str, details: str = "") -> None:
        """Say why a file is not opened, with the ways on from there."""
        steps = [(words, self.actions[action].trigger) for words, action in OTHER_FILE]
        self.message.say(why, "bad", details, steps)
