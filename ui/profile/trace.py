"""The timeline with its choice: the steady run, or the cold start."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from nnjit_studio.analysis.profile import ModelProfile, trace_events
from nnjit_studio.ui.profile.timeline import Timeline, processes
from nnjit_studio.ui.widgets.theme import Theme, named, panel

HOW = "Wheel or + and - zoom, drag or arrows move, Home shows all; a click shows the step."


class TraceView(QWidget):
    """Drawn from the very events that “Open in Perfetto” writes."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        panel(self)
        self.timeline = Timeline(theme)
        self.choice = named(QComboBox(), "Which part of the trace")
        self.choice.currentTextChanged.connect(self._show)
        self.fit_button = named(QPushButton("Show all"), "Timeline: show all")
        self.fit_button.clicked.connect(self.timeline.fit)
        how = QLabel(HOW)
        how.setObjectName("muted")
        row = QHBoxLayout()
        row.setContentsMargins(8, 6, 8, 4)
        row.addWidget(self.choice)
        row.addWidget(how, 1)
        row.addWidget(self.fit_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.timeline, 1)
        self._tracks = processes({"traceEvents": []})

    def show_profile(self, profile: ModelProfile | None) -> None:
        self._tracks = processes(trace_events(profile)) if profile else {}
        self.choice.blockSignals(True)
        self.choice.clear()
        self.choice.addItems(list(self._tracks))
        self.choice.setCurrentIndex(len(self._tracks) - 1)
        self.choice.blockSignals(False)
        for widget in (self.choice, self.fit_button):
            widget.setEnabled(bool(self._tracks))
        self._show(self.choice.currentText())

    def _show(self, name: str) -> None:
        self.timeline.show_tracks(self._tracks.get(name, ()))
