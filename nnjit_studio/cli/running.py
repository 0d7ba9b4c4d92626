"""The workbench that a verb drives, started as its options say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from nnjit_studio.cli.common import database_path, note
from nnjit_studio.database import KernelDatabase
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.sandbox import NO_SANDBOX, Sandbox, switched_off_by
from nnjit_studio.engine.runner.kept_page import keep_page
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.backend import adapter_wanted, choose_backend
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.interrupts import interrupts, stop
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench import Workbench

T = TypeVar("T")
AS_IT_IS = ImportOptions()


@dataclass(frozen=True)
class Running:
    """A started workbench."""

    bench: Workbench
    target: TargetOptions
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    """Show the events of a session where the page is."""

    def run(self, work: Callable[[], T]) -> T:
        """Do work while a page of the target is there."""
        page, no_sandbox = self.bench.page, self.target.no_sandbox
        if self.target.embedded:
            from nnjit_studio.ui.page.headless import run_with_embedded_page

            return run_with_embedded_page(page.hub, work, no_sandbox, page.cancel)
        if self.target.device is not None:
            from nnjit_studio.cli.house.at_work import device_at_work

            with device_at_work(page, self.target, database_path(self.target.database)) as door:
                self.listeners.append(lambda event: door.tell(event.to_json()))
                with interrupts(_once(page.cancel)):
                    return work()
        browser, adapter = browsers.find(self.target.target), adapter_wanted(page.backend)
        with keep_page(page.hub, browser, no_sandbox, adapter) as running:
            page.launched_with(running.flags)
            with interrupts(_once(page.cancel)):
                return work()


@contextmanager
def workbench(
    target: TargetOptions,
    importing: ImportOptions = AS_IT_IS,
    opens: Callable[[Path], KernelDatabase] = KernelDatabase.open,
) -> Iterator[Running]:
    """A started workbench, closed at the end.

    Verbs that write no records open the database for reading: they need no turn at it.
    """
    flags, off_by = "", NO_SANDBOX if target.no_sandbox else ""
    if target.lab and not target.embedded:
        raise UserError(
            f"--lab {target.lab} is a mode of the embedded engine.",
            "Leave out --target or --lab.",
        )
    if target.embedded:
        from nnjit_studio.ui.page.process import check_sandbox

        off_by = switched_off_by(target.no_sandbox)
        flags = check_sandbox(target.no_sandbox, target.lab)
    backend = choose_backend(target.backend, target.gpu, target.target)
    if meant := backend.threads_note(target.threads):
        note(meant)
    bench = Workbench(
        database_path(target.database),
        target.target.partition(":")[0] if target.device else target.target,
        flags,
        Sandbox(off_by),
        target.threads,
        opens,
        backend,
        importing,
    )
    try:
        bench.start()
        yield Running(bench, target)
    finally:
        bench.close()


def _once(cancel: Callable[[], None]) -> Callable[[int], None]:
    """A first signal ends the work early, with its summary; the next one stops the program."""
    seen: list[int] = []

    def handle(number: int) -> None:
        seen.append(number)
        if len(seen) > 1:
            stop(number)
        cancel()

    return handle
