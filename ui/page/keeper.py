"""The engine page of a view, loaded again when it is lost."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from nnjit_studio.ui.state.services import PageView

LIVES_S = 1.0
"""A page that lives shorter died at once."""
MOST_DEATHS = 3
"""One after another, each at once: then it would only happen again."""


class PageKeeper(QObject):
    """Loads the page, and again after each loss, and tells ``expect`` about it.

    Parameters
    ----------
    view
        Shows the page.
    expect
        Called with whether a page comes, and why the last one was lost; see
        ``EnginePage.expect``.
    """

    lost = Signal(str)
    """The page was lost, the reason; it is loaded again."""
    gave_up = Signal(str)
    """The page was lost and is not loaded again."""

    def __init__(
        self, view: PageView, expect: Callable[[bool, str], None], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._view, self._expect = view, expect
        self._deaths = 0
        self._started_s = 0.0
        self._ended = False
        view.page_lost.connect(self._lost)

    def start(self) -> None:
        """Load the page for the first time."""
        self._expect(True, "")
        self._load()

    def end(self) -> None:
        """Load nothing any more."""
        self._ended = True

    def _load(self) -> None:
        if not self._ended:
            self._started_s = time.monotonic()
            self._view.start()

    def _lost(self, reason: str) -> None:
        if self._ended:
            return
        lived_s = time.monotonic() - self._started_s
        self._deaths = self._deaths + 1 if lived_s < LIVES_S else 1
        again = self._deaths < MOST_DEATHS
        self._expect(again, reason)
        if again:
            # Not inside the signal of a view whose process has just ended.
            QTimer.singleShot(0, self, self._load)
        (self.lost if again else self.gave_up).emit(reason)
