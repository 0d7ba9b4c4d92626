"""Blocking work off the GUI thread, its outcome brought back in batches."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

log = logging.getLogger(__name__)

REFRESH_MS = 33
"""About 30 refreshes a second: one repaint for all that came in since the last."""
BATCH = 500
"""Items handed over per refresh at most; a longer burst takes several refreshes."""


class Worker(QObject):
    """Runs one job at a time: a callable, or a callable that gives an iterator.

    The job's thread only fills a queue; a timer of the GUI thread empties it,
    so no signal crosses threads and a burst costs a bounded number of slots.
    """

    started = Signal(str)
    """The name of the job."""
    yielded = Signal(list)
    """What the iterator gave, and what the job passed to its ``emit``, in order."""
    returned = Signal(str, object)
    """Name and result; None for iterators."""
    failed = Signal(str, object)
    """Name and exception."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.job = ""
        self.refreshes = 0
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._timer = QTimer(self, interval=REFRESH_MS)
        self._timer.timeout.connect(self._drain)

    def start(self, name: str, work: Callable[[Callable[[Any], None]], Any]) -> bool:
        """Run ``work(emit)`` in a thread; False when a job is running already."""
        if self.job:
            return False
        self.job = name
        self._items = queue.SimpleQueue()
        # A daemon, so that a job that ignores its cancellation cannot keep the program alive.
        self._thread = threading.Thread(
            target=_run, args=(work, self._items), name=f"job-{name}", daemon=True
        )
        self.started.emit(name)
        self._thread.start()
        self._timer.start()
        return True

    def wait(self, seconds: float) -> bool:
        """Whether the job's thread ended in time. Blocks: for the very end only."""
        if self._thread is not None:
            self._thread.join(seconds)
            return not self._thread.is_alive()
        return True

    def _drain(self) -> None:
        items: list[Any] = []
        end: _End | None = None
        for _ in itertools.repeat(None, BATCH):
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, _End):
                end = item
                break
            items.append(item)
        if items:
            self.refreshes += 1
            self.yielded.emit(items)
        if end is not None:
            self._timer.stop()
            name, self.job = self.job, ""
            if end.error is not None:
                self.failed.emit(name, end.error)
            else:
                self.returned.emit(name, end.result)


class _End:
    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.result, self.error = result, error


def _run(work: Callable[[Callable[[Any], None]], Any], items: queue.SimpleQueue[Any]) -> None:
    try:
        result = work(items.put)
        if isinstance(result, Iterator):
            for item in result:
                items.put(item)
            result = None
        items.put(_End(result))
    except BaseException as error:  # the border of the thread: every error is reported
        items.put(_End(error=error))
