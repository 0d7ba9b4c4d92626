"""A page of ours, opened in a new browser."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import NO_EXTRAS, Browser, Extras
from nnjit_studio.engine.pages.server import PageServer

Opening = Callable[[PageServer, str], AbstractContextManager[object]]
"""Opens a page of ``resources/bench``; it is closed at the end of the block."""


def in_browser(browser: Browser, no_sandbox: bool) -> Opening:
    """Opens pages, each in a new start of that browser."""
    return lambda server, page: open_page(server, browser, page, no_sandbox)


def open_page(
    server: PageServer,
    browser: Browser,
    page: str,
    no_sandbox: bool,
    room: str = "bench",
    gpu: str = "",
    extras: Extras = NO_EXTRAS,
) -> AbstractContextManager[browsers.RunningBrowser]:
    """Open a page of a folder of ``resources``; whoever waits for it learns when the browser ends.

    Raises
    ------
    TargetError
        When the browser does not start.
    """
    address = server.url(page, room)
    return browsers.launch(
        browser,
        address,
        no_sandbox,
        on_exit=server.fail,
        gpu=gpu,
        extras=extras,
        pages=lambda: len(server.served),
    )
