"""The engine page of the window: kept alive, and what the user is told when it is lost."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget

from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.page.keeper import PageKeeper
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.services import PageView


class PageWatch(QObject):
    """Keeps the page of a view, if it has one."""

    def __init__(self, host: Host, view: QWidget) -> None:
        super().__init__(host)
        self._host, self.view = host, view
        self._lost_during = ""
        self._keeper: PageKeeper | None = None
        if isinstance(view, PageView):
            self._keeper = PageKeeper(view, host.session.workbench.page.expect, self)
            self._keeper.lost.connect(self.lost)
            self._keeper.gave_up.connect(self._gave_up)
            QTimer.singleShot(0, self._keeper.start)
        host.session.busy_changed.connect(self._busy_changed)

    def lost(self, reason: str) -> None:
        """The page is gone and is loaded again."""
        self._host.session.texts.forget()
        self._host.message.say(
            f"The engine page was lost: {reason.rstrip('.')}. It is loaded again, with the model "
            "and its kernels; the running job goes on.",
            details=reason,
        )

    def explains(self, problem: JobProblem) -> bool:
        """Whether a job failed because the page was given up, which the user was told already."""
        return problem.job == self._lost_during

    def end(self) -> None:
        """Load nothing any more."""
        if self._keeper is not None:
            self._keeper.end()

    def shut_down(self) -> None:
        """End the page, then its view."""
        if isinstance(self.view, PageView):
            self.view.shut_down()
        self.view.deleteLater()

    def _busy_changed(self, job: str) -> None:
        if job:
            self._lost_during = ""

    def _gave_up(self, reason: str) -> None:
        self._host.session.texts.forget()
        self._lost_during = self._host.session.busy
        self._host.message.say(
            f"The engine page was lost again and again: {reason.rstrip('.')}. "
            "What was tuned is in the database; start the Studio again to go on.",
            "bad",
            reason,
        )
