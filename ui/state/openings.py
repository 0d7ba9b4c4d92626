"""How models come to be open: from a file, as a sample, or once more in another form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nnjit_studio.advice.records import Row
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.samples import first
from nnjit_studio.ui.state.forms import Forms
from nnjit_studio.ui.state.yielded import Answer, Asked, Imported, Work, phases
from nnjit_studio.workbench import Workbench, jobs
from nnjit_studio.workbench.jobs.page_form import PageForm

NOTHING: Feeds = MappingProxyType({})


class Openings:
    """The work of jobs that open a model; each is called in the job's thread."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._forms = Forms(workbench)
        self.again = False
        """Whether the last model was open before, in another form."""

    def file(self, path: Path, answer: Answer) -> Work:
        """Read a file and import it, unless ``answer`` knows no inputs for it."""

        def work(emit: Callable[[Any], None]) -> Any:
            self._leave_forms()
            found = self._workbench.process.survey(path)
            emit(found)
            feeds = answer(found)
            return Asked(found) if feeds is None else self._import(path, emit, feeds)

        return work

    def sample(self, name: str) -> Work:
        """Write a sample, if need be, and import it."""

        def work(emit: Callable[[Any], None]) -> Any:
            self._leave_forms()
            return self._import(first.sample_model(phases(emit), name=name), emit)

        return work

    def form(self, path: Path, form: PageForm, feeds: Feeds, made: Row | None) -> Work:
        """Import the open model in another form; ``made`` is the row that makes the file first."""

        def work(emit: Callable[[Any], None]) -> Any:
            self.again = True
            if made is not None:
                self._workbench.run(jobs.apply_row, made, path, True, phases(emit))
            return self._forms.open(form, lambda: self._import(path, emit, feeds))

        return work

    def _leave_forms(self) -> None:
        self.again = False
        self._forms.leave()

    def _import(self, path: Path, emit: Callable[[Any], None], feeds: Feeds = NOTHING) -> Any:
        return self._workbench.open_model(
            path, phases(emit), feeds or None, on_imported=lambda model: emit(Imported(model))
        )
