"""How the page imports and runs what is opened next: what advice changes, and what it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnjit_studio.advice.apply import Apply
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.backend import Backend
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.page import EnginePage


@dataclass(frozen=True)
class PageForm:
    """Options of the import, threads and backend."""

    importing: ImportOptions
    threads: int
    backend: Backend

    @classmethod
    def of(cls, page: EnginePage) -> PageForm:
        """What a page has now."""
        return cls(page.importing, page.threads, page.backend)

    def with_applied(self, applied: Sequence[Apply], gpu: Backend) -> PageForm:
        """The same with these changes; ``gpu`` is WebGPU as the page has it."""
        form = self
        for apply in applied:
            importing = apply.importing(form.importing)
            # Choices of the plan name nodes, which another file may not have.
            importing = replace(importing, ways={}) if apply.recipe else importing
            form = replace(
                form,
                importing=importing,
                threads=apply.threads or form.threads,
                backend=gpu if apply.backend == gpu.name else form.backend,
            )
        return form


def take_form(model: ModelOnPage, form: PageForm) -> PageForm:
    """Settle how the next model is imported and runs; what was settled before.

    The open model has to be opened again for it to count.
    """
    page, before = model.page, PageForm.of(model.page)
    page.importing, page.threads = form.importing, form.threads
    if (form.threads, form.backend) != (before.threads, before.backend):
        page.use(form.backend)
    return before
