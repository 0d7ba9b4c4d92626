"""The tab Turbo: the faster form of a file, measured function by function, and compile times."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QLabel, QWidget

from nnjit_studio.foreign_wasm.inspection.cost.records import CompileCost
from nnjit_studio.foreign_wasm.inspection.cost.verdict import verdict
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.foreign_wasm.turbo.job import Turbo, TurboOptions, Work, turbo, worth_trying
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA, SCHEDULE
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.wasm import jobs
from nnjit_studio.ui.wasm.long_job import LongJob
from nnjit_studio.ui.wasm.speed import SpeedPanel
from nnjit_studio.ui.widgets.panel import chooser, ground, named, push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

COMPILE, LOOK, TURBO = "compile", "look", "turbo"
EMPTY = (
    "Turbo… re-schedules loops that hold too many vectors (the finding spills) and keeps what is "
    "measured faster; it takes minutes."
)
STOPPED = "Stopped; nothing was written."
PASSES = {SCHEDULE: "order of instructions", FMA: "fused multiply-adds"}


def _gain(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"  # noqa: RUF001


COLUMNS = (
    Column("function", lambda r: r["index"], str, True, width=70),
    Column("name", lambda r: r["name"], width=150, middle=True),
    Column("change", lambda r: r["pass"], lambda v: PASSES.get(v, v), width=170),
    Column("times as fast", lambda r: r["gain"], _gain, True, "of its loops alone, median", 96),
    Column(
        "outcome", lambda r: "kept" if r["kept"] else "left as it was", width=120,
        tone=lambda r: "good" if r["kept"] else "muted",
    ),
)  # fmt: skip


class TurboPanel(TablePanel):
    """Chooses an engine, starts the two long jobs, shows what became of each function.

    Signals
    -------
    compiled(object)
        The :class:`~nnjit_studio.foreign_wasm.inspection.cost.records.CompileCost` of the file.
    changed()
        A job began or ended.
    """

    compiled = Signal(object)
    changed = Signal()

    def __init__(self, host: Host) -> None:
        super().__init__("Turbo", COLUMNS, host.theme)
        self._host = host
        self._survey: Survey | None = None
        self.made: Turbo | None = None
        self.caption = ground(QLabel(EMPTY, wordWrap=True))
        self.caption.setContentsMargins(10, 2, 10, 6)
        self.job = LongJob(host, self)
        self.job.told.connect(self._tell)
        self.job.returned.connect(self._returned)
        self.job.stopped.connect(lambda: self.caption.setText(STOPPED))
        self.job.failed.connect(self._failed)
        self.job.changed.connect(self._follow)
        self.stop_button = self.job.stop_button("the measurement")
        self.engines = chooser("Engine that measures", "Where the file is compiled and measured")
        self.fused = named(
            QCheckBox("fuse"), "Also fuse multiply-adds",
            "Also write a module with fused multiply-adds: faster, with another rounding",
        )  # fmt: skip
        self.compile_button = push_button(
            "Compile times", "Measure compile times", "Of every function, in both tiers of the "
            "engine; a large file takes minutes", self.measure,
        )  # fmt: skip
        self.turbo_button = push_button(
            "Turbo…", "Write the faster module",
            "A faster module next to the original, with certificate and loader", self.ask,
        )  # fmt: skip
        self.lead(
            self.engines,
            self.fused,
            self.turbo_button,
            self.compile_button,
            self.stop_button,
            QWidget(),
        )
        self.box.insertWidget(1, self.caption)
        self.speed = SpeedPanel(host)
        self.speed.job.changed.connect(self._follow)
        self.box.addWidget(self.speed, 1)
        self._follow()

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        return bool(self.job.job or self.speed.job.job)

    @property
    def path(self) -> Path | None:
        """The file that is shown."""
        return self._survey.path if self._survey is not None else None

    def show_survey(self, survey: Survey) -> None:
        """Offer the jobs for a file."""
        self._survey, self.made = survey, None
        self.speed.show_made(survey.path, {})
        if not self.engines.count():
            self.engines.addItems(jobs.engine_names())
        self.model.set_rows([], keep=False)
        self.caption.setText(EMPTY)
        self._follow()

    def measure(self) -> None:
        """Measure compile times in the chosen engine."""
        survey, name, unsafe = self._survey, self.engines.currentText(), self._no_sandbox
        if survey is not None:
            self.job.start(COMPILE, lambda note: jobs.compile_times(survey, name, unsafe, note))

    def ask(self) -> None:
        """Look whether anything may gain, and have the user choose where the new module goes."""
        path, options = self.path, self._options
        if path is not None:
            self.job.start(LOOK, lambda note: (options, worth_trying(path, options, note)))

    def write(self, out: Path, options: TurboOptions, work: Work) -> None:
        """Make the faster module of what was found with these options."""
        self.model.set_rows([], keep=False)
        self.job.start(TURBO, lambda note: turbo(work.file, out, options, note, work))

    @property
    def _options(self) -> TurboOptions:
        return TurboOptions(
            fma=self.fused.isChecked(),
            target=self.engines.currentText(),
            no_sandbox=self._no_sandbox,
        )

    @property
    def _no_sandbox(self) -> bool:
        return self._host.session.workbench.page.sandbox.asked_off

    def _returned(self, result: Turbo | CompileCost | tuple[TurboOptions, Work]) -> None:
        if isinstance(result, CompileCost):
            self.caption.setText(verdict(result).replace("\n", " "))
            self.compiled.emit(result)
        elif isinstance(result, Turbo):
            self._show(result)
        elif self.path is not None:
            options, work = result
            self.caption.setText(f"Functions that may gain: {len(work.candidates):,}. {EMPTY}")
            name = f"{self.path.stem}.turbo.wasm"
            write = partial(self.write, options=options, work=work)
            self._host.saver.ask("Write the faster module", name, write)

    def _show(self, made: Turbo) -> None:
        self.made = made
        rows = made.certificate["functions"]
        self.model.set_rows(sorted(rows, key=lambda r: -(r["gain"] or 0)), keep=False)
        kept = sum(1 for row in rows if row["kept"])
        files = " and ".join(path.name for path in made.modules.values())
        self.caption.setText(
            f"{kept} of {len(rows)} functions are faster: {files} written, with the loader "
            f"{made.outputs.loader.name} that a page imports, and a certificate. {made.licence} "
            "Next: compare the speed of whole runs below."
        )
        if self.path is not None:
            self.speed.show_made(self.path, made.modules)
            self._follow()
        self._host.saver.tell_written(made.outputs.plain)

    def _tell(self, lines: list[object]) -> None:
        self.caption.setText(str(lines[-1]).strip())

    def _failed(self, problem: JobProblem) -> None:
        self.caption.setText(str(problem))

    def _follow(self) -> None:
        ready = self.path is not None and not self.busy and self.engines.count() > 0
        for widget in (self.engines, self.fused, self.compile_button, self.turbo_button):
            widget.setEnabled(ready)
        self.changed.emit()

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.speed.set_theme(theme)
