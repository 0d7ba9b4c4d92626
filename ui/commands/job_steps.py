"""Changes that are made by a job, and undone by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nnjit_studio.ui.commands.history import Ended, History, UndoStep
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.session import StudioSession

Begin = Callable[[], bool]
"""Begins the job; whether it could."""


class JobSteps:
    """The steps of one kind of job."""

    def __init__(self, job: str, session: StudioSession, history: History) -> None:
        self._job, self._history = job, history
        self._steps: list[UndoStep] = []
        self._ended: Ended | None = None
        session.done.connect(lambda job, _: self._end(job, True))
        session.problem.connect(self._failed)

    def do(self, done: str, do: Begin, undo: Begin) -> None:
        """Make a change; Ctrl+Z has the one of before again."""
        begun = partial(self._begin, do), partial(self._begin, undo)
        self._steps.append(UndoStep(done, *begun, needs_idle=True))
        self._history.do(self._steps[-1])

    def forget(self) -> None:
        """Drop the changes of what is not there any more."""
        self._history.forget(self._steps)
        self._steps = []

    def _begin(self, begin: Begin, ended: Ended) -> None:
        if begin():
            self._ended = ended
        else:
            ended(False)

    def _failed(self, problem: JobProblem) -> None:
        self._end(problem.job, False)

    def _end(self, job: str, fine: bool) -> None:
        if job == self._job and self._ended is not None:
            ended, self._ended = self._ended, None
            ended(fine)
