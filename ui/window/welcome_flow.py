"""The welcome page in front of the engine page, the sample model, and the examination."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QStackedLayout, QWidget

from nnjit_studio.doctor.checks import Check, checks
from nnjit_studio.doctor.examination import examine
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.state.jobs import EXAMINE, Job
from nnjit_studio.ui.window.welcome import Welcome
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.phases import OnPhase


def examination(survey: bool) -> Job:
    """Examine the machine, with ``survey`` its browsers and GPUs too; a list of checks."""

    def work(bench: Workbench, tell: OnPhase) -> list[Check]:
        page, folder = bench.page, bench.database.path.parent
        off = page.sandbox.asked_off
        found = examine(page.connect, lambda: page.sandbox, folder, survey, off, on_phase=tell)
        return list(checks(found))

    return Job(EXAMINE, "Examining this machine", work, needs_model=False)


class WelcomeFlow(QObject):
    """Shows the welcome page until a job needs the engine's; examines the machine on request."""

    def __init__(
        self, host: Host, engine_view: QWidget, open_model: Callable[[Path], object]
    ) -> None:
        super().__init__(host)
        self._host, self._engine_view = host, engine_view
        self._profiles = False
        self.page = Welcome(host.actions)
        self.page.wants_sample.connect(self.open_sample)
        self.page.wants_model.connect(open_model)
        self.central = QWidget()
        # Both stay visible to Qt: a hidden page counts as one in the background.
        self._stack = QStackedLayout(
            self.central, stackingMode=QStackedLayout.StackingMode.StackAll
        )
        self._stack.addWidget(engine_view)
        self._stack.addWidget(self.page)
        host.session.busy_changed.connect(self._busy_changed)
        host.session.done.connect(self._done)
        host.session.problem.connect(lambda problem: self._opened(problem.job))
        self.show()

    def begin(self) -> None:
        """For a window without a model: examine the machine at once, without any browser."""
        self._host.session.run(examination(survey=False))
        self.page.sample_button.setFocus()

    def show(self) -> None:
        """Put the welcome page in front."""
        self.page.show_recent(recent.recent(self._host.settings))
        self._bring(self.page)

    def examine(self) -> None:
        """Examine everything, browsers and GPUs too."""
        self.show()
        self._host.session.run(examination(survey=True))

    def open_sample(self) -> bool:
        """Open the sample and profile it; while the machine is examined, right after that."""
        session = self._host.session
        if session.after(EXAMINE, self.open_sample):
            return True
        self._profiles = session.open_sample()
        return self._profiles

    def _bring(self, widget: QWidget) -> None:
        self._stack.setCurrentWidget(widget)
        self.page.setVisible(widget is self.page)

    def _busy_changed(self, job: str) -> None:
        if job not in ("", EXAMINE):
            self._bring(self._engine_view)

    def _done(self, job: str, result: Any) -> None:
        if job == EXAMINE:
            self.page.show_checks(result)
        if job == "open" and self._profiles:
            # A newcomer does not know yet that F6 shows where the time goes.
            self._host.actions["profile"].trigger()
        self._opened(job)

    def _opened(self, job: str) -> None:
        if job == "open":
            self._profiles = False
            if self._host.session.state.model is None:
                self.show()  # it could not be opened: the way to another one stays in sight
