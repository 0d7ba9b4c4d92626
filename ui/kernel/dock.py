"""The kernel inspector: the texts, numbers and speed of one candidate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QTabWidget

from nnjit_studio.analysis.kernel.kernel import KernelInspection
from nnjit_studio.errors import NnjitError
from nnjit_studio.records import TuningRecord
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.records.outcomes import FASTER, TIMED, WON, shown_outcome
from nnjit_studio.tuner.events import Measured
from nnjit_studio.tuner.swap_policy import gflops_of
from nnjit_studio.ui.commands.history import History
from nnjit_studio.ui.commands.job_steps import JobSteps
from nnjit_studio.ui.dock.candidates import EXAMPLES, refusal, rules_text
from nnjit_studio.ui.kernel.inspector import Inspector
from nnjit_studio.ui.kernel.numbers import COLUMNS, number_rows
from nnjit_studio.ui.kernel.plots import KernelRoofline, SamplePlot, Samples
from nnjit_studio.ui.kernel.settings import SettingsEditor
from nnjit_studio.ui.kernel.texts import PassView, SideBySide
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import ElidedLabel
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, push_button, splitter, vbox
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench.jobs import run_kernel

EMPTY = "Select a node, a candidate or a record, then press F4 to look inside its kernel."


class KernelPanel(Panel):
    """One candidate of the selected workload: the incumbent, or the one that was asked for."""

    def __init__(self, session: StudioSession, theme: Theme, history: History) -> None:
        super().__init__()
        self._session, self._theme = session, theme
        self._steps = JobSteps("keep", session, history)
        self.kernel: KernelInspection | None = None
        self._model: object = None
        self._seen_now = False
        self._wanted = ("", "")
        self._measured: dict[tuple[str, str], Measured] = {}
        self._seen = 0
        self._records: list[TuningRecord] = []
        self._before: dict[str, str] = {}
        self._told: tuple[object, ...] = ()
        self.inspector = Inspector(session.workbench, self)
        self.inspector.found.connect(self._show)
        self.inspector.failed.connect(self._failed)
        session.records.connect(self._take_records)
        session.busy_changed.connect(lambda _: self._enable())
        session.done.connect(self._done)
        self.caption = ElidedLabel(EMPTY)
        self.editor = SettingsEditor()
        self.editor.changed.connect(self._edited)
        self.editor.refused.connect(lambda why: self._say(why, "bad"))
        self.verdict = ElidedLabel()
        self.verdict.hide()  # the caption has its room while there is none
        self.measure_button = push_button(
            "Measure",
            "Measure this kernel",
            "Check it against the float64 reference and time it in turns with the kernel that "
            "runs; a winner is kept (Ctrl+Return)",
            self.measure,
        )
        self.keep_button = push_button(
            "Keep",
            "Run the model with this kernel",
            "Run the model with this kernel, although it is not faster, until the model is tuned "
            "or opened again",
            lambda: self._keep(self._settings),
        )
        self.back_button = push_button(
            "Put back",
            "Run the previous kernel again",
            "Run the kernel that ran before this one was measured or kept",
            lambda: self._keep(self._before[self._wanted[0]]),
        )
        self.sides = SideBySide(theme)
        self.passes = PassView(theme)
        self.numbers = TablePanel("Numbers of the kernel", COLUMNS, theme)
        self.samples, self.roofline = SamplePlot(theme), KernelRoofline(theme)
        self._build()
        self._enable()

    def _build(self) -> None:
        speed = splitter(Qt.Orientation.Horizontal, (self.samples, 700), (self.roofline, 500))
        self.tabs = named(QTabWidget(documentMode=True), "Views of the kernel")
        self.tabs.addTab(self.sides, "&Side by side")
        self.tabs.addTab(self.passes, "&Passes")
        self.tabs.addTab(self.numbers, "&Numbers")
        self.tabs.addTab(speed, "Spee&d")
        buttons = (self.measure_button, self.keep_button, self.back_button)
        vbox(
            hbox((self.caption, 2), (self.verdict, 3), *buttons, margins=(8, 4, 8, 2)),
            hbox(self.editor, None, margins=(8, 4, 8, 2)),
            (self.tabs, 1),
            on=self,
        )
        measure = QShortcut(QKeySequence("Ctrl+Return"), self)
        measure.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        measure.activated.connect(self.measure)

    # What is shown

    def look(self, settings: str = "") -> None:
        """Inspect a candidate of the selected workload; the one that runs without settings."""
        key = self._session.state.selected
        if key:
            self._wanted = key, settings
            self.inspector.look(key, settings)

    def refresh(self, changes: frozenset[str]) -> None:
        if self._model is not self._session.state.model:
            self._model = self._session.state.model
            self._forget()
        self._take_events()
        if self._seen_now:
            self._follow()

    def be_seen(self, seen: bool) -> None:
        """Whether the dock is in front; behind others nothing is inspected."""
        self._seen_now = seen
        if seen:
            self._follow()

    def _follow(self) -> None:
        selected = self._session.state.selected
        if selected and selected != self._wanted[0]:
            self.look()  # another workload was selected: its kernel that runs
        else:
            self._tell()

    def _forget(self) -> None:
        self.kernel, self._wanted = None, ("", "")
        self._measured.clear()
        self._seen = self._session.events.count_all
        self._before.clear()
        self._steps.forget()
        self.caption.setText(EMPTY)
        self._say("", "muted")
        self.sides.clear()
        self.passes.clear()
        self.numbers.model.set_rows([])
        self.samples.show_samples(())
        self.roofline.show_limits(None, ())
        self._enable()

    def _take_events(self) -> None:
        events = self._session.events
        for event in events.since(self._seen):
            if isinstance(event, Measured):
                self._measured[event.workload, event.candidate] = event
        self._seen = events.count_all

    def _take_records(self, records: list[TuningRecord]) -> None:
        self._records = records
        self._tell()

    @property
    def _settings(self) -> str:
        return self.kernel.settings if self.kernel else ""

    @property
    def _incumbent(self) -> str:
        return self._incumbent_of(self._wanted[0])

    def _incumbent_of(self, key: str) -> str:
        workload = self._session.state.workloads.get(key)
        return (workload.incumbent if workload else "") or DEFAULT_SETTINGS

    def _show(self, kernel: KernelInspection) -> None:
        if kernel.workload.key != self._wanted[0]:
            return
        self.kernel = kernel
        if not self._wanted[1]:
            self._wanted = self._wanted[0], kernel.settings
        default = kernel.settings == DEFAULT_SETTINGS
        start = self._example(kernel) if default else kernel.settings
        self.editor.show_candidate(parse_candidate(start))
        self.sides.show_kernel(kernel)
        self.passes.show_kernel(kernel)
        self._told = ()
        self._tell()

    def _example(self, kernel: KernelInspection) -> str:
        """Where editing begins for the default schedule: the first of the lite space."""
        known = self._session.state.workloads[kernel.workload.key].candidates
        return (
            next((s for s in known if s != DEFAULT_SETTINGS), "")
            or EXAMPLES["WGSL" if kernel.on_gpu else "Wasm"]
        )

    def _failed(self, error: Exception) -> None:
        self._say(str(error) if isinstance(error, NnjitError) else f"It failed: {error}", "bad")

    def _tell(self) -> None:
        """Show what was measured, where that is new."""
        kernel = self.kernel
        if kernel is None:
            return
        key, settings, incumbent = kernel.workload.key, kernel.settings, self._incumbent
        measured = self._measured.get((key, settings))
        known = self._record(key, settings)
        facts = (measured, known, incumbent, self._record(key, incumbent))
        if facts == self._told:
            return
        self._told = facts
        if measured is None and known is not None:
            measured = _as_event(known)
        self.caption.setText(f"{text.workload(key)}  ({_place(kernel, settings == incumbent)})")
        self.caption.tip = f"{text.short_key(key)}\n{settings}"
        self.editor.setEnabled(kernel.workload.tunable)
        self.numbers.model.set_rows(number_rows(kernel, measured))
        sets = self._samples(key, settings)
        self.samples.show_samples(sets)
        rates = [(s.name, gflops_of(kernel.workload.flops, s.quartiles[1])) for s in sets if s.ms]
        self.roofline.show_limits(kernel.limits, rates)
        self._judge(kernel, measured)
        self._enable()

    def _judge(self, kernel: KernelInspection, measured: Measured | None) -> None:
        broken = [v for v in kernel.verdicts if not v.ok]
        if kernel.error:
            self._say(kernel.error, "bad")
        elif measured is not None and measured.state:
            rate = f"{measured.gflops:.1f} GFLOP/s, " if measured.gflops else ""
            tone = "good" if measured.state in (WON, FASTER) else "text"
            tone = tone if measured.state in TIMED else "bad"
            self._say(f"{rate}{shown_outcome(measured.state)}: {measured.reason}", tone)
        elif broken:
            self._say(f"Compiled; outside the lite space. {rules_text(broken)}", "warn")
        else:
            self._say("Compiled; not measured yet.", "muted")

    def _record(self, key: str, settings: str) -> TuningRecord | None:
        """The newest record with samples of a kernel of this tier."""
        tier = self.kernel.tier if self.kernel else ""
        return next(
            (
                r
                for r in self._records
                if (r.workload, r.settings, r.key.tier) == (key, settings, tier) and r.samples_ms
            ),
            None,
        )

    def _samples(self, key: str, settings: str) -> Sequence[Samples]:
        found = self._measured.get((key, settings))
        if found is not None and found.samples_ms:
            now = "taken in this session, in turns: C I I C"
            clock = f", GPU clock: {found.gpu_clock}" if found.gpu_clock else ""
            return (
                Samples("this one", found.samples_ms, now + clock),
                Samples("incumbent then", found.incumbent_ms, now + clock),
            )
        sets = []
        for name, which in (("this one", settings), ("incumbent", self._incumbent)):
            record = self._record(key, which)
            if record is not None and (name == "this one" or which != settings):
                when = f"from the database, {record.created[:19].replace('T', ' ')} UTC"
                sets.append(Samples(name, record.samples_ms, f"{when}, {record.key.target}"))
        return sets

    # What the user does

    def _edited(self, settings: str) -> None:
        self._say("Compiling", "muted")
        self.look(settings)

    def measure(self) -> None:
        """Have the shown candidate measured, at once or as the next of the running session."""
        if not self.editor.tell():
            return
        settings = self._wanted[1]
        if self.kernel is None or not settings or settings == DEFAULT_SETTINGS:
            return self._say("The default schedule is the baseline: change a setting.", "warn")
        self._before[self._wanted[0]] = self._incumbent
        if self._session.try_candidate(settings):
            self._say("Measuring", "muted")
            self.tabs.setCurrentIndex(self.tabs.count() - 1)
        else:
            self._say(refusal(self._session.busy), "bad")

    def _keep(self, settings: str) -> None:
        """Run the model with this kernel; Ctrl+Z has the one of before again."""
        workload, before = self._wanted[0], self._incumbent
        self._steps.do(
            f"The model runs with {settings}",
            partial(self._run, workload, settings),
            partial(self._run, workload, before),
        )

    def _run(self, workload: str, settings: str) -> bool:
        before = self._incumbent_of(workload)
        job = Job(
            "keep",
            f"Registering {settings}",
            lambda bench, _: bench.run(run_kernel, workload, settings),
        )
        begun = self._session.run(job)
        if begun:
            self._before[workload] = before
        return begun

    def _done(self, job: str, result: object) -> None:
        if job == "backend":
            self._forget()
            self.be_seen(self._seen_now)
        if job == "tune":
            self._steps.forget()  # its winners run now: what ran before Keep was slower
        if job in ("try", "keep"):
            self._take_events()
            self._tell()

    def _enable(self) -> None:
        busy, kernel = self._session.busy, self.kernel
        usable = kernel is not None and not kernel.error
        default, here = self._settings == DEFAULT_SETTINGS, self._settings == self._incumbent
        self.editor.setVisible(kernel is not None and kernel.workload.tunable)
        self.measure_button.setEnabled(usable and not default and busy in ("", "tune"))
        idle = usable and not busy
        self.keep_button.setEnabled(idle and not here and self._state() in TIMED)
        before = self._before.get(self._wanted[0], "")
        self.back_button.setEnabled(idle and before not in ("", self._incumbent))

    def _state(self) -> str:
        """What became of the shown candidate, empty while that is not known."""
        if self.kernel is None or self.kernel.settings == DEFAULT_SETTINGS:
            return "default"
        place = self.kernel.workload.key, self.kernel.settings
        measured = self._measured.get(place) or self._record(*place)
        return measured.state if measured else ""

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for view in (self.sides, self.passes, self.samples, self.roofline, self.numbers):
            view.set_theme(theme)
        self._told = ()
        self._tell()

    def _say(self, words: str, tone: str) -> None:
        self.verdict.setText(words)
        self.verdict.setVisible(bool(words))
        self.verdict.setStyleSheet(f"color: {getattr(self._theme, tone)}")


def _place(kernel: KernelInspection, runs: bool) -> str:
    if kernel.settings == DEFAULT_SETTINGS:
        return "the default schedule" + (", runs now" if runs else "")
    return "runs now" if runs else "in the lite space" if kernel.in_space else "not in the space"


def _as_event(record: TuningRecord) -> Measured:
    reason = record.error or "known from the database"
    return Measured(
        0.0, record.workload, record.settings, record.state, reason, record.gflops,
        record.median_ms, record.samples_ms, gpu_clock=record.gpu_clock,
        pipeline_ms=record.pipeline_ms,
    )  # fmt: skip
