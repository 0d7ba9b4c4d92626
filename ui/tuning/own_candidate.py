"""A candidate of the user's own: typed, judged by the rules, compiled and measured."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLineEdit, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.ui.dock.candidates import EXAMPLES, refusal, rules_text
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.labels import SteadyLabel
from nnjit_studio.ui.widgets.panel import hbox, named, push_button
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench.jobs import explain

JUDGE_AFTER_MS = 150
"""Typing pauses that long before the rules are asked."""


class OwnCandidateBar(QWidget):
    """One line: settings, the answer of the lite space's rules, and a button."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__()
        self._session, self._theme = session, theme
        self._proposed = ""
        self._measured = ""
        self.field = named(
            QLineEdit(placeholderText=EXAMPLES["Wasm"]),
            "Candidate of your own",
            "Settings to try, of the selected workload (Ctrl+K); Enter measures them",
        )
        self.field.setMinimumWidth(330)
        self.field.textChanged.connect(self._typed)
        self.field.returnPressed.connect(self.measure)
        self.button = push_button(
            "Measure",
            "Measure the candidate",
            "Compile it, check its result, time it in turns with the kernel that runs now",
            self.measure,
        )
        self.verdict = SteadyLabel()
        self._judge_later = QTimer(self, interval=JUDGE_AFTER_MS, singleShot=True)
        self._judge_later.timeout.connect(self.judge)
        hbox(self.field, self.button, (self.verdict, 1), on=self, margins=(8, 2, 8, 6))
        self.judge()

    def begin(self) -> None:
        """Appear and take the keyboard's focus."""
        self.show()
        self.field.setFocus()
        self.field.selectAll()

    def refresh(self, changes: frozenset[str]) -> None:
        """Propose the kernel that runs, until the user types; show the verdict of the last one."""
        workload = self._session.state.workloads.get(self._session.state.selected)
        incumbent = workload.incumbent if workload else ""
        if (
            incumbent
            and incumbent != DEFAULT_SETTINGS
            and self.field.text() in ("", self._proposed)
        ):
            self._proposed = incumbent
            self.field.setText(incumbent)
        self.field.setPlaceholderText(EXAMPLES[self._session.state.code or "Wasm"])
        row = workload.candidates.get(self._measured) if workload and self._measured else None
        if row is not None and row.settings == self._settings() and row.verdict:
            rate = "" if row.gflops is None else f"{row.gflops:.1f} GFLOP/s, "
            self._say(f"{rate}{row.state}: {row.verdict}", "")
        elif "model" in changes:
            self._measured = ""
            self.judge()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.judge()

    def judge(self) -> None:
        """Show the answer of the lite space's rules to the settings in the field."""
        self._judge_later.stop()
        text = self.field.text().strip()
        self.button.setEnabled(False)
        if not text:
            return self._say("A candidate of your own, in the lite space or not.", "muted")
        try:
            verdicts = self._session.workbench.run(explain, self._session.state.selected, text)
        except UserError as error:
            return self._say(str(error), "bad")
        self.button.setEnabled(True)
        broken = [v for v in verdicts if not v.ok]
        if not broken:
            return self._say("In the lite space: every rule accepts it.", "good")
        return self._say(f"Outside the lite space. {rules_text(broken)}", "warn")

    def measure(self) -> None:
        """Have the candidate measured, at once or as the next of the running session."""
        self.judge()
        settings = self._settings()
        if not self.button.isEnabled() or not settings:
            return
        if self._session.try_candidate(settings):
            self._measured = settings
            self._say("Measuring", "muted")
        else:
            self._say(refusal(self._session.busy), "bad")

    def _typed(self) -> None:
        self._measured = ""
        self._judge_later.start()

    def _settings(self) -> str:
        try:
            return str(parse_candidate(self.field.text().strip()))
        except UserError:
            return ""

    def _say(self, text: str, tone: str) -> None:
        self.verdict.setText(text)
        colour = getattr(self._theme, tone or "text")
        sheet = f"color: {colour}"
        if self.verdict.styleSheet() != sheet:
            self.verdict.setStyleSheet(sheet)
