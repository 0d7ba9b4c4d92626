"""Pages run in a Chromium of our own while they are sampled."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser, Extras
from nnjit_studio.engine.devtools.connection import SWITCHES
from nnjit_studio.engine.devtools.sampling import Sampler, ThreadProfile, sampling
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import PageError, TargetError, UserError
from nnjit_studio.foreign_wasm.inspection.hotspots.site import served

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LOAD_S = 300.0
"""Until a runtime has loaded its model and run it once."""


@dataclass(frozen=True)
class Sampling:
    """How a page is sampled."""

    browser: Browser
    no_sandbox: bool = False
    interval_us: int = 500
    seconds: float = 10.0
    """How long; of a runtime, how long it infers."""


def sample_page(place: str, how: Sampling) -> list[ThreadProfile]:
    """Sample a page from its first instruction.

    Parameters
    ----------
    place
        A folder with an ``index.html``, or an address on this machine: the browser is kept
        off the network.

    Raises
    ------
    UserError
        When it is neither.
    TargetError, PageError
        When the browser does not start or is lost.
    """
    with _address(place) as url, contextlib.ExitStack() as stack:
        lost = _Lost()
        sampler = stack.enter_context(_sampled(how, lost))
        sampler.navigate(url)
        lost.wait(how.seconds)
        return sampler.stop()


def sample_runtime(server: PageServer, page: str, how: Sampling) -> list[ThreadProfile]:
    """Sample a page of ours that runs a runtime, from its word ``ready`` to its word ``done``.

    Raises
    ------
    TargetError, PageError
        When the browser does not start, or the page fails.
    """
    with _sampled(how, server) as sampler:
        sampler.navigate(server.url(page))
        while (message := server.next_message(LOAD_S))["type"] != "ready":
            if message["type"] == "done":
                raise PageError("The page ended before it had begun to infer.")
        sampler.restart()
        server.ask({"do": "run"}, LOAD_S + how.seconds)
        return sampler.stop()


class _Lost:
    """Waits, unless the browser ends meanwhile."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._reason = ""

    def fail(self, reason: str) -> None:
        self._reason = reason
        self._ended.set()

    def wait(self, seconds: float) -> None:
        if self._ended.wait(seconds):
            raise PageError(self._reason)


@contextlib.contextmanager
def _sampled(how: Sampling, watcher: _Lost | PageServer) -> Iterator[Sampler]:
    """A browser with an empty page that is sampled."""
    if how.browser.kind != "chromium":
        raise TargetError(
            f"{how.browser.name} has no profiler that the Studio can drive.",
            "Use --engine chromium, chrome or edge.",
        )
    with (
        browsers.launch(
            how.browser,
            "about:blank",
            how.no_sandbox,
            on_exit=watcher.fail,
            extras=Extras(SWITCHES),
        ) as running,
        sampling(running.profile, how.interval_us) as sampler,
    ):
        yield sampler


@contextlib.contextmanager
def _address(place: str) -> Iterator[str]:
    if Path(place).is_dir():
        with served(Path(place)) as url:
            yield url
        return
    parts = urlsplit(place)
    if parts.scheme not in ("http", "https") or parts.hostname not in LOOPBACK:
        raise UserError(
            f"{place!r} is neither a folder nor an address on this machine.",
            "Save the page into a folder, or serve it on 127.0.0.1: the browser has no network.",
        )
    yield place
