"""A benchmark's page, served and opened in a new browser."""

from __future__ import annotations

from contextlib import AbstractContextManager

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.opening import open_page
from nnjit_studio.engine.pages.server import PageServer


def serve(options: BenchOptions) -> PageServer:
    """A server of the options' folder and of the peers' packages."""
    modules = {"node_modules": options.node_modules} if options.node_modules else {}
    return PageServer({"files": options.folder, **modules})


def visit(
    server: PageServer, page: str, options: BenchOptions
) -> AbstractContextManager[browsers.RunningBrowser]:
    """Open a page of ``resources/bench`` in a new browser.

    Raises
    ------
    TargetError
        When the browser is not there, or does not start.
    """
    browser = browsers.find(options.target)
    return open_page(server, browser, page, options.no_sandbox, gpu=options.gpu)
