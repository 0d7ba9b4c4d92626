"""The profile that is shown, compared with a saved one or with the one before."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal

from nnjit_studio.analysis.profile.compare import Comparison, StepDelta, compare, headline, load
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.model.readable import words_of
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.state.jobs import reader
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

EMPTY = "Open a saved profile, or press F6 again after tuning: both are compared step by step."
TONES = {FASTER: "good", SLOWER: "bad", NOT_TOLD_APART: "muted"}


def _tone(delta: StepDelta) -> str:
    return "muted" if delta.ratio is None else TONES[delta.outcome]


COLUMNS = (
    Column("step", lambda d: d.node, width=240, middle=True),
    Column("what", lambda d: d.workload, lambda key: str(words_of(key)), width=280,
           in_files="workload", hint=lambda d: text.short_key(d.workload)),
    Column("before", lambda d: d.before_ms, text.time, True, "median, in the other profile", 84,
           in_files="before ms"),
    Column("after", lambda d: d.after_ms, text.time, True, "median, in the profile shown", 84,
           in_files="after ms"),
    Column("gain", lambda d: d.gain_ms, text.time, True, "positive is faster; grey is noise", 84,
           tone=_tone, in_files="gain ms"),
    Column("ratio", lambda d: d.ratio, lambda v: text.fixed(v, 2), True,
           "before by after; above 1 is faster; grey is noise", 66, tone=_tone),
)  # fmt: skip


class ComparePanel(TablePanel):
    """Largest gains first."""

    problem = Signal(object)
    """``JobProblem``: A file is no profile."""
    compared = Signal(object)
    """``ModelProfile or None``: What the profile shown is compared with now."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Comparison of profiles", COLUMNS, theme)
        self.view.horizontalHeader().setStretchLastSection(False)  # figures stay together
        self.after: ModelProfile | None = None
        self.before: ModelProfile | None = None
        self.result: Comparison | None = None
        self.file_button = push_button(
            "Open saved profile…",
            "Compare with a saved profile",
            "JSON of “Save profile” or of nnjit profile --save",
            self._ask,
        )
        self.caption = caption(EMPTY)
        self.lead(self.file_button, self.caption)
        self._reader = reader(self, self.compare_with, self.problem.emit)
        self._show()

    def show_profile(self, profile: ModelProfile | None) -> None:
        """A new profile is compared with the one before, if that is of the same model."""
        last = self.after
        if profile is None:
            self.before = None
        elif last is not None and last.model == profile.model:
            self.before = last
        self.after = profile
        self._show()

    def _ask(self) -> None:
        dialogs.ask_file(self, dialogs.PROFILES, Path.home(), self.compare_with_file)

    def compare_with_file(self, path: Path) -> bool:
        """Read a saved profile in a thread, then compare; False while one is being read."""
        return self._reader.start("read_profile", lambda _: load(path))

    def compare_with(self, before: ModelProfile) -> None:
        self.before = before
        self._show()

    def _show(self) -> None:
        before, after = self.before, self.after
        self.result = compare(before, after) if before and after else None
        self.model.set_rows(self.result.steps if self.result else (), keep=False)
        self.caption.setText(self._words())
        self.file_button.setEnabled(self.after is not None)
        self.compared.emit(before)

    def _words(self) -> str:
        if self.result is None or self.before is None or self.after is None:
            return EMPTY
        other = self.before.model
        note = "" if other == self.after.model else f"Before is of another model, {other}. "
        return note + headline(self.result)
