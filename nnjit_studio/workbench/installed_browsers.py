"""The browsers of this machine side by side, for the window: with its model and its database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nnjit_studio.analysis.browsers.comparison import BrowserComparison
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.runner.kept_page import keep_page
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.tuner.events import Event, RoundDone
from nnjit_studio.workbench.side_by_side import compare_browsers
from nnjit_studio.workbench.workbench import Workbench

T = TypeVar("T")
SECONDS = 30.0
"""Of each browser's session."""


def compare_installed(bench: Workbench, on_phase: OnPhase) -> BrowserComparison:
    """Tune the open model in every browser that is found, in Wasm; the page of ``bench`` rests.

    Raises
    ------
    UserError
        When fewer than two are found, no model is open, or it was cancelled.
    TargetError, ModelError, PageError
    """
    own, opened = bench.page, bench.model.current

    def within(browser: str, work: Callable[[Workbench], T], /) -> T:
        other = Workbench(
            bench.database.path, browser, sandbox=own.sandbox, threads=own.threads,
            opens=lambda _: bench.database, importing=own.importing,
        )  # fmt: skip

        def end() -> None:
            other.page.end()
            other.process.kill()  # a reference that it makes may take half a minute

        try:
            found, off = browsers.find(browser), own.sandbox.asked_off
            with own.acting_on_cancel(end), keep_page(other.page.hub, found, off) as running:
                other.page.launched_with(running.flags)
                return work(other)
        finally:
            other.tuning.drop()
            other.page.close()  # the database is the window's

    with own.cancellable("The comparison", on_phase) as phase:

        def told(browser: str, event: Event) -> None:
            if isinstance(event, RoundDone):
                name = event.workload.split("#")[0]
                phase(f"{browser}: {name}, {event.best_gflops:.1f} GFLOP/s")

        names = [browser.name for browser in browsers.find_all()]
        feeds = dict(bench.model.feeds)
        return compare_browsers(within, names, opened.path, SECONDS, phase, feeds, told)
