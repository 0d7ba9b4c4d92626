"""A bar for a model on its way: what is done, the seconds so far and those expected, a way out."""

from __future__ import annotations

import time

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFrame, QProgressBar

from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.labels import SteadyLabel
from nnjit_studio.ui.widgets.panel import hbox, named, push_button

CLOCK_MS = 250
LATE_S = 3.0
"""Of reading, after which the bar tells what is waited for."""
NEXT = ": its graph is drawn next. After a start, or on a busy machine, this takes longer."
BASE_S, NODE_S, MIB_S = 1.0, 0.05, 0.02
"""An import that was never timed here: seconds at least, for each node, for each MiB of weights.
Fitted by eye to a dozen files on two cores; "about" says so."""


class OpeningProgress(QFrame):
    """Seen while a model is opened."""

    def __init__(self, session: StudioSession) -> None:
        super().__init__()
        self.setObjectName("message")
        self.setProperty("tone", "plain")
        self._session = session
        self._name, self._about, self._known = "", 0.0, False
        self._began = 0.0
        self.label = named(SteadyLabel(characters=80), "Progress of opening")
        self.bar = named(QProgressBar(textVisible=False), "Opening")
        self.bar.setFixedWidth(160)
        self.cancel_button = push_button("Cancel", "Cancel opening", act=session.cancel)
        hbox((self.label, 1), self.bar, self.cancel_button, on=self, margins=(12, 4, 8, 4))
        self._clock = QTimer(self, interval=CLOCK_MS)
        self._clock.timeout.connect(self._tick)
        session.busy_changed.connect(self._busy)
        self.hide()

    def expect(self, survey: Survey, seconds: float) -> None:
        """Tell what comes; ``seconds`` of the last time, or 0."""
        guess = BASE_S + NODE_S * len(survey.graph.nodes) + MIB_S * survey.nbytes / 2**20
        self._name, self._known = survey.path.name, seconds > 0
        self._about = seconds or guess
        self._began = time.monotonic()
        self._tick()

    @property
    def seconds(self) -> float:
        """Since the import began."""
        return time.monotonic() - self._began

    def _busy(self, job: str) -> None:
        opens = job == "open"
        self.setVisible(opens)
        if opens:
            self._name, self._began = "", time.monotonic()
            self.bar.setRange(0, 0)
            self._clock.start()
            self._tick()
        else:
            self._clock.stop()

    def _tick(self) -> None:
        session = self._session
        # What nobody asked for ends first; its phase is not this one's.
        phase = session.state.phase if session.running == "open" else "Waiting to open the model"
        if not self._name:
            late = self.seconds >= LATE_S
            self.label.setText(f"{phase} ({self.seconds:.0f} s){NEXT if late else ''}")
            return
        so_far, about = self.seconds, "" if self._known else "about "
        late = so_far > self._about
        span = f"{so_far:.0f} s" if late else f"{so_far:.0f} of {about}{self._about:.0f} s"
        self.label.setText(f"Opening {self._name} ({span}): {phase[:1].lower()}{phase[1:]}")
        self.bar.setRange(0, 0 if late else 1000)
        if not late:
            self.bar.setValue(round(1000 * so_far / self._about))
