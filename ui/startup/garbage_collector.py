"""Cycles of garbage are collected on Qt's thread alone; freed memory goes back
to the system (:mod:`nnjit_studio.support.freed_memory`).

Python collects in whatever thread happens to allocate, and a widget that dies
in another thread than its own crashes Qt.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QThreadPool, QTimer

from nnjit_studio.support.freed_memory import give_back
from nnjit_studio.support.garbage import OFTEN

PERIOD_MS = 500
GIVE_BACK_MS = 30_000


class GarbageCollector(QObject):
    """Takes over from Python's own collector until :meth:`stop`; made on Qt's thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        # Modules stay: to look through their objects, too, held Qt's thread for 75 to 110 ms.
        gc.freeze()
        self._timer = QTimer(self, interval=PERIOD_MS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()
        # Some 10 ms, without Python's lock: not on Qt's thread.
        self._freed = QTimer(self, interval=GIVE_BACK_MS)
        self._freed.timeout.connect(lambda: QThreadPool.globalInstance().start(give_back))
        self._freed.start()

    def collect(self) -> None:
        """What Python by itself would have collected by now: the oldest generation that is due."""
        due = [
            generation
            for generation, (count, most) in enumerate(zip(gc.get_count(), OFTEN, strict=True))
            if count > most
        ]
        if due:
            gc.collect(due[-1])

    def stop(self) -> None:
        """Python's own collector again."""
        self._timer.stop()
        self._freed.stop()
        gc.enable()
