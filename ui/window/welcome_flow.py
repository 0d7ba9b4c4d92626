"""The welcome page in front of the stage, the sample model, and the examination."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QStackedLayout, QWidget

from nnjit_studio.doctor.checks import Check, checks
from nnjit_studio.doctor.examination import examine
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.state.jobs import EXAMINE, Job, JobProblem
from nnjit_studio.ui.window.welcome import FAILED, GAVE_WAY, STOPPED, Welcome
from nnjit_studio.verdict.store import last_verdicts
from nnjit_studio.workbench import Workbench

SETTLE_MS = 500
"""What is measured of a model that was opened comes first: it begins at once."""


def examination(survey: bool) -> Job:
    """Examine the machine, with ``survey`` its browsers and GPUs too; a list of checks."""

    def work(bench: Workbench, tell: OnPhase) -> list[Check]:
        page, folder = bench.page, bench.database.path.parent
        off = page.sandbox.asked_off
        with page.cancellable("The examination", tell) as phase:
            found = examine(
                page.connect, lambda: page.sandbox, folder, survey, off,
                on_phase=phase, confinement=page.process.confinement,
            )  # fmt: skip
        return list(checks(found))

    return Job(EXAMINE, "Examining this machine", work, needs_model=False)


class WelcomeFlow(QObject):
    """Shows the welcome page until there is something on the stage; examines the machine."""

    def __init__(self, host: Host, stage: QWidget, open_model: Callable[[Path], object]) -> None:
        super().__init__(host)
        self._host, self._stage = host, stage
        self.page = Welcome(host.actions)
        self.page.wants_sample.connect(self.open_sample)
        self.page.wants_faster.connect(self._ask_for_faster)
        self._faster = self._due = False
        host.actions["open"].triggered.connect(self._forget_faster)
        self.page.wants_model.connect(open_model)
        self.central = QWidget()
        # Both stay visible to Qt: a hidden engine page counts as one in the background.
        self._stack = QStackedLayout(
            self.central, stackingMode=QStackedLayout.StackingMode.StackAll
        )
        self._stack.addWidget(stage)
        self._stack.addWidget(self.page)
        host.session.busy_changed.connect(self._busy_changed)
        host.session.done.connect(self._done)
        host.session.problem.connect(self._failed)
        host.session.surveyed.connect(self._read)
        host.session.yielded.connect(self._gave_way)
        self._raw = self._begun = False
        host.session.abandoned.connect(lambda: self._opened("open"))
        self.show()

    def begin(self) -> None:
        """For a window without a model: examine the machine at once, without any browser.

        On a busy machine that may take minutes, so it gives way to a model that is opened.
        """
        self._due = self._begun = True
        self._examine_quietly()
        self.page.sample_button.setFocus()

    def _examine_quietly(self) -> None:
        if self._due and not self._host.session.busy:
            self._host.session.run(examination(survey=False), unasked=True)

    def show(self) -> None:
        """Put the welcome page in front."""
        settings = self._host.settings
        folder = self._host.session.workbench.database.path.parent
        verdicts = {verdict.path: verdict for verdict in last_verdicts(folder)}
        models = [(p, recent.opened(settings, p)) for p in recent.recent(settings)]
        self.page.show_recent(models, verdicts)
        self.page.show_samples(verdicts)
        self._bring(self.page)

    def leave(self) -> None:
        """Put the stage in front, with the keys where they change nothing."""
        covered = self._stack.currentWidget() is self.page
        self._bring(self._stage)
        if covered:
            self._host.docks.take_keys()

    def examine(self) -> None:
        """Examine everything, browsers and GPUs too."""
        self.show()
        self._host.session.run(examination(survey=True))

    def open_sample(self, name: str = "") -> bool:
        """Open a sample, by default the first; while the machine is examined, right after that."""
        session = self._host.session
        later = session.after(EXAMINE, lambda: self.open_sample(name))
        return later or session.open_sample(name)

    def _ask_for_faster(self) -> None:
        self._host.actions["open"].trigger()
        self._faster = True

    def _forget_faster(self) -> None:
        self._faster = False

    def measured(self) -> None:
        """What is measured by itself has been: a model that was to be made faster is next."""
        if self._faster and self._host.session.state.model is not None:
            self._faster = False
            QTimer.singleShot(0, self, self._host.actions["advise"].trigger)

    def _bring(self, widget: QWidget) -> None:
        self._stack.setCurrentWidget(widget)
        self.page.setVisible(widget is self.page)

    def covers(self, widget: QWidget) -> bool:
        """Whether it is the stage, and behind the page: Qt itself counts that as visible."""
        return widget is self._stage and self._stack.currentWidget() is self.page

    def _busy_changed(self, job: str) -> None:
        if job not in ("", EXAMINE):
            self.leave()
        if job == "open":
            self._raw = False
        if not job and self._due:
            QTimer.singleShot(SETTLE_MS, self, self._examine_quietly)

    def _gave_way(self) -> None:
        """A user's job took its place: say what comes of the examination."""
        if self._due:
            self.page.say_of_machine(GAVE_WAY)

    def _done(self, job: str, result: Any) -> None:
        if job == EXAMINE:
            self._due = False
            self.page.show_checks(result)
        self._opened(job)

    def _read(self, _: object) -> None:
        self._raw = True

    def _failed(self, problem: JobProblem) -> None:
        """The raw graph of a file that was read stays in sight."""
        if problem.job == EXAMINE:
            self._due = False  # its sentence stands in the message bar; once is enough
            self.page.say_of_machine(STOPPED if problem.cancelled else FAILED)
        if not self._raw or problem.cancelled:
            self._opened(problem.job)
        if problem.job == "open" and self._host.session.state.model is None and not self._begun:
            self.begin()  # the window was started with a file that is no model

    def _opened(self, job: str) -> None:
        if job == "open" and self._host.session.state.model is None:
            self.show()  # it could not be opened: the way to another one stays in sight
