"""What was applied to the open model, for its page to be as before when another one is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnjit_studio.workbench import Workbench, jobs
from nnjit_studio.workbench.jobs.page_form import PageForm


class Forms:
    """Called in the threads of jobs, one at a time."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._first: PageForm | None = None

    def open(self, form: PageForm, open_model: Callable[[], Any]) -> Any:
        """Open a model in a form; where that fails, the page is as it was."""
        before = self._workbench.run(jobs.take_form, form)
        try:
            opened = open_model()
        except BaseException:
            self._workbench.run(jobs.take_form, before)
            raise
        self._first = self._first or before
        return opened

    def leave(self) -> None:
        """Leave to the next model nothing that was applied to the one before."""
        if self._first is not None:
            self._workbench.run(jobs.take_form, self._first)
            self._first = None
