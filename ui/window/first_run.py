"""Every model that is opened is run and profiled by itself, on a device that is measured."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer

from nnjit_studio.ui.device.dock import MEASURE
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.opening.editor import FEED
from nnjit_studio.ui.profile.feature import PROFILE
from nnjit_studio.ui.state.jobs import Job

SETTING = "measure_opened"


class FirstRun(QObject):
    """Starts jobs that nobody asked for: a user's job takes their place at once.

    ``on`` is false for a script, which says itself what to run.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._host = host
        self.on = str(host.settings.value(SETTING, "yes")) != "no"
        self._device_known = True
        self._measures = False
        host.session.device_changed.connect(self._learn)
        host.session.done.connect(self._done)
        host.session.problem.connect(lambda _: self._end())
        host.session.yielded.connect(self._end)
        host.calm.connect(self._catch_up)

    def _learn(self, device: object) -> None:
        self._device_known = device is not None

    def _done(self, job: str, _: object) -> None:
        # After all others have heard of it: one of them may start a job of its own.
        if job == FEED and self.on:
            QTimer.singleShot(0, lambda: self._run(PROFILE.job))
        elif job == "open" and self.on:
            self._measures = False
            QTimer.singleShot(0, self._profile)
        elif job == "tune" and self.on and "profile" not in self._host.session.results:
            QTimer.singleShot(0, lambda: self._run(PROFILE.job))
        elif job == "profile" and self._measures and not self._device_known:
            QTimer.singleShot(0, lambda: self._run(MEASURE))
        elif job == "device" and self._measures:
            self._end()  # once: a machine too busy to be measured stays unknown
            QTimer.singleShot(0, lambda: self._run(PROFILE.job))

    def _catch_up(self) -> None:
        """Profile the model that was opened while something else was measured."""
        session = self._host.session
        if self.on and session.state.model is not None and "profile" not in session.results:
            QTimer.singleShot(0, self._profile)

    def _profile(self) -> None:
        if self._run(PROFILE.job):
            self._measures = not self._host.session.workbench.page.backend.is_gpu
            if not self._host.session.openings.again:  # who tries forms goes on with their list
                PROFILE.show(self._host)

    def _run(self, job: Job | None) -> bool:
        session = self._host.session
        return job is not None and not session.busy and session.run(job, unasked=True)

    def _end(self) -> None:
        self._measures = False
