"""A browser on the hub's page that is started again when it or its page crashes, or none comes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from nnjit_studio.engine.browsers.browsers import RunningBrowser, launch
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.connection import LOGGER

GRACE_S = 1.0
"""A page that is lost because its browser crashed is not the page's own crash."""
COMES_WITHIN_S = 20.0
"""A page that did not come by then was lost on its way: a browser whose renderer or network
process ends while it starts says nothing and runs on. Chromium's did so when its main process
stood still for 18 s. With six busy processes on two cores a page takes 2 to 4 s."""


@contextlib.contextmanager
def keep_page(
    hub: Hub, browser: Browser, no_sandbox: bool, gpu: str = ""
) -> Iterator[RunningBrowser]:
    """Run ``browser`` headless on the page of ``hub`` until the end; see :func:`launch`.

    What waits for the page when it crashes fails; ``Hub.wait_for_return`` waits for
    the next one. A start whose page does not come within :data:`COMES_WITHIN_S` is
    repeated once, which nothing that waits notices.

    Raises
    ------
    TargetError
        When the browser does not start, or could not as root.
    """
    connected_at = 0
    waiting: threading.Timer | None = None

    def page_came() -> None:
        nonlocal connected_at
        connected_at = running.crashes

    def page_went(reason: str) -> None:
        crashes = connected_at

        def look() -> None:
            if running.crashes == crashes:
                running.end()

        _after(GRACE_S, look)

    def starts(comes: bool = True) -> None:
        nonlocal waiting
        pages = hub.pages
        hub.expect_page(comes)
        if waiting is not None:
            waiting.cancel()

        def look() -> None:
            if hub.pages == pages:
                LOGGER.warning(
                    "%s did not open its page within %g s and is started again.",
                    browser.name, COMES_WITHIN_S,
                )  # fmt: skip
                running.again()

        waiting = _after(COMES_WITHIN_S, look) if comes else None

    with launch(
        browser, hub.url, no_sandbox, on_exit=hub.report_lost, gpu=gpu, on_return=starts
    ) as running:
        before = hub.on_page, hub.on_lost
        starts()
        hub.on_page, hub.on_lost = page_came, page_went
        try:
            yield running
        finally:
            hub.on_page, hub.on_lost = before
            starts(False)


def _after(seconds: float, look: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, look)
    timer.daemon = True
    timer.start()
    return timer
