"""“Make it faster”: every change that was measured, the best first, with one click to apply it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QDoubleValidator, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHeaderView, QLabel, QLineEdit, QPushButton, QSizePolicy

from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.records import (
    IMPOSSIBLE,
    MAX_ERROR,
    Advice,
    Row,
    on_clock_in_use,
    on_one_clock,
    stopped,
)
from nnjit_studio.advice.text import headline, smallest, so_far
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.ui.advice.applied import feeds_of, file_of
from nnjit_studio.ui.advice.bars import TimeBars
from nnjit_studio.ui.advice.buttons import RowButtons
from nnjit_studio.ui.advice.cells import LOW, TALL, TwoLines, too_tall
from nnjit_studio.ui.advice.in_use import ALL_BACK, InUseStrip
from nnjit_studio.ui.advice.lines import (
    ANYWAY,
    APPLY,
    BLOCKED,
    CHANGE,
    COLUMNS,
    COSINE,
    IN_FILES,
    PUT_BACK,
    TIME,
    VERDICT,
    Line,
    gain_alone,
    gain_words,
    judged,
    lines_of,
    title_alone,
)
from nnjit_studio.ui.advice.measuring import SetMeasuring
from nnjit_studio.ui.commands.job_steps import JobSteps
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import JobTable
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import named, push_button
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.advice_forms import Plain
from nnjit_studio.workbench.jobs.page_form import PageForm

JOB = "advise"
EMPTY = (
    "Nothing measured yet: “Make it faster” measures other forms of the model, each in turns with "
    "the one that runs now."
)
NO_PAGE = "This window opens no pages of its own, which advice needs."
PRESSES = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
"""Keys on a row that do what its button says."""
NARROW = 1080
"""Pixels of the list below which the column of cosines is hidden."""
FOLDER = "advice"
"""Beside the database: files that rows made."""


class AdvicePanel(JobTable):
    """A list of advice, live while it is measured; rows that the guard refuses ask twice."""

    result: Advice | None

    def __init__(self, host: Host) -> None:
        self._host, self._armed = host, ""
        self.in_use: list[str] = []
        self._before: list[str] = []
        self._first: PageForm | None = None
        self._plain: Plain | None = None
        self._feeds: Feeds = {}
        self._reopens = self._low = False
        self._as_it_was: Verdict | None = None
        super().__init__(host, "Make it faster", COLUMNS, JOB, EMPTY)
        self.keep_order(self._pick)
        self._row_buttons = RowButtons(self.view, self.act)
        self._dress_cells(host.theme)
        self.limit = named(
            QLineEdit(f"{MAX_ERROR:g}"), "Error limit",
            "Largest error of an output over its largest value; what is beyond it asks twice",
        )  # fmt: skip
        self.limit.setValidator(QDoubleValidator(1e-9, 1e3, 9))
        self.limit.setFixedWidth(70)
        self.limit.editingFinished.connect(self._judge_again)
        inputs = push_button(
            "Inputs…", "Inputs of the model", "Errors are those of the model's inputs: give yours",
            host.actions["feed"].trigger,
        )  # fmt: skip
        for place, widget in enumerate((inputs, QLabel("Error limit"), self.limit), start=2):
            self.bar.insertWidget(place, widget)
        self.measuring = SetMeasuring(self, host.session, host.visits)
        self.strip = InUseStrip(lambda: self._change(ALL_BACK, []), self.measuring.again)
        self.measuring.changed.connect(self.fill)
        self.box.insertWidget(self.box.indexOf(self.view), self.strip)
        self.detail = quiet(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText))
        self.detail.setContentsMargins(10, 4, 10, 6)
        self.detail.hide()
        self.box.addWidget(self.detail)
        self.picked.connect(self._explain)
        host.session.advice_told.connect(self._follow_job)
        host.session.busy_changed.connect(lambda _: self._enable())
        host.session.problem.connect(lambda problem: self._failed(problem.job))
        self._steps = JobSteps("open", host.session, host.history)
        host.verdict_shown.connect(self._take_verdict)
        self._take_verdict(host.verdict)

    @property
    def buttons(self) -> Mapping[str, QPushButton]:
        """Of the rows, by their names."""
        return self._row_buttons.by_name

    def _dress_cells(self, theme: Theme) -> None:
        """Two lines in a row; the change has the room that other columns leave."""
        view, header = self.view, self.view.horizontalHeader()
        view.verticalHeader().setDefaultSectionSize(TALL)
        self.bars = TimeBars(view, theme, self.row_at)
        self.changes = TwoLines(view, theme, self.row_at, lambda line: line.note, title_alone)
        self.verdicts = TwoLines(view, theme, self.row_at, gain_words, gain_alone)
        for at, delegate in ((TIME, self.bars), (CHANGE, self.changes), (VERDICT, self.verdicts)):
            view.setItemDelegateForColumn(at, delegate)
        view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        for column in IN_FILES:
            view.setColumnHidden(column, True)
        header.setStretchLastSection(False)
        header.setSectionResizeMode(CHANGE, QHeaderView.ResizeMode.Stretch)
        for watched in (view, view.viewport()):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            QTimer.singleShot(0, self, self._fit_rows)
        if not isinstance(event, QKeyEvent) or event.key() not in PRESSES:
            return False
        if event.type() != QEvent.Type.KeyPress:
            return False
        if not event.isAutoRepeat():  # what is refused asks twice
            self._press_selected()
        return True

    def _fit_rows(self) -> None:
        """One line in a row where rows of two would leave too few in sight."""
        low = too_tall(len(self.model.rows), self.view.viewport().height())
        if low == self._low:
            return
        self._low = self.changes.low = self.verdicts.low = low
        self.view.verticalHeader().setDefaultSectionSize(LOW if low else TALL)
        self._put_buttons()

    def _put_buttons(self) -> None:
        best = self.result.best if self.result else None
        self._row_buttons.put(self.model.rows, best.name if best else "", self._low)
        self._row_buttons.reach(self._chosen())
        self._enable()

    def _press_selected(self) -> None:
        """What the button of the selected row does."""
        for index in self.view.selectionModel().selectedRows():
            button = self.buttons.get(self.row_at(index).name)
            if button is not None:
                button.click()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Where titles would have no room, the cosine is left to copies and files."""
        super().resizeEvent(event)
        self.view.setColumnHidden(COSINE, event.size().width() < NARROW)

    @property
    def threshold(self) -> float:
        """The error limit of the field."""
        try:
            return float(self.limit.text().replace(",", ".")) or MAX_ERROR
        except ValueError:
            return MAX_ERROR

    def measure(self) -> bool:
        """Measure everything; False when another job runs or no page can be opened."""
        visits = self._host.visits
        if visits is None:
            self._host.message.say(NO_PAGE, "bad")
            return False
        options = AdviceOptions(max_error=self.threshold)
        phase = "Measuring what makes the model faster"
        return self._session.run(
            Job(JOB, phase, lambda bench, tell: bench.run(jobs.advise, visits, options, tell))
        )

    # Showing

    def fill(self) -> None:
        advice = self.result
        lines: list[Line] = []
        if advice is not None:
            shown = on_one_clock(advice, self._as_it_was)
            shown = on_clock_in_use(shown, self.in_use, self.measuring.together)
            lines = list(lines_of(shown, self.in_use, self._armed))
        known = [line.measured.ms.high for line in lines if line.measured]
        self.bars.longest_ms = max(known, default=0.0)
        chosen = self._chosen()
        self.model.set_rows(lines)
        if chosen != self._chosen() and not self.select_row(lambda line: line.name == chosen):
            self.view.clearSelection()  # Enter would do something to a row that nobody chose
        self._fit_rows()
        self._put_buttons()
        self._span_reasons(lines)
        self._tell_use()

    def _chosen(self) -> str:
        """The name of the selected row, empty for none."""
        rows = self.view.selectionModel().selectedRows()
        return self.row_at(rows[0]).name if rows else ""

    def _span_reasons(self, lines: list[Line]) -> None:
        """A row without figures has their room for its reason."""
        self.view.clearSpans()
        for place, line in enumerate(lines):
            if line.row is not None and line.row.state == IMPOSSIBLE:
                self.view.setSpan(place, CHANGE, 1, TIME - CHANGE + 1)

    def _tell_use(self) -> None:
        """Name the file that is open, and the rows that made it what it is; also in the header."""
        advice, model = self.result, self._session.state.model
        used, set_ = self._used(advice) if advice else [], self.measuring
        if model is not None:
            self.strip.show_set(advice, used, model.path, set_.together, set_.waits)
        self._session.state.set_applied([row.title for row in used])
        self._session.refresh()

    def _used(self, advice: Advice) -> list[Row]:
        return [row for name in self.in_use for row in [advice.row(name)] if row is not None]

    def refresh(self, changes: frozenset[str]) -> None:
        """While it is measured: what helps most so far, and what is being done."""
        if self.result is None:
            super().refresh(changes)
        elif "phase" in changes and self._session.busy == JOB:
            self._tell()

    def sentence(self) -> str:
        assert self.result is not None
        armed = self.result.row(self._armed)
        if armed is not None:
            return f"{armed.refusal} Press “{ANYWAY}” if you accept that."
        if self._session.busy == JOB:
            return f"{so_far(self.result)}{self._session.state.phase}"
        said = headline(self.result).split(", --apply")[0].rstrip(".") + "."
        return said if self.result.best else f"{said} {smallest(self.result, titled=True)}".rstrip()

    def _explain(self, line: Line) -> None:
        """What is to be known of the row that was clicked, whole; its title stands in the row."""
        self._row_buttons.reach(line.name)
        self.detail.setText(line.note)
        self.detail.setVisible(line.row is not None and bool(line.note))

    def _enable(self) -> None:
        busy = self._session.busy
        self._row_buttons.enable(busy in ("", JOB))
        for button in (self.strip.back_button, self.strip.measure_button):
            button.setEnabled(not busy)

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        for delegate in (self.bars, self.changes, self.verdicts):
            delegate.theme = theme

    def _follow_job(self, advice: Advice) -> None:
        if not self.in_use and not self._reopens:
            bench = self._session.workbench
            self._first, opened = PageForm.of(bench.page), bench.model.opened
            self._feeds = dict(bench.model.feeds)
            if opened is not None and opened.importing is not None:
                self._plain = Plain(
                    Path(advice.path), opened.importing, self._first.threads, self._feeds
                )
        if self.result is None or self.result.created != advice.created:
            self._armed = ""
        self.show_result(advice)

    def _judge_again(self) -> None:
        """The limit is another one: what was measured stays, what the guard says may not."""
        advice, limit = self.result, self.threshold
        if advice is None or advice.threshold == limit or self._session.busy == JOB:
            return
        rows = tuple(judged(row, limit) for row in advice.rows)
        self._armed = ""
        self.show_result(replace(advice, rows=rows, threshold=limit))

    def _take_verdict(self, verdict: Verdict | None) -> None:
        """The untouched model has one time in the window: that of the verdict, where it has one."""
        own = verdict.own if verdict else None
        ms = own.ms if own else None
        if self.in_use and not self._reopens:
            self.measuring.own = ms
            self.fill()
        if ms is None or self.in_use or self._reopens or self.outdated:
            return
        self._as_it_was = verdict
        self.fill()

    # Applying

    def act(self, name: str) -> None:
        """What the button of a row says; a list that is still measured ends for it."""
        button, advice = self.buttons.get(name), self.result
        if button is None or advice is None:
            return
        self.select_row(lambda line: line.name == name)
        text = button.text()
        if text == BLOCKED:
            self._armed = name
            self.show_result(advice)
            return
        if self._session.after(JOB, lambda: self.act(name)):
            self._session.cancel()
            return
        self._armed = ""
        title = next(line.title for line in self.model.rows if line.name == name)
        if text in (APPLY, ANYWAY):
            self._change(f"Applied: {title}", [*self.in_use, name])
        elif text == PUT_BACK:
            self._change(f"Put back: {title}", [used for used in self.in_use if used != name])

    def _change(self, done: str, names: list[str]) -> None:
        """Have these rows in use; Ctrl+Z has those of before again."""
        before = list(self.in_use)
        self._steps.do(done, lambda: self._open(names), lambda: self._open(before))

    def _open(self, names: list[str]) -> bool:
        """Open the model again with these rows alone applied; whether that could begin."""
        session, advice, first = self._session, self.result, self._first
        if advice is None or first is None or self._reopens:
            return False
        rows = [row for name in names for row in [advice.row(name)] if row is not None]
        form = first.with_applied([row.apply for row in rows], session.workbench.page.webgpu())
        self._host.message.hide()
        folder = session.workbench.database.path.parent / FOLDER
        path, recipe = file_of(Path(advice.path), rows, folder)
        made = None if recipe is None or recipe.name in self.in_use else recipe
        self._before, self.in_use = self.in_use, names
        self._reopens = session.open_form(path, form, feeds_of(self._feeds, rows), made)
        if not self._reopens:
            self.in_use = self._before
        return self._reopens

    def _done(self, job: str, result: object) -> None:
        if job == "open" and self._reopens:
            self._reopens = False
            if self.result is not None:
                self._measure_set(self.result)
                self.show_result(self.result)
            return
        if job == "feed":
            self._feeds = dict(self._session.workbench.model.feeds)
        if job == "open":
            self.in_use, self._armed, self._as_it_was = [], "", None
            self.measuring.drop()
            self._steps.forget()
        # The job returns nothing: the last list that it told is its result.
        super()._done(job, self.result if job == JOB else result)

    def _measure_set(self, advice: Advice) -> None:
        """What rows are worth together is no product of what each is worth alone."""
        used = self._used(advice)
        if not used or self._plain is None:
            self.measuring.drop()
            return
        title = ", ".join(row.title for row in used)
        self.measuring.want(self._plain, title, AdviceOptions(max_error=self.threshold))

    def _failed(self, job: str) -> None:
        if job == JOB and self.result is not None and self.result.phase:
            self.show_result(stopped(self.result))
        if job == "open" and self._reopens:
            self._reopens, self.in_use = False, self._before
            if self.result is not None:
                self.show_result(self.result)
