"""The window: the engine page in the middle, the views around it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QActionGroup, QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import (
    QApplication,
    QMainWindow,
    QMenuBar,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.ui.commands import actions as registry
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.commands.palette import Palette
from nnjit_studio.ui.device.dock import DevicePanel
from nnjit_studio.ui.diff.backends import FasterPanel
from nnjit_studio.ui.diff.dock import DiffPanel
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.files.saving import Saver
from nnjit_studio.ui.generation.dock import TextPanel
from nnjit_studio.ui.graph.dock import GraphPanel
from nnjit_studio.ui.graph.links import Links
from nnjit_studio.ui.kernel.dock import KernelPanel
from nnjit_studio.ui.kernel.links import KernelLinks
from nnjit_studio.ui.log.dock import LineHandler, LogPanel
from nnjit_studio.ui.page.keeper import PageKeeper
from nnjit_studio.ui.profile.dock import ProfilePanel
from nnjit_studio.ui.records.dock import DatabasePanel
from nnjit_studio.ui.records.store import RecordStore
from nnjit_studio.ui.state.services import PageView
from nnjit_studio.ui.state.session import Problem, Session
from nnjit_studio.ui.tuning.dock import TuningPanel
from nnjit_studio.ui.tuning.latency import LatencyPanel
from nnjit_studio.ui.tuning.rounds import RoundsPanel
from nnjit_studio.ui.tuning.space import SpacePanel
from nnjit_studio.ui.widgets.message_bar import MessageBar
from nnjit_studio.ui.widgets.plots import PlotPanel
from nnjit_studio.ui.widgets.theme import Theme, Themes, named
from nnjit_studio.ui.window import habits, views
from nnjit_studio.ui.window.backend_choice import BackendChoice
from nnjit_studio.ui.window.header import Header
from nnjit_studio.ui.window.welcome_flow import EXAMINE, FirstRun
from nnjit_studio.workbench import Workbench

log = logging.getLogger(__name__)

LOGGERS = ("nnjit_studio", "nnjit")
LAYOUT_VERSION = 1
TWO_GRAPHS_WIDTH = 900
CLOSE_WAIT_S = 5.0
"""How long a closing window waits for its session before it goes anyway."""

MakeEngineView = Callable[[str, QWidget], QWidget]


class StudioWindow(QMainWindow):
    """Wires session, views and actions; holds no facts of its own.

    Signals
    -------
    closed()
        The window is gone for good; its threads have ended or were given up.
    """

    closed = Signal()

    graph: GraphPanel = views.view("graph")
    space: SpacePanel = views.view("space")
    tuning: TuningPanel = views.view("tuning")
    rounds: RoundsPanel = views.view("rounds")
    latency: LatencyPanel = views.view("latency")
    kernel: KernelPanel = views.view("kernel")
    database: DatabasePanel = views.view("database")
    device: DevicePanel = views.view("device")
    profile: ProfilePanel = views.view("profile")
    diff: DiffPanel = views.view("diff")
    faster: FasterPanel = views.view("faster")
    text: TextPanel = views.view("text")
    log_panel: LogPanel = views.view("log")

    def __init__(
        self,
        workbench: Workbench,
        make_engine_view: MakeEngineView,
        settings: QSettings | None = None,
    ) -> None:
        super().__init__()
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self.settings = settings if settings is not None else QSettings()
        self.session = Session(workbench, self)
        self.themes = Themes(app, self)
        self.themes.choose(str(self.settings.value("theme", "system")))
        self.setWindowTitle("NNJIT Studio")
        self.setAcceptDrops(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setDockNestingEnabled(True)
        self._closing = self._closed = False
        self._lost_during = ""
        self.results: dict[str, object] = {}
        self.log_handler = LineHandler()
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self.log_handler)
            logging.getLogger(name).setLevel(logging.DEBUG)  # the log's level chooser hides lines

        self.menu_bar = QMenuBar()
        self.actions_by_id, menus = registry.build(self, self.menu_bar, self._handlers())
        self.message = MessageBar()
        self.saver = Saver(self, self.session, self.settings, self.message)
        self.backend = BackendChoice(self.session, self.settings)
        self.header = Header(
            self.session,
            self.actions_by_id["tune"],
            self.actions_by_id["stop"],
            workbench.page.badges,
            self.backend,
        )
        self.engine_view = make_engine_view(workbench.page.url, self)
        self.keeper: PageKeeper | None = None
        if isinstance(self.engine_view, PageView):
            self.keeper = PageKeeper(self.engine_view, workbench.page.expect, self)
            self.keeper.lost.connect(self._page_lost)
            self.keeper.gave_up.connect(self._page_gave_up)
            QTimer.singleShot(0, self.keeper.start)
        self._build_views()
        self._fill_menus(menus)
        self._connect()
        self._default_state = self.saveState(LAYOUT_VERSION)
        self._restore_layout()
        self._enable()
        self.setFocus()
        self.session.read_records()
        self.session.read_device()

    @property
    def theme(self) -> Theme:
        return self.themes.current

    # What the user can do

    def open_model(self, path: Path) -> bool:
        """Open a model unless something is wrong with the path or the session is busy."""
        if self.first_run.after(lambda: self.open_model(path)):
            return True
        if self.session.busy:
            self.message.say("Something is running: stop it first (Shift+F5), then open a model.")
            return False
        if path.suffix.lower() != ".onnx":
            self.message.say(
                f"{path.name} is not an ONNX model: drop one file that ends in .onnx.", "bad"
            )
            return False
        if not os.path.isfile(path):
            self.message.say(f"{path.name} is not there any more: choose another model.", "bad")
            return False
        return self.session.open(path)

    def start_tuning(self, seconds: float | None = None) -> bool:
        self.message.hide()
        if seconds is None and self.session.paused:
            return self.session.resume()
        seconds = self.habits.budget_s if seconds is None else seconds
        self.tuning.show_budget(seconds)
        return self.session.tune(seconds, self.tuning.share_of_serving)

    def reset_layout(self) -> None:
        """Put every dock where it was at first."""
        self.restoreState(self._default_state, LAYOUT_VERSION)
        self._size_docks()

    def choose_theme(self, name: str) -> None:
        self.settings.setValue("theme", name)
        self.themes.choose(name)

    # Building

    def _build_views(self) -> None:
        top = QWidget()
        column = QVBoxLayout(top)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (self.menu_bar, self.header, self.message):
            column.addWidget(widget)
        # The menu widget is the only place of a main window that spans it above all docks.
        self.setMenuWidget(top)
        self.first_run = FirstRun(self)
        self.setCentralWidget(self.first_run.central)
        self.setCorner(Qt.Corner.BottomLeftCorner, views.LEFT)
        self.setCorner(Qt.Corner.BottomRightCorner, views.BOTTOM)
        self.docks = views.build(self)
        self.kernel_links = KernelLinks(
            self.session,
            lambda: self.kernel,
            self.actions_by_id["kernel"],
            lambda: self._show_dock("kernel"),
            self.message,
        )
        for name in views.SEEN_AT_FIRST:
            self.docks[name].fill()
        self.resize(1600, 1000)
        self._size_docks()

    def _size_docks(self) -> None:
        d, way = self.docks, Qt.Orientation
        self.resizeDocks([d["graph"], d["rounds"]], [400, 620], way.Horizontal)
        self.resizeDocks([d["space"]], [330], way.Vertical)
        self.resizeDocks([d["tuning"], d["rounds"], d["latency"]], [150, 330, 190], way.Vertical)

    def _handlers(self) -> dict[str, Callable[[], object]]:
        return {
            "open": self._ask_model,
            "sample": lambda: self.first_run.open_sample(),
            "welcome": lambda: self.first_run.show(),
            "examine": lambda: self.first_run.examine(),
            "export": lambda: self.saver.ask_for_model(
                "Export bundle", ".nnjit.zip", self.session.export
            ),
            "report": lambda: self.saver.ask_for_model(
                "Export report", "-report.html", self.session.report
            ),
            "quit": self.close,
            "tune": self.start_tuning,
            "stop": self.session.cancel,
            "pause": self.session.pause,
            "resume_last": lambda: self.habits.resume_last(),
            "next": lambda: self._step_workload(1),
            "previous": lambda: self._step_workload(-1),
            "own": self._own_candidate,
            "find": self._find,
            "find_next": lambda: self.graph.step_hit(1),
            "find_previous": lambda: self.graph.step_hit(-1),
            "fit": lambda: self.graph.view.fit(),
            "open_group": lambda: self.graph.open_group(),
            "close_group": lambda: self.graph.close_group(),
            "open_groups": lambda: self.graph.open_all(),
            "close_groups": lambda: self.graph.close_all(),
            "colour": lambda: self.graph.next_colour(),
            "device": self._measure_device,
            "profile": lambda: self._inspect("profile", self.session.profile),
            "diff": lambda: self._inspect("diff", self.diff.compare),
            "diff_node": self._compare_node,
            "kernel": lambda: self.kernel_links.inspect(),
            "text": self._show_text,
            "faster": lambda: self._inspect("faster", self.session.faster),
            "split": self._split_graph,
            "reset_plots": lambda: [plot.reset() for plot in self.findChildren(PlotPanel)],
            "refresh": self.session.read_records,
            "reset_layout": lambda: self.habits.rearrange("Reset the layout", self.reset_layout),
            "palette": self._show_palette,
            "shortcuts": lambda: dialogs.show_shortcuts(self),
            "about": lambda: dialogs.show_about(self),
            **habits.handlers(self),
        }

    def _fill_menus(self, menus: dict[str, object]) -> None:
        file, view = menus["&File"], menus["&View"]
        self.recent_menu = named(file.addMenu("Open &recent"), "Open recent")
        file.insertMenu(self.actions_by_id["export"], self.recent_menu)
        self.recent_menu.aboutToShow.connect(self._fill_recent)
        for name in ("diff_node", "open_group", "close_group"):
            self.graph.view.addAction(self.actions_by_id[name])
        view.addSeparator()
        for dock in self.docks.values():
            view.addAction(dock.toggleViewAction())
        view.addSeparator()
        themes = named(view.addMenu("T&heme"), "Theme")
        self.theme_actions = QActionGroup(self)
        for name in ("system", "light", "dark"):
            action = themes.addAction(name.capitalize())
            action.setCheckable(True)
            action.setChecked(name == self.themes.choice)
            action.triggered.connect(lambda _=False, name=name: self.choose_theme(name))
            self.theme_actions.addAction(action)

    def _connect(self) -> None:
        session = self.session
        session.refreshed.connect(self._render)
        session.busy_changed.connect(self._busy_changed)
        session.done.connect(self._done)
        session.problem.connect(self._problem)
        self.themes.changed.connect(self._set_theme)
        self.links = Links(session, self.docks, self.actions_by_id, self._show_dock)
        self.graph.details.places = self.docks
        self.graph.asked.connect(self.links.follow)
        self.graph.problem.connect(self._problem)
        self.graph.split_changed.connect(self._make_room)
        self.graph.wants_profile.connect(
            lambda: dialogs.ask_profile(self, self.saver.folder, self.graph.compare_with_file)
        )
        self.graph.view.addAction(self.actions_by_id["kernel"])
        self.habits = habits.Habits(self)
        self._fill_recent()
        self._clock = QTimer(self, interval=500)
        self._clock.timeout.connect(self._tick)
        self._clock.start()

    # Following the session

    def _render(self, changes: frozenset[str]) -> None:
        for name, dock in self.docks.items():
            if views.VIEWS[name].follows and dock.widget() is not None:
                dock.widget().render(changes)
        if changes & {"model", "phase", "latency", "space"}:
            self.header.render()

    def _tick(self) -> None:
        if self.session.busy:
            self.header.render()

    def _enable(self) -> None:
        session = self.session
        has_model = session.state.model is not None
        registry.enable(self.actions_by_id, session.busy, has_model, session.paused)
        if self.session.busy == EXAMINE:  # what is opened meanwhile waits for its end
            for name in ("open", "sample"):
                self.actions_by_id[name].setEnabled(True)

    def _busy_changed(self, job: str) -> None:
        if job:
            self._lost_during = ""
        self._enable()

    def _done(self, job: str, result: object) -> None:
        self._enable()
        self.results[job] = result
        if job == "open":
            self.results = {}
            model = self.session.state.model
            assert model is not None
            recent.remember(self.settings, model.path)
            self.setWindowTitle(f"{model.path.name} - NNJIT Studio")
            self.message.hide()
        elif job in ("export", "report"):
            self.message.say(f"Written: {result}", "good")
        elif job == "device":
            self._say_measured(result)

    def _problem(self, problem: Problem) -> None:
        self._enable()
        if problem.job == self._lost_during:
            return  # it failed because of the page; what to do now is said already
        self.message.say(f"{problem.error} {problem.hint}".strip(), "bad", problem.details)

    def _page_lost(self, reason: str) -> None:
        self.session.texts.forget()
        self.message.say(
            f"The engine page was lost: {reason.rstrip('.')}. It is loaded again, with the model "
            "and its kernels; what was running goes on.",
            details=reason,
        )

    def _page_gave_up(self, reason: str) -> None:
        self.session.texts.forget()
        self._lost_during = self.session.busy
        self.message.say(
            f"The engine page was lost again and again: {reason.rstrip('.')}. "
            "What was tuned is in the database; start the Studio again to go on.",
            "bad",
            reason,
        )

    def _set_theme(self, theme: object) -> None:
        for dock in self.docks.values():
            if dock.widget() is not None:
                dock.widget().set_theme(theme)

    # What actions do

    def _ask_model(self) -> None:
        dialogs.ask_model(self, self.saver.folder, self.open_model)

    def _show_palette(self) -> None:
        model = self.session.state.model
        dialogs.show(Palette(self, self.menu_bar, model.path if model else None))

    def _show_dock(self, name: str) -> None:
        self.docks[name].fill()
        self.docks[name].show()
        self.docks[name].raise_()

    def _measure_device(self) -> None:
        self._show_dock("device")
        self.session.measure_device()

    def _inspect(self, dock: str, start: Callable[[], object]) -> None:
        self.message.hide()
        self._show_dock(dock)
        start()

    def _compare_node(self) -> None:
        node = self.graph.view.current
        if node is None:
            self.message.say("Select a node in the graph first: click it, or walk by arrow keys.")
        else:
            self._inspect("diff", lambda: self.diff.compare(node.name))

    def _say_measured(self, device: MeasuredDevice) -> None:
        if device.steady:
            self.message.say("The device was measured: tuning builds on it from now on.", "good")
        else:
            self.message.say(
                "The machine was too busy to tell registers and caches: close other programs and "
                "measure again. What was known before holds."
            )

    def _find(self) -> None:
        self._show_dock("graph")
        self.graph.search.setFocus()
        self.graph.search.selectAll()

    def _split_graph(self) -> None:
        self._show_dock("graph")
        self.graph.set_split(not self.graph.sides.split)

    def _make_room(self, for_two_graphs: bool) -> None:
        if for_two_graphs and self.docks["graph"].width() < TWO_GRAPHS_WIDTH:
            self.resizeDocks([self.docks["graph"]], [TWO_GRAPHS_WIDTH], Qt.Orientation.Horizontal)

    def _show_text(self) -> None:
        self._show_dock("text")
        self.text.form.prompt.setFocus()

    def _own_candidate(self) -> None:
        self._show_dock("space")
        self.space.own.field.setFocus()
        self.space.own.field.selectAll()

    def _step_workload(self, step: int) -> None:
        keys = [w.workload.key for w in self.session.state.by_share()]
        if keys:
            selected = self.session.state.selected
            place = keys.index(selected) + step if selected in keys else 0
            self.session.select(keys[place % len(keys)])

    def _fill_recent(self) -> None:
        recent.fill_menu(self.recent_menu, self.settings, self.open_model, self.habits.clear_recent)

    # Layout and the end

    def _restore_layout(self) -> None:
        geometry, state = self.settings.value("geometry"), self.settings.value("state")
        if isinstance(geometry, QByteArray):
            self.restoreGeometry(geometry)
        if isinstance(state, QByteArray):
            self.restoreState(state, LAYOUT_VERSION)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        # Any file is taken, so that a wrong one can be answered in words.
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        urls = event.mimeData().urls()
        if all(url.isLocalFile() for url in urls):
            self.drop([Path(url.toLocalFile()) for url in urls])
        else:
            self.message.say(
                "That is a link, not a file: save the model first, then drop it.", "bad"
            )

    def drop(self, paths: list[Path]) -> bool:
        """Take the one file that was dropped; False, and a sentence, for anything else."""
        if len(paths) != 1:
            self.message.say(f"{len(paths)} files were dropped: drop one at a time.", "bad")
            return False
        return self.habits.drop(paths[0])

    @property
    def _records(self) -> RecordStore | None:
        panel = self.docks["database"].widget()
        return panel.store if isinstance(panel, DatabasePanel) else None

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._closed:
            event.accept()
            return
        if not self._closing:
            self._closing = True
            self.settings.setValue("geometry", self.saveGeometry())
            self.settings.setValue("state", self.saveState(LAYOUT_VERSION))
            self.settings.sync()
            if self.keeper is not None:
                self.keeper.end()
            if self.session.busy:  # a session that pauses is left as it is
                self.session.cancel()
            if self._records is not None:
                self._records.cancel()
            self._waited_s = 0.0
            self._end_timer = QTimer(self, interval=50)
            self._end_timer.timeout.connect(self._try_end)
            self._end_timer.start()
        event.ignore()

    def _try_end(self) -> None:
        self._waited_s += self._end_timer.interval() / 1000
        session, records = self.session, self._records
        readers = session.reader.job or session.device_reader.job
        running = session.busy or readers or (records is not None and records.job)
        if running and self._waited_s < CLOSE_WAIT_S:
            return
        if running:
            log.error("The window closes although %s did not end.", running)
        self._end_timer.stop()
        self._clock.stop()
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self.log_handler)
        self._closed = True
        self.close()
        # Deleting or quitting inside an event of the web view crashes: defer both.
        QTimer.singleShot(0, self._tear_down)

    def _tear_down(self) -> None:
        if isinstance(self.engine_view, PageView):
            self.engine_view.shut_down()
        self.engine_view.deleteLater()
        self.closed.emit()
