"""A candidate of the user's own: typed, judged by the rules, compiled and measured."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.ui.state.session import Session
from nnjit_studio.ui.widgets.theme import SteadyLabel, Theme, named

EXAMPLES = {
    "Wasm": "x0=8,y0=6,r0=4,x1=8,y1=6,r1=384,order=nm,pack=1",
    "WGSL": "x0=8,y0=8,r0=4,x1=64,y1=64,r1=16,split=1,vec=4",
}
"""Candidates by what the kernels are written in."""
JUDGE_AFTER_MS = 150
"""Typing pauses that long before the rules are asked."""


class OwnCandidateBar(QWidget):
    """One line: settings, what the rules of the lite space say of them, and a button."""

    def __init__(self, session: Session, theme: Theme) -> None:
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
        self.button = named(
            QPushButton("Measure"),
            "Measure the candidate",
            "Compile it, check its result, time it beside the kernel that runs now",
        )
        self.button.clicked.connect(self.measure)
        self.verdict = SteadyLabel()
        self._judge_later = QTimer(self, interval=JUDGE_AFTER_MS, singleShot=True)
        self._judge_later.timeout.connect(self.judge)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 8, 6)
        row.setSpacing(6)
        row.addWidget(self.field)
        row.addWidget(self.button)
        row.addWidget(self.verdict, 1)
        self.judge()

    def render(self, changes: frozenset[str]) -> None:
        """Propose the kernel that runs, until the user types; tell how the last one did."""
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
        """Say what the rules of the lite space think of what stands in the field."""
        self._judge_later.stop()
        text = self.field.text().strip()
        self.button.setEnabled(False)
        if not text:
            return self._say("A candidate of your own: every setting, rules or not.", "muted")
        try:
            verdicts = self._session.explain(text)
        except UserError as error:
            return self._say(str(error), "bad")
        self.button.setEnabled(True)
        broken = [v for v in verdicts if not v.ok]
        if not broken:
            return self._say("In the lite space: every rule accepts it.", "good")
        rules = "; ".join(f"{v.rule.replace('_', ' ')}: {v.text}" for v in broken)
        return self._say(f"Outside the lite space. {rules}", "warn")

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
            self._say("Something else is running: wait, or stop it (Shift+F5).", "bad")

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
