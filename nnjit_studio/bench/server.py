"""A benchmark's page, served and opened in a new browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.server import PageServer


def serve(options: BenchOptions) -> PageServer:
    """A server of the options' folder and of the peers' packages."""
    modules = {"node_modules": options.node_modules} if options.node_modules else {}
    return PageServer({"files": options.folder, **modules})


@contextmanager
def visit(
    server: PageServer, page: str, options: BenchOptions
) -> Iterator[browsers.RunningBrowser]:
    """Open a page of ``resources/bench`` in a new browser.

    Raises
    ------
    TargetError
        When the browser is not there, or does not start.
    """
    with browsers.launch(
        browsers.find(options.target),
        server.url(page),
        options.no_sandbox,
        on_exit=server.fail,
        gpu=options.gpu,
    ) as running:
        yield running
