"""The faster modules beside the original: in turns, in every browser here and the embedded one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QWidget

from nnjit_studio.foreign_wasm.turbo.speed.result import Compared
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.wasm import jobs
from nnjit_studio.ui.wasm.long_job import LongJob
from nnjit_studio.ui.wasm.said import Said
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.panel import chooser, push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel

JOB = "compare speed"
EMBEDDED = "embedded view"
NO_FRAMES = (
    " The embedded view cannot run TensorFlow.js here: its page needs frames, "
    "which the view refuses."
)
ALL = "all cases"
BUILDS = {"plain": "bit-identical", "relaxed": "fused"}
DONE = (
    "All cases have run. Next: put the written files into your page; the first lines of the "
    "loader say how."
)
READY = "Runs the original and the new modules in turns in one page, case after case."


def _gain(row: Compared) -> str:
    if row.gain is None:
        return ""
    return f"{row.gain.median:.2f}\u00d7 ({row.gain.low:.2f} to {row.gain.high:.2f})"


def _tone(row: Compared) -> str:
    if row.gain is None or row.gain.low <= 1 <= row.gain.high:
        return "muted"
    return "good" if row.gain.low > 1 else "bad"


def _outputs(row: Compared) -> str:
    if row.difference is None:
        return row.problem
    return f"differ by {row.difference:.0e}" if row.difference else "identical"


def _ms(value: Any) -> str:
    return "" if value is None else text.latency(value)


COLUMNS = (
    Column("case", lambda r: r.case, width=176),
    Column("where", lambda r: r.place, width=104),
    Column("new module", lambda r: BUILDS.get(r.build, r.build), width=104),
    Column("original ms", lambda r: r.before_ms, _ms, True, "median of one run", 84),
    Column("ms", lambda r: r.after_ms, _ms, True, "median of one run of the new module", 60),
    Column("gain and interval", _gain, width=150, tone=_tone,
           tip="median of the ratios of runs in turns, with its 95 % interval; on a busy machine "
           "not the ratio of the two medians"),
    Column("outputs", _outputs, width=160, tip="of the new module, bit by bit with the original's",
           tone=lambda r: "bad" if r.problem else "warn" if r.difference else "good"),
)  # fmt: skip


class SpeedPanel(TablePanel):
    """Hidden until there are modules to compare."""

    def __init__(self, host: Host) -> None:
        super().__init__("Speed beside the original", COLUMNS, host.theme)
        self._host = host
        self._original: Path | None = None
        self._builds: Mapping[str, Path] = {}
        self.job = LongJob(host, self)
        self.job.told.connect(self._take)
        self.job.returned.connect(lambda _: self._tell(DONE))
        self.job.stopped.connect(lambda: self._tell("Stopped."))
        self.job.failed.connect(self._failed)
        self.job.changed.connect(self._follow)
        self.said = Said(READY)
        self.cases = chooser("Cases", "What both run: operators, and models of the zoo")
        self.start_button = push_button(
            "Compare speed…", "Compare the speed of both",
            "In turns, in each browser of this machine and in the embedded view", self.start,
        )  # fmt: skip
        self.lead(self.cases, self.start_button, self.job.stop_button("comparing"), QWidget())
        self.box.insertWidget(1, self.said)
        self.hide()

    def show_made(self, original: Path, builds: Mapping[str, Path]) -> None:
        """Offer to compare these modules; nothing is shown without any."""
        self._original, self._builds = original, builds
        self.model.set_rows([], keep=False)
        self.said.tell(READY)
        self.cases.clear()
        if builds:
            self.cases.addItems([*jobs.case_names(original), ALL])
        self.setVisible(bool(builds))
        self._follow()

    def start(self) -> None:
        """Compare on the chosen cases."""
        original, builds, chosen = self._original, dict(self._builds), self.cases.currentText()
        if original is None or not builds:
            return
        cases = jobs.case_names(original) if chosen == ALL else [chosen]
        places = jobs.places(self._host.session.workbench.page.sandbox.asked_off)
        if self._host.visits is not None and not jobs.needs_frames(original):
            places[EMBEDDED] = self._host.visits.visit
        if self.job.start(JOB, lambda _: jobs.compare_speed(original, builds, cases, places)):
            self.model.set_rows([], keep=False)
            self._tell(f"Running {len(cases)} case{'s' * (len(cases) > 1)} in {', '.join(places)}…")

    def _take(self, rows: list[Compared]) -> None:
        self.model.set_rows([*self.model.rows, *rows])

    def _tell(self, sentence: str) -> None:
        refused = self._original is not None and jobs.needs_frames(self._original)
        self.said.tell(sentence + NO_FRAMES * refused)

    def _failed(self, problem: JobProblem) -> None:
        self.said.tell(str(problem), "bad")

    def _follow(self) -> None:
        self.start_button.setEnabled(not self.job.job)
        self.cases.setEnabled(not self.job.job)
