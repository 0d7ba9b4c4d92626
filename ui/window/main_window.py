"""The window: header on top, and below it the stage of docks or the welcome page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
)
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from nnjit_studio.ui.commands import actions as registry
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.commands.documentation import Documentation
from nnjit_studio.ui.commands.history import UndoStep
from nnjit_studio.ui.commands.palette import Palette
from nnjit_studio.ui.dock.arranging import FIRST_SIZE, LAYOUTS
from nnjit_studio.ui.dock.feature import Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.opening.editor import FEED, InputEditing
from nnjit_studio.ui.refused.control import RUN, RefusedModels
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.services import PageVisits
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.tuning.session_card import SessionCard
from nnjit_studio.ui.verdict.control import VERDICT, VerdictControl
from nnjit_studio.ui.verdict.panel import VerdictPanel
from nnjit_studio.ui.widgets.fonts import text_font
from nnjit_studio.ui.widgets.panel import Panel, vbox
from nnjit_studio.ui.widgets.plots.panel import PlotPanel
from nnjit_studio.ui.widgets.tab_order import bring_to_sight, next_in_sight
from nnjit_studio.ui.widgets.themes import Themes
from nnjit_studio.ui.window.backend_choice import BackendChoice
from nnjit_studio.ui.window.closing import Closing
from nnjit_studio.ui.window.docks import WindowDocks
from nnjit_studio.ui.window.dropped_files import DroppedFiles
from nnjit_studio.ui.window.exporting import Exporting
from nnjit_studio.ui.window.features import FEATURES, actions_of
from nnjit_studio.ui.window.first_run import FirstRun
from nnjit_studio.ui.window.header import Header
from nnjit_studio.ui.window.in_the_way import InTheWay
from nnjit_studio.ui.window.menus import Menus
from nnjit_studio.ui.window.opening import ModelOpener
from nnjit_studio.ui.window.page_watch import PageWatch
from nnjit_studio.ui.window.preferences import SettingsControl
from nnjit_studio.ui.window.session_files import SessionFiles
from nnjit_studio.ui.window.tuning_control import TuningControl
from nnjit_studio.ui.window.welcome_flow import WelcomeFlow
from nnjit_studio.workbench import Workbench

MakeEngineView = Callable[[str, QWidget], QWidget]


class StudioWindow(QMainWindow):
    """Puts the parts of the window together; holds no facts of its own."""

    closed = Signal()
    """The window is gone for good; its threads have ended or were given up."""

    def __init__(
        self,
        workbench: Workbench,
        make_engine_view: MakeEngineView,
        settings: QSettings | None = None,
        features: Sequence[Feature[Panel]] = FEATURES,
        visits: PageVisits | None = None,
    ) -> None:
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.setFont(text_font())  # a widget that is there before keeps the system's
        super().__init__()
        self._visits = visits
        self.settings = settings if settings is not None else QSettings()
        self.session = StudioSession(workbench, self)
        self.themes = Themes(app, self, str(self.settings.value("theme", "system")))
        self.host = Host(self, self.session, self.settings, self.themes)
        self.host.visits = visits
        self.host.log_lines.install()
        self.message = self.host.message
        self._closed = False
        self.setWindowTitle("NNJIT Studio")
        self.setAcceptDrops(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._specs = actions_of(features)
        self.menus = Menus(self.host, self._specs)
        self.actions_by_id = self.host.actions = self.menus.actions
        self.page = PageWatch(self.host, make_engine_view(f"{workbench.page.url}&tile", self))
        self.way = InTheWay(self.host)
        self.opener = ModelOpener(self.host, self.way)
        self.docks = WindowDocks(self.host, self.page.view, features)
        self.host.docks = self.docks
        self.welcome = WelcomeFlow(self.host, self.docks.stage, self.opener.open)
        self.docks.bring_forward = self.welcome.leave
        self._build_top(workbench)
        self.setCentralWidget(self.welcome.central)
        self._build_parts()
        self._connect(features)
        self._fill()
        self.setFocus()
        self.session.read_records()
        self.session.read_device()

    # What scripts do

    def open_model(self, path: Path) -> bool:
        """Open a model; False, and a sentence in the message bar, where that is impossible."""
        return self.opener.open(path)

    def start_tuning(self, seconds: float | None = None) -> bool:
        """Tune the open model, or go on with the paused session; False where impossible."""
        return self.tuner.start(seconds)

    def panel(self, key: str) -> Panel:
        """The view of a dock, made if need be."""
        return self.docks.panel(key)

    # Building

    def _build_top(self, workbench: Workbench) -> None:
        self.backend = BackendChoice(self.session, self.settings)
        tune, stop = self.actions_by_id["tune"], self.actions_by_id["stop"]
        steps = [self.actions_by_id[i] for i in ("advise", "export") if i in self.actions_by_id]
        self.header = Header(self.session, tune, stop, workbench.page.badges, self.backend, steps)
        self.card = SessionCard(self.session, self.actions_by_id)
        top = QWidget()
        panel = VerdictPanel(self.themes.current)
        self.verdict = VerdictControl(self.host, panel, self._visits)
        self.verdict.rested.connect(self.welcome.measured)
        panel.told.connect(self.header.leave_figures_to)
        panel.told.connect(self.host.state_verdict)
        self.card.opened.connect(panel.fold)
        bars = (panel, self.opener.progress, self.card, self.message)
        vbox(self.menus.bar, self.header, *bars, on=top)
        # The menu widget is the only place of a main window that spans it above all docks.
        self.setMenuWidget(top)

    def _build_parts(self) -> None:
        self.closing = Closing(self.host)
        self.first_run = FirstRun(self.host)
        self.inputs = InputEditing(self.host)
        self.refusals = RefusedModels(self.host, self.verdict)
        self.tuner = TuningControl(self.host, self.opener.reopen, self.closing)
        self.preferences = SettingsControl(
            self.host, self.backend, self.menus.choose_theme, self.tuner.show_budget
        )
        self.session_files = SessionFiles(
            self.host, self.docks, self.opener.reopen, self.preferences.apply, self.way
        )
        self.exporting = Exporting(self.host)
        self.dropped = DroppedFiles(self.host, self.opener.open, self.session_files.open)

    def _connect(self, features: Sequence[Feature[Panel]]) -> None:
        self.session.refreshed.connect(self.docks.refresh)
        self.session.surveyed.connect(lambda _: self.docks.arranging.leave_file())
        self.session.busy_changed.connect(lambda _: self._enable())
        self.session.done.connect(lambda *_: self._enable())
        self.session.problem.connect(self._problem)
        self.host.history.changed.connect(self._enable)
        self.host.wasm_shown.connect(self.header.show_wasm)
        self.themes.changed.connect(self.docks.set_theme)
        self.closing.ended.connect(self._leave)
        handlers = self._handlers()
        for feature in features:
            handlers |= feature.handlers(self.host)
            if feature.begin is not None:
                feature.begin(self.host)
        registry.connect(self.actions_by_id, self.way.guarded(self._specs, handlers))
        self._enable()

    def _fill(self) -> None:
        self.menus.fill(self.docks.values(), self.opener.open)
        # Not earlier: a widget that is put into another one is styled anew, with all that it holds.
        self.themes.style()
        # The screen of the offscreen platform is none that anybody looks at.
        offscreen = QGuiApplication.platformName() == "offscreen"
        screen = FIRST_SIZE if offscreen else self.screen().availableSize()
        self.resize(FIRST_SIZE.boundedTo(screen))
        if self.size() != FIRST_SIZE:
            # With the frame around it the window would be larger than the screen.
            self.setWindowState(Qt.WindowState.WindowMaximized)
        geometry = self.settings.value("geometry")
        if isinstance(geometry, QByteArray):
            self.restoreGeometry(geometry)
        self.docks.reset()
        self.docks.arranging.read(self.settings)

    def _handlers(self) -> dict[str, Callable[[], object]]:
        """What the window's own actions do, by their ids."""
        history, docks = self.host.history, self.docks
        return {
            "open": self.opener.ask,
            "sample": self.welcome.open_sample,
            "export": self.exporting.ask_bundle,
            "report": self.exporting.ask_report,
            "open_session": self.session_files.ask_open,
            "save_session": self.session_files.ask_save,
            "quit": self.close,
            "undo": lambda: self._turn_back("Undo", history.done, history.undo),
            "redo": lambda: self._turn_back("Redo", history.undone, history.redo),
            "settings": self.preferences.ask,
            **self.tuner.handlers(),
            "reset_plots": self._reset_plots,
            **{action: partial(docks.take_layout, action) for action in LAYOUTS},
            "reset_layout": lambda: docks.arranging.rearrange("Reset the layout", docks.reset),
            "documentation": lambda: dialogs.show(Documentation(self)),
            "palette": self._show_palette,
            FEED: self.inputs.ask,
            "compare": self.verdict.measure,
            "install_peer": self.verdict.install,
            "welcome": self.welcome.show,
            "examine": self.welcome.examine,
            "shortcuts": lambda: dialogs.show_shortcuts(self, self._specs),
            "about": lambda: dialogs.show_about(self),
        }

    # Following the session

    def _enable(self) -> None:
        session = self.session
        has_model = session.state.model is not None
        history = self.host.history
        now = registry.Possible(
            session.busy, has_model, session.paused, session.state.summary is not None,
            bool(history.done), bool(history.undone), bool(session.worker.job),
        )  # fmt: skip
        registry.enable(self.actions_by_id, self._specs, now)

    def _problem(self, problem: JobProblem) -> None:
        self._enable()
        if problem.job in (VERDICT, RUN) or self.page.explains(problem):
            return
        if not self.refusals.tell(problem):
            self.host.tell(problem)

    # What actions and the user's hand do

    def _turn_back(self, what: str, steps: Sequence[UndoStep], act: Callable[[], object]) -> None:
        if steps and steps[-1].needs_idle and self.session.busy:
            self.way.offer(what, act)
        else:
            act()

    def _show_palette(self) -> None:
        model = self.session.state.model
        dialogs.show(Palette(self, self.menus.bar, model.path if model else None))

    def _reset_plots(self) -> None:
        for plot in self.findChildren(PlotPanel):
            plot.reset()

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes to what is in sight."""

        def covered(widget: QWidget) -> bool:
            return self.welcome.covers(widget) or self.docks.hide(widget)

        found = next_in_sight(self, self.docks.stage, covered, forward)
        if found is not None:
            reasons = Qt.FocusReason
            found.setFocus(reasons.TabFocusReason if forward else reasons.BacktabFocusReason)
            bring_to_sight(found)
        return found is not None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """No key is dead: that of an action which is not possible now says why."""
        keys = QKeySequence(event.keyCombination())
        grey = (
            a for a in self.actions_by_id.values() if not a.isEnabled() and a.shortcut() == keys
        )
        if action := next(grey, None):
            self.host.message.say(registry.not_now(action), passing=True)
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        # Any file is taken, so that a wrong one can be answered in words.
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        self.dropped.drop_urls(event.mimeData().urls())

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._closed:
            event.accept()
            return
        if not self.closing.begun:
            self.settings.setValue("geometry", self.saveGeometry())
            self.docks.arranging.write(self.settings)
            self.settings.sync()
            self.page.end()
            self.closing.begin()
        event.ignore()

    def _leave(self) -> None:
        self.header.clock.stop()
        self.host.log_lines.remove()
        self._closed = True
        self.close()
        # Deleting or quitting inside an event of the web view crashes: defer both.
        QTimer.singleShot(0, self._tear_down)

    def _tear_down(self) -> None:
        if self._visits is not None:
            self._visits.shut_down()
        self.page.shut_down()
        self.exporting.trials.close()
        self.closed.emit()
