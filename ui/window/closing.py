"""The end of a window: its threads end, or are given up after a while."""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject, QTimer, Signal

from nnjit_studio.ui.dock.host import Host

log = logging.getLogger(__name__)

CLOSE_WAIT_S = 5.0
"""Time that a closing window waits for its threads."""
SAYS = "Closing…"


class Closing(QObject):
    """Cancels what runs and waits for it."""

    ended = Signal()
    """Nothing runs any more, or it was waited for long enough."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._host = host
        self.begun = False
        self._waited_s = 0.0
        self._timer = QTimer(self, interval=50)
        self._timer.timeout.connect(self._look)

    def begin(self) -> None:
        """Cancel everything; a session that pauses is left as it is."""
        self.begun = True
        if self._running():
            self._host.message.say(SAYS)
        if self._host.session.worker.job:
            self._host.session.cancel_all()
        for work in self._host.background:
            work.cancel()
        self._timer.start()

    def _look(self) -> None:
        self._waited_s += self._timer.interval() / 1000
        running = self._running()
        if running and self._waited_s < CLOSE_WAIT_S:
            return
        if running:
            log.error("The window closes although %s did not end.", running)
        self._timer.stop()
        self.ended.emit()

    def _running(self) -> str:
        """The name of a job that has not ended; empty without any."""
        session = self._host.session
        jobs = [session.worker.job, session.reader.job, session.device_reader.job]
        return next(filter(None, (*jobs, *(work.job for work in self._host.background))), "")
