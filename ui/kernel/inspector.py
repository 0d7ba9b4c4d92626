"""Inspects kernels in a thread of its own; of several that are asked for, the last one counts."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.jobs import inspect


class Inspector(QObject):
    """Works while jobs of the session run, also while tuning."""

    found = Signal(object)
    """``KernelInspection``: What was asked for last."""
    failed = Signal(object)
    """``Exception``: It could not be inspected."""

    def __init__(self, workbench: Workbench, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._next: tuple[str, str] | None = None
        self.worker = Worker(self)
        self.worker.returned.connect(lambda _, result: self._ended(self.found.emit, result))
        self.worker.failed.connect(lambda _, error: self._ended(self.failed.emit, error))

    def look(self, workload: str, settings: str) -> None:
        """Inspect a candidate of a workload, by key; empty settings for the kernel that runs."""
        self._next = workload, settings
        self._begin()

    def _begin(self) -> None:
        if self._next is None or self.worker.job:
            return
        workload, settings = self._next
        self._next = None
        self.worker.start("inspect", lambda _: self._workbench.run(inspect, workload, settings))

    def _ended(self, emit: Callable[[object], None], result: object) -> None:
        if self._next is None:
            emit(result)
        self._begin()
