"""Runs the window, for a person or for a script."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSettings, QTimer, Signal, Slot
from PySide6.QtWidgets import QApplication

from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.support.display import unanswered
from nnjit_studio.support.freed_memory import few_arenas
from nnjit_studio.support.interrupts import interrupts
from nnjit_studio.tuner.events import Event
from nnjit_studio.ui.page.headless import qt_messages_to_logging
from nnjit_studio.ui.page.process import choose_platform
from nnjit_studio.ui.startup import crash
from nnjit_studio.ui.startup.garbage_collector import GarbageCollector
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.services import PageVisits
from nnjit_studio.ui.window.main_window import MakeEngineView, StudioWindow
from nnjit_studio.ui.window.preferences import APPLICATION, ORGANIZATION
from nnjit_studio.workbench import Workbench

log = logging.getLogger(__name__)

SETTLE_MS = 700
"""The page draws itself a little later than the last event; a picture waits for that."""
UNSEEN_MS = 2000
"""For so long nothing is begun in a window that was not painted yet."""


@dataclass(frozen=True)
class Script:
    """Steps of a run, in this order; all empty for a person's."""

    model: Path | None = None
    """Opened at once."""
    tune_seconds: float | None = None
    """The opened model is tuned for so long; None for not at all."""
    screenshot: Path | None = None
    """PNG of the window, taken when the work is done."""
    quit_when_done: bool = False
    """Leave after that, and raise what failed on the way."""


_TICK_MS = 250


def run_studio(
    workbench: Workbench,
    script: Script,
    make_engine_view: MakeEngineView,
    make_visits: Callable[[], PageVisits] | None = None,
) -> list[Event]:
    """Show the window until it is closed; returns the events of all its sessions.

    Parameters
    ----------
    make_visits
        Opens the pages that compare engines; without it nothing is compared.

    Raises
    ------
    NnjitError
        In a scripted run (``quit_when_done``), when opening, tuning or the
        screenshot failed; without one, when there is no display.
    """
    if not choose_platform() and not script.quit_when_done:
        gone = unanswered()
        raise UserError(
            f"The display {gone} does not answer."
            if gone
            else "There is no display to open the window on.",
            "Set DISPLAY to one that runs, or give --quit to tune without a window.",
        )
    with qt_messages_to_logging():
        return _run(workbench, script, make_engine_view, make_visits)


def _run(
    workbench: Workbench,
    script: Script,
    make_engine_view: MakeEngineView,
    make_visits: Callable[[], PageVisits] | None,
) -> list[Event]:
    app = _application()
    visits = make_visits() if make_visits else None
    garbage = GarbageCollector(app)
    # A script neither follows nor changes what its user arranged by hand.
    own_settings = script.quit_when_done
    folder = tempfile.TemporaryDirectory() if own_settings else contextlib.nullcontext()
    with folder as own:
        settings = QSettings(f"{own}/studio.ini", QSettings.Format.IniFormat) if own else None
        window = StudioWindow(workbench, make_engine_view, settings, visits=visits)
        window.opener.asks = not script.quit_when_done
        window.first_run.on &= not script.quit_when_done
        run = _ScriptRun(window, script)
        window.closed.connect(app.quit)
        window.docks.wait()
        picture = _FirstPicture(window)
        picture.over.connect(window.docks.begin)
        picture.over.connect(run.begin)
        window.show()
        with crash.reporting(window), interrupts(lambda number: app.quit()):
            ticks = QTimer()  # they let Python run its signal handlers
            ticks.start(_TICK_MS)
            app.exec()
        window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    garbage.stop()
    if script.quit_when_done and run.error is not None:
        raise run.error
    return run.events


def _application() -> QApplication:
    few_arenas()
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
    app.setOrganizationName(ORGANIZATION)
    app.setApplicationName(APPLICATION)
    app.setApplicationDisplayName("NNJIT Studio")
    app.setStyle("Fusion")
    # The window says itself when it is gone: its session may end later than it hides.
    app.setQuitOnLastWindowClosed(False)
    return app


class _FirstPicture(QObject):
    """Says when the window was painted first: what that picture does not show comes afterwards."""

    over = Signal()
    """It was painted, or nobody sees the window: it is minimised, say."""

    def __init__(self, window: StudioWindow) -> None:
        super().__init__(window)
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self.over)
        self._later.start(UNSEEN_MS)
        window.installEventFilter(self)

    def eventFilter(self, window: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            window.removeEventFilter(self)
            # The widgets in the window are painted after it, in the same turn.
            QTimer.singleShot(0, self, self._painted)
        return False

    def _painted(self) -> None:
        log.info("The window is drawn.")  # benchmarks/cold_start.py reads that
        if self._later.isActive():
            self._later.stop()
            self.over.emit()


class _ScriptRun(QObject):
    """Open, tune, picture, leave: each step begins when the one before has ended."""

    def __init__(self, window: StudioWindow, script: Script) -> None:
        super().__init__()
        self._window, self._script = window, script
        self._ended = False
        self._next: Callable[[], object] | None = None
        self.error: NnjitError | None = None
        self.events = window.session.events
        window.session.done.connect(self._done)
        window.session.problem.connect(self._problem)
        window.verdict.rested.connect(self._go_on)

    @Slot()
    def begin(self) -> None:
        model = self._script.model
        if model is None:
            if not self._script.quit_when_done:
                self._window.welcome.begin()
            self._finish()
        elif not self._open(model):
            self.error = UserError(self._window.message.text.text())
            self._finish()

    def _open(self, path: Path) -> bool:
        """A model, or for a person whatever the window takes when it is dropped."""
        if self._script != Script(path):
            return self._window.open_model(path)
        return self._window.dropped.drop([path])

    def _done(self, job: str, _: object) -> None:
        if self._ended:
            return
        seconds = self._script.tune_seconds
        if job == "open" and seconds is not None:
            self._next = lambda: self._window.start_tuning(seconds)
        elif job in ("open", "tune"):
            self._next = self._finish
        QTimer.singleShot(0, self._go_on)

    @Slot()
    def _go_on(self) -> None:
        """The next step, once the model is compared as far as it can be."""
        step = self._next
        if step is not None and self._window.verdict.resting and not self._window.session.busy:
            self._next = None
            step()

    def _problem(self, problem: JobProblem) -> None:
        if self._ended or problem.job not in ("open", "tune"):
            return
        self.error = self.error or problem.cause
        if not self._window.session.busy:
            self._finish()

    def _finish(self) -> None:
        self._ended = True
        QTimer.singleShot(SETTLE_MS, self._last)

    def _last(self) -> None:
        if self._script.screenshot is not None:
            try:
                take_screenshot(self._window, self._script.screenshot)
            except UserError as error:
                self.error = self.error or error
        if self._script.quit_when_done:
            self._window.close()


def take_screenshot(window: StudioWindow, out: Path) -> None:
    """Save a picture of the whole window, the page included.

    Raises
    ------
    UserError
        When the picture cannot be written.
    """
    picture = window.grab()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        written = picture.save(str(out), "PNG")
    except OSError:
        written = False
    if not written:
        raise UserError(f"The screenshot {out} could not be written.", "Choose another folder.")
