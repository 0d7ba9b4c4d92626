"""The timeline with its chooser: the steady run, or the cold start."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QLabel

from nnjit_studio.analysis.profile import ModelProfile, trace_events
from nnjit_studio.ui.profile.timeline import Timeline, processes
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import Panel, chooser, hbox, push_button, vbox
from nnjit_studio.ui.widgets.theme import Theme

HOW = "Wheel or + and - zoom, drag or arrows move, Home shows all; a click shows the step."


class TraceView(Panel):
    """Drawn from the same events that “Open in Perfetto” writes."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.timeline = Timeline(theme)
        self.choice = chooser("Part of the trace")
        self.choice.currentTextChanged.connect(self._show)
        self.fit_button = push_button("Show all", "Timeline: show all", act=self.timeline.fit)
        bar = hbox(
            self.choice, (quiet(QLabel(HOW)), 1), self.fit_button,
            margins=(8, 6, 8, 4), spacing=None,
        )  # fmt: skip
        vbox(bar, (self.timeline, 1), on=self, spacing=None)
        self._tracks = processes({"traceEvents": []})

    def show_profile(self, profile: ModelProfile | None) -> None:
        self._tracks = processes(trace_events(profile)) if profile else {}
        with QSignalBlocker(self.choice):
            self.choice.clear()
            self.choice.addItems(list(self._tracks))
            self.choice.setCurrentIndex(len(self._tracks) - 1)
        for widget in (self.choice, self.fit_button):
            widget.setEnabled(bool(self._tracks))
        self._show(self.choice.currentText())

    def _show(self, name: str) -> None:
        self.timeline.show_tracks(self._tracks.get(name, ()))
