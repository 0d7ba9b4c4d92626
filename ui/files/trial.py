"""A bundle that was just written, served on this machine and opened in a browser of it."""

from __future__ import annotations

import tempfile
import zipfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from nnjit_studio.engine.browsers.browsers import find_all, is_root, launch
from nnjit_studio.engine.browsers.flags import Browser, Extras
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.ui.state.jobs import JobProblem, reader
from nnjit_studio.ui.widgets.message_bar import MessageBar, Step


class Trials(QObject):
    """Opens bundles in browsers until it is closed.

    The browser gets a profile of its own, and the server listens on 127.0.0.1 alone.
    """

    def __init__(self, parent: QObject, message: MessageBar) -> None:
        super().__init__(parent)
        self._message = message
        self._kept = ExitStack()
        self._worker = reader(self, lambda _: None, self._refused)

    def steps(self, bundle: Path) -> list[Step]:
        """A button for each kind of browser that this machine has."""
        by_kind = {browser.kind: browser for browser in reversed(find_all())}
        return [
            (f"Try in {browser.name.capitalize()}", partial(self.open, bundle, browser))
            for _, browser in sorted(by_kind.items())
        ]

    def open(self, bundle: Path, browser: Browser) -> None:
        """Unpack and serve a bundle, and start a browser on its page."""
        self._worker.start("try bundle", lambda _: self._open(bundle, browser))

    def _open(self, bundle: Path, browser: Browser) -> None:
        folder = Path(self._kept.enter_context(tempfile.TemporaryDirectory(prefix="nnjit-try-")))
        with zipfile.ZipFile(bundle) as held:
            held.extractall(folder)
        server = self._kept.enter_context(PageServer({"bundle": folder}))
        # As root no sandbox works, and the page is our own.
        page = launch(
            browser, server.url("index.html", "bundle"), is_root(), extras=Extras(headless=False)
        )
        self._kept.enter_context(page)

    def _refused(self, problem: JobProblem) -> None:
        self._message.say(str(problem), "bad", problem.details)

    def close(self) -> None:
        """End the browsers and servers, and remove what was unpacked."""
        self._kept.close()
