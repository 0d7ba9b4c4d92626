"""The timeline with its chooser: the steady run, or the cold start."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QLineEdit

from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.analysis.profile.trace import trace_events
from nnjit_studio.ui.profile.timeline import Timeline, Track, processes
from nnjit_studio.ui.widgets.labels import SteadyLabel, quiet
from nnjit_studio.ui.widgets.panel import Panel, chooser, hbox, named, push_button, vbox
from nnjit_studio.ui.widgets.theme import Theme

HOW = "Wheel or + and - zoom, drag or arrows move; a click shows a step, or zooms to a layer."
BOTH = "Before and now, on one axis"
FIND = "Find step, layer, op or ONNX node"


class TraceView(Panel):
    """Drawn from the same events that “Save trace” writes."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.timeline = Timeline(theme)
        self.choice = chooser("Part of the trace")
        self.choice.currentTextChanged.connect(self._show)
        self.fit_button = push_button("Show all", "Timeline: show all", HOW, self.timeline.fit)
        self.field = named(QLineEdit(placeholderText=FIND), "Find in the timeline")
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._find)
        self.field.returnPressed.connect(lambda: self._step(1))
        self.hits = quiet(SteadyLabel(characters=12))
        bar = hbox(
            self.choice, (self.field, 1), self.hits, self.fit_button,
            margins=(8, 6, 8, 4), spacing=None,
        )  # fmt: skip
        vbox(bar, (self.timeline, 1), on=self, spacing=None)
        self._profile: ModelProfile | None = None
        self._before: ModelProfile | None = None
        self._tracks = processes({"traceEvents": []})

    def show_profile(self, profile: ModelProfile | None) -> None:
        self._profile = profile
        self._fill()

    def show_before(self, before: ModelProfile | None) -> None:
        """Offer a run of the same steps on the same axis."""
        self._before = before
        self._fill()

    def _fill(self) -> None:
        profile, kept = self._profile, self.choice.currentText()
        self._tracks = processes(trace_events(profile)) if profile else {}
        names = list(self._tracks)
        if profile is not None and self._before is not None:
            names.append(BOTH)
        with QSignalBlocker(self.choice):
            self.choice.clear()
            self.choice.addItems(names)
            steady = len(self._tracks) - 1
            self.choice.setCurrentIndex(names.index(kept) if kept in names else steady)
        for widget in (self.choice, self.fit_button, self.field):
            widget.setEnabled(bool(self._tracks))
        self._show(self.choice.currentText())

    def _show(self, name: str) -> None:
        if name == BOTH and self._profile is not None and self._before is not None:
            tracks = [*_of_run(self._before, "before"), *_of_run(self._profile, "now")]
        else:
            tracks = list(self._tracks.get(name, ()))
        self.timeline.show_tracks(tracks)
        self._find()

    def _find(self) -> None:
        found = self.timeline.search(self.field.text())
        self.hits.setText(f"{found} found" if self.field.text().strip() else "")

    def _step(self, step: int) -> None:
        place = self.timeline.step_found(step)
        if place:
            self.hits.setText(f"{place} of {len(self.timeline.found)}")


def _of_run(profile: ModelProfile, when: str) -> list[Track]:
    """The steady run's tracks, each named with when it was."""
    tracks = list(processes(trace_events(profile)).values())[-1]
    return [replace(track, name=f"{when}: {track.name}") for track in tracks]
