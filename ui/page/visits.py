"""Pages of a job in the embedded engine: opened and closed from the job's thread, never shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from PySide6.QtCore import QCoreApplication, QObject, Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile
from shiboken6 import delete, isValid

from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.ui.page.host import confined_page

CLOSE_TIMEOUT_S = 10.0
SCHEMES = ("blob", "data")
"""Of requests that runtimes make of themselves: workers made from blobs."""


@dataclass
class _Visit:
    server: PageServer
    url: str
    profile: QWebEngineProfile | None = None
    page: QWebEnginePage | None = None
    closed: threading.Event = field(default_factory=threading.Event)


class EmbeddedVisits(QObject):
    """Opens each page with a new profile, in Qt's thread; whoever waits for it learns of its end.

    Make it in any thread once there is an application.
    """

    _wanted = Signal(object)
    _over = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        app = QCoreApplication.instance()
        assert app is not None
        self.moveToThread(app.thread())
        queued = Qt.ConnectionType.QueuedConnection
        self._wanted.connect(self._open, queued)
        self._over.connect(self._close, queued)
        self._visits: list[_Visit] = []

    @contextmanager
    def visit(self, server: PageServer, page: str) -> Iterator[None]:
        """Open a page of ``resources/bench``; called from the thread of a job."""
        visit = _Visit(server, server.url(page))
        self._wanted.emit(visit)
        try:
            yield
        finally:
            self._over.emit(visit)
            visit.closed.wait(CLOSE_TIMEOUT_S)

    def shut_down(self) -> None:
        """Close what is open; from Qt's thread, before the application ends."""
        for visit in list(self._visits):
            self._close(visit)

    @Slot(object)
    def _open(self, visit: _Visit) -> None:
        url = QUrl(visit.url)
        visit.profile, visit.page = confined_page(url, SCHEMES)
        self._visits.append(visit)
        visit.page.renderProcessTerminated.connect(
            lambda status, code: visit.server.fail(f"The page's process ended: {status.name}.")
        )
        visit.page.loadFinished.connect(partial(_loaded, visit))
        visit.page.load(url)

    @Slot(object)
    def _close(self, visit: _Visit) -> None:
        if visit in self._visits:
            self._visits.remove(visit)
            # Deleting a page inside a call of its own crashes.
            QTimer.singleShot(0, self, lambda: _end(visit))


def _loaded(visit: _Visit, ok: bool) -> None:
    if not ok:
        visit.server.fail("The embedded view could not load the page.")


def _end(visit: _Visit) -> None:
    for made in (visit.page, visit.profile):
        if made is not None and isValid(made):
            made.blockSignals(True)
            delete(made)
    visit.closed.set()
