"""A long job of the dock: in a thread, and it can be stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from nnjit_studio.support.stopping import Stop, Stopped, stoppable
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import JobProblem, running
from nnjit_studio.ui.widgets.panel import push_button
from nnjit_studio.ui.widgets.worker import Worker

BUSY = "Another job of the Wasm file is running"
TWO = "stop it or wait until it has ended, for two at once would disturb each other's figures."
Work = Callable[[Callable[[Any], None]], Any]


class LongJob(QObject):
    """One job at a time, as :class:`~nnjit_studio.ui.dock.host.Background` of the window.

    One that ``measures`` has jobs of the session wait that nobody asked for, and is refused while
    one runs that somebody did. Stopping ends the browser or process that it waits for. A job that
    is stopped leaves nothing behind but what it has told until then.
    """

    changed = Signal()
    """A job began, is being stopped, or has ended."""
    told = Signal(list)
    """What it told on its way, in order."""
    returned = Signal(object)
    """Its result; None of a job that gives an iterator, whose items were told."""
    stopped = Signal()
    failed = Signal(object)
    """``JobProblem``"""

    def __init__(self, host: Host, panel: QWidget, measures: bool = True) -> None:
        super().__init__(panel)
        self._host, self._panel, self._stop = host, panel, Stop()
        self._button: QPushButton | None = None
        self._waited = False
        self._before: QWidget | None = None
        """Had the focus when the job began: what is disabled would pass it on to the header."""
        self._worker = Worker(self)
        self._worker.yielded.connect(self.told)
        self._worker.returned.connect(self._returned)
        self._worker.failed.connect(self._failed)
        host.background.append(self)
        self._measures = measures
        if measures:
            host.measuring.append(self)

    @property
    def job(self) -> str:
        """Its name; empty while nothing is done."""
        return self._worker.job

    def start(self, name: str, work: Work) -> bool:
        """Begin; False, with a word why, while another job runs that somebody asked for."""
        session = self._host.session
        other = any(isinstance(each, LongJob) and each.job for each in self._host.background)
        if other or (self._measures and session.busy):
            said = BUSY if other else running(session.busy)
            self._host.message.say(f"{said}: {TWO}")
            return False
        stop = Stop()

        def run(emit: Callable[[Any], None]) -> Any:
            with stoppable(stop):
                result = work(emit)
                if not isinstance(result, Iterator):
                    return result
                for item in result:
                    emit(item)
                return None

        if not self._worker.start(name, run):
            return False
        if self._measures:
            session.held = True
            session.give_way()
        self._stop, focus = stop, QApplication.focusWidget()
        inside = focus is not None and self._panel.isAncestorOf(focus)
        self.changed.emit()
        if inside and self._button is not None:
            self._before = focus
            self._button.setFocus()
        return True

    def cancel(self) -> None:
        self._waited = self._waits()
        self._stop.set()
        self.changed.emit()

    def stop_button(self, what: str, ends: str = "Ends the browser or engine, too") -> QPushButton:
        """A button that stops it, to be pressed while it runs; ``ends`` what else that ends."""
        button = push_button("Stop", f"Stop {what}", ends, self.cancel)

        def follow() -> None:
            stopping = bool(self.job) and self._stop.is_set
            button.setText("Stopping…" if stopping else "Stop")
            button.setEnabled(bool(self.job) and not stopping)

        self.changed.connect(follow)
        follow()
        self._button = button
        return button

    def _waits(self) -> bool:
        return self._button is not None and self._button.hasFocus()

    def _ended(self) -> None:
        waited, self._waited = self._waited or self._waits(), False
        self.changed.emit()
        if waited and self._before is not None:
            self._before.setFocus()
        if self._measures:
            self._host.session.held = False
            self._host.session.busy_changed.emit(self._host.session.busy)
            self._host.calm.emit()

    def _returned(self, _: str, result: object) -> None:
        self._ended()
        self.returned.emit(result)

    def _failed(self, job: str, error: BaseException) -> None:
        self._ended()
        if isinstance(error, Stopped):
            self.stopped.emit()
        else:
            self.failed.emit(JobProblem.of(job, error))
