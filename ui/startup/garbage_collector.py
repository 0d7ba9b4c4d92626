"""Cycles of garbage are collected on Qt's thread alone; freed memory goes back to the system.

Python collects in whatever thread happens to allocate, and a widget that dies
in another thread than its own crashes Qt.

glibc keeps freed blocks between those that are in use, in an arena for each of a
few threads: while a model was tuned the window grew by 25 MiB a minute in them, for
some 20 minutes, with the same blocks in use. In two hours eight arenas of 64 MiB held
310 MiB for 90 MiB in use; so there are two of them. Once glibc has freed a mapped block it
takes blocks of that size, up to 32 MiB, from an arena, where small ones above them keep it from
shrinking; so blocks from 1 MiB on are always mapped by themselves.
"""

from __future__ import annotations

import ctypes
import gc

from PySide6.QtCore import QObject, QThreadPool, QTimer

PERIOD_MS = 500
GIVE_BACK_MS = 30_000
ARENAS = 2
MAPPED = 1 << 20
"""Bytes from which a block is mapped by itself."""
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
"""Of glibc's malloc.h."""


def few_arenas() -> bool:
    """Whether threads share glibc's arenas from now on, and large blocks are mapped; to be called
    before they start."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_M_ARENA_MAX, ARENAS) and mallopt(_M_MMAP_THRESHOLD, MAPPED))
    except (AttributeError, OSError, TypeError):
        return False


def give_back() -> bool:
    """Whether freed memory went back to the system; only glibc can."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError, TypeError):
        return False


class GarbageCollector(QObject):
    """Takes over from Python's own collector until :meth:`stop`; made on Qt's thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self, interval=PERIOD_MS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()
        # Some 10 ms, without Python's lock: not on Qt's thread.
        self._freed = QTimer(self, interval=GIVE_BACK_MS)
        self._freed.timeout.connect(lambda: QThreadPool.globalInstance().start(give_back))
        self._freed.start()

    def collect(self) -> None:
        """What Python would have collected by now: the oldest generation that is due."""
        due = [
            generation
            for generation, (count, most) in enumerate(
                zip(gc.get_count(), gc.get_threshold(), strict=True)
            )
            if most and count > most
        ]
        if due:
            gc.collect(due[-1])

    def stop(self) -> None:
        """Python's own collector again."""
        self._timer.stop()
        self._freed.stop()
        gc.enable()
