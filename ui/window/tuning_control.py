"""Tuning from the window: its budget, and sessions that did not end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.files import unfinished_session as unfinished
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.tuning.feature import TUNING
from nnjit_studio.ui.window import preferences
from nnjit_studio.ui.window.closing import Closing


class TuningControl(QObject):
    """Starts sessions; notes the model that is tuned until its session has ended."""

    def __init__(self, host: Host, open_model: Callable[[Path], bool], closing: Closing) -> None:
        super().__init__(host)
        self._host, self._open_model, self._closing = host, open_model, closing
        self._resuming = False
        host.session.done.connect(self._done)
        host.session.problem.connect(self._failed)
        host.session.abandoned.connect(self._forget)
        host.session.busy_changed.connect(self._begun)
        self.show_budget()
        TUNING.panel(host).budget_chosen.connect(
            lambda seconds: host.settings.setValue("budget_s", seconds or 0.0)
        )
        if (last := unfinished.read(host.settings)) is not None:
            forget = partial(unfinished.forget, host.settings)
            host.message.say(str(last), steps=(("Resume", self.resume_last), ("Forget", forget)))

    @property
    def budget_s(self) -> float | None:
        """Seconds for a session; None: until nothing more is expected."""
        return float(preferences.read(self._host.settings)["budget_s"]) or None

    def show_budget(self) -> None:
        TUNING.panel(self._host).show_budget(self.budget_s)

    def start(self, seconds: float | None = None) -> bool:
        """Tune the open model, or go on with the paused session; False when that is impossible."""
        session, panel = self._host.session, TUNING.panel(self._host)
        self._host.message.hide()
        if seconds is None and session.paused:
            return session.resume()
        seconds = self.budget_s if seconds is None else seconds
        panel.show_budget(seconds)
        return session.tune(seconds, panel.share_of_serving)

    def resume_last(self) -> bool:
        """Open the model whose tuning did not end, and tune it: its records count.

        Without one, go on with the session of the open model that was stopped.
        """
        last, state = unfinished.read(self._host.settings), self._host.session.state
        if last is None and (state.paused or state.goes_on):
            return self.start()
        if last is None:
            self._host.message.say("No tuning waits to be resumed: start one with F5.")
            return False
        self._resuming = self._open_model(last.model)
        return self._resuming

    def handlers(self) -> dict[str, Callable[[], object]]:
        """What actions do, by their ids."""
        session = self._host.session
        return {
            "tune": self.start,
            "stop": session.cancel,
            "pause": session.pause,
            "resume_last": self.resume_last,
            "next": lambda: session.select_next(1),
            "previous": lambda: session.select_next(-1),
        }

    def _begun(self, job: str) -> None:
        model = self._host.session.state.model
        if job == "tune" and model is not None:
            unfinished.note(self._host.settings, model.path)

    def _done(self, job: str, _: object) -> None:
        if job == "tune" and not self._closing.begun:
            unfinished.forget(self._host.settings)
        if job == "open" and self._resuming:
            self._resuming = False
            self.start()

    def _forget(self) -> None:
        self._resuming = False

    def _failed(self, problem: JobProblem) -> None:
        if problem.job == "open":
            self._resuming = False
        if problem.job == "tune" and not self._closing.begun:
            unfinished.forget(self._host.settings)
