"""Reading Wasm files for the dock: one at a time, in a thread, and it can be stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from nnjit_studio.foreign_wasm.inspection.survey import Survey, survey_file
from nnjit_studio.support.stopping import Stop, stoppable
from nnjit_studio.ui.state.jobs import JobProblem, reader


class Reading:
    """Work in the background of a window, as :class:`~nnjit_studio.ui.dock.host.Background`.

    Parameters
    ----------
    take
        Gets the name of the job and the file.
    refuse
        Gets why a file could not be read; not called when that was stopped.
    """

    def __init__(
        self,
        parent: QObject,
        take: Callable[[str, Survey], object],
        refuse: Callable[[JobProblem], object],
    ) -> None:
        self._stop = Stop()
        self._refuse = refuse
        self._worker = reader(parent, lambda found: take(*found), self._refused)

    @property
    def job(self) -> str:
        return self._worker.job

    def start(self, job: str, path: Path) -> bool:
        """Begin to read a file; False while another one is being read."""
        stop = Stop()

        def read(_: object) -> tuple[str, Survey]:
            with stoppable(stop):
                return job, survey_file(path)

        begun = self._worker.start(job, read)
        if begun:
            self._stop = stop
        return begun

    def cancel(self) -> None:
        self._stop.set()

    def _refused(self, problem: JobProblem) -> None:
        if not self._stop.is_set:
            self._refuse(problem)
