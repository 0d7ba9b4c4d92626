"""A browser on the hub's page that is started again when it or its page crashes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nnjit_studio.engine.browsers.browsers import RunningBrowser, after, launch
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.engine.hub.hub import Hub

GRACE_S = 1.0
"""A page that is lost because its browser crashed is not the page's own crash."""


@contextlib.contextmanager
def keep_page(
    hub: Hub, browser: Browser, no_sandbox: bool, gpu: str = ""
) -> Iterator[RunningBrowser]:
    """Run ``browser`` headless on the page of ``hub`` until the end; see :func:`launch`.

    What waits for the page when it crashes fails; ``Hub.wait_for_return`` waits for
    the next one.

    Raises
    ------
    TargetError
        When the browser does not start, or could not as root.
    """
    connected_at = 0

    def page_came() -> None:
        nonlocal connected_at
        connected_at = running.crashes

    def page_went(reason: str) -> None:
        crashes = connected_at

        def look() -> None:
            if running.crashes == crashes:
                running.end()

        after(GRACE_S, look)

    with launch(
        browser,
        hub.url,
        no_sandbox,
        on_exit=hub.report_lost,
        gpu=gpu,
        on_return=hub.expect_page,
        pages=lambda: hub.pages,
    ) as running:
        before = hub.on_page, hub.on_lost
        hub.expect_page()
        hub.on_page, hub.on_lost = page_came, page_went
        try:
            yield running
        finally:
            hub.on_page, hub.on_lost = before
            hub.expect_page(False)
