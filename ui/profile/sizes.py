"""Latency and memory by the sizes of the open dimensions, and the kernels tuned for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QCheckBox, QLineEdit, QWidget

from nnjit_studio.analysis.profile.sizes import SizeRow, SizesProfile
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.profile.size_plot import Point, SizePlot
from nnjit_studio.ui.state.jobs import Job, JobProblem, reader
from nnjit_studio.ui.state.open_sizes import open_axes, words_of
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import Panel, chooser, hbox, named, push_button, splitter, vbox
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.inputs.histogram import Histogram, read_histogram, runs_at, typical
from nnjit_studio.workbench.inputs.roles import Axis, most_varied
from nnjit_studio.workbench.jobs.sizes import SizesEffort

JOB = "sizes"
TUNE_S = 60.0
"""Of all sizes together."""
SUGGESTED = 4
MOST = 8
"""Sizes at once: each is a plan of its own in the page."""
WIDE, NARROW = 1200, 720
"""Pixels of the view from which the plot of memory has room, and those below which buttons and
fields have a line each."""
TABLE, MEMORY = 645, 190
"""Pixels of all columns of the table, and of the plot of memory."""
FIXED = "This model leaves no size open."
HINT = "The model runs at these sizes in turns, from one import. Type others, such as 32, 64, 128."
MIB = 2**20


def suggested(axis: Axis) -> str:
    """Sizes around the first guess, within the allowed range."""
    sizes = dict.fromkeys(int(axis.first * 2.0**step) for step in range(-2, 4))
    allowed = [str(n) for n in sizes if max(1, axis.low) <= n <= axis.high]
    return ", ".join(allowed[:SUGGESTED])


def parsed(words: str, runs: str = "") -> dict[int, float]:
    """How often each size that was typed runs, ascending by size, all as often without ``runs``;
    empty where they are no whole numbers above 0, or the runs are not as many."""
    parts = words.replace(",", " ").split()
    often = runs.replace(",", " ").split() or ["1"] * len(parts)
    if len(often) != len(parts) or not all(part.isdecimal() and int(part) > 0 for part in parts):
        return {}
    found: dict[int, float] = {}
    for size, count in sorted(zip(map(int, parts), often, strict=True)):
        try:
            found[size] = found.get(size, 0.0) + float(count)
        except ValueError:
            return {}
    counts = found.values()
    return found if all(0 <= n < math.inf for n in counts) and any(counts) else {}


@dataclass(frozen=True)
class SizeLine:
    """A measured size as a line of the table."""

    name: str
    """Of the dimension."""
    row: SizeRow

    @property
    def size(self) -> int:
        return self.row.sizes[self.name]

    @property
    def interval(self) -> str:
        return f"{text.time(self.row.time.low)} to {text.time(self.row.time.high)}"

    @property
    def alone(self) -> str:
        """How many times as fast a bundle for this size alone is, with its interval."""
        found = self.row.alone
        if found is None:
            return text.NONE
        ends = f"{found.low:.2f} to {found.high:.2f}"
        return f"not told apart, {ends}" if found.holds_1 else f"{found.median:.2f}x, {ends}"


COLUMNS = (
    Column("size", lambda line: line.size, numeric=True, width=52),
    Column("time", lambda line: line.row.time.ms, text.time, True, "median of runs in turns", 70,
           in_files="time ms"),
    Column("interval", lambda line: line.interval, width=130),
    Column("memory", lambda line: line.row.wasm_bytes, text.nbytes, True,
           "WebAssembly memory of a page that runs this size alone", 78, in_files="memory bytes"),
    Column("runs %", lambda line: _percent(line.row.share), lambda n: text.fixed(n, 1), True,
           "how often this size comes", 54),
    Column("tuned", lambda line: f"{line.row.tuned} of {line.row.tunable}", width=64,
           tip="kernels whose settings were measured at this size"),
    Column("one size alone", lambda line: line.alone, width=170,
           tip="how many times as fast a bundle for this size alone is, in turns"),
)  # fmt: skip


ALWAYS = 4
"""Columns that every result has; each of the others is left out while nothing is known of it."""


class SizesView(Panel):
    """Asks for sizes of the open model and plots what they take."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host, self._session = host, host.session
        self._axes: tuple[Axis, ...] = ()
        self._recorded: Histogram = {}
        self._filled = ""
        self._ask()
        self.caption = caption(FIXED)
        self.latency = SizePlot("Latency", "ms", host.theme)
        self.memory = SizePlot("Memory", "MiB", host.theme)
        self.table = TablePanel("Sizes", COLUMNS, host.theme)
        self.table.filter.hide()
        self.table.view.horizontalHeader().setStretchLastSection(True)
        parts = ((self.latency, 1), (self.memory, 1), (self.table, 1))
        self._plots = splitter(Qt.Orientation.Horizontal, *parts)
        self.latency.save_button.show()
        self._line = hbox(
            self.dimension, (self.field, 3), (self.runs, 2), margins=(10, 6, 10, 2),
        )  # fmt: skip
        self._second = hbox(margins=(10, 2, 10, 2))
        told = hbox(
            (self.caption, 1), self.alone, self.latency.save_button, self.table.copy_button,
            margins=(10, 0, 10, 0),
        )  # fmt: skip
        vbox(self._line, self._second, told, (self._plots, 1), on=self)
        self._fit(WIDE)
        self._files = reader(self, self._record, self._refuse)
        session = host.session
        session.busy_changed.connect(lambda _: self._follow())
        session.refreshed.connect(self._tell)
        session.done.connect(self._done)
        session.problem.connect(self._failed)
        self._open()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit(event.size().width())

    def _fit(self, width: int) -> None:
        """Leave the plot of memory, which the table has too, to wide views; in a narrow one the
        buttons have a line of their own, so that the fields have room."""
        self.memory.setVisible(width >= WIDE)
        line = self._line if width >= NARROW else self._second
        if line.indexOf(self.button) < 0:
            for button in (self.files_button, self.button, self.tune_button):
                line.addWidget(button)
        memory = MEMORY if width >= WIDE else 0
        curve = max(width - TABLE - memory, width // 3)
        self._plots.setSizes([curve, memory, width - curve - memory])

    def _ask(self) -> None:
        """Make the fields and buttons."""
        self.dimension = chooser("Dimension", "The open dimension whose sizes these are", ())
        self.dimension.currentIndexChanged.connect(self._suggest)
        self.field = named(QLineEdit(placeholderText="32, 64, 128"), "Sizes")
        self.runs = named(
            QLineEdit(placeholderText="runs: all as often"), "How often each size runs",
            "How often each size runs, in their order: 5, 3, 1. Tuning weighs sizes by it.",
        )  # fmt: skip
        self.field.textChanged.connect(lambda _: self._share_out())
        self.runs.textChanged.connect(lambda _: self._draw_runs())
        for field in (self.field, self.runs):
            field.returnPressed.connect(self.measure)
        self.files_button = push_button(
            "From files…", "How often sizes come, from files",
            "Lengths, one a line; texts, whose tokens count, by the tokenizer.json next to the "
            "model; or recorded inputs as .npz, each file one run", self._choose_files,
        )  # fmt: skip
        self.alone = named(
            QCheckBox("One-size bundles"), "Compare with bundles for one size",
            "Then also make a bundle for each size alone, and run it in turns with this import's "
            "program: the most that giving up other sizes is worth",
        )  # fmt: skip
        self.button = push_button("Measure", "Measure these sizes", act=self.measure)
        self.tune_button = push_button(
            "Tune and measure", "Tune and measure these sizes",
            f"Tune the kernels of all these sizes for {TUNE_S:.0f} s together, and compare what is "
            "best at each of them at all, then measure; bundles for any size take the settings "
            "that were compared",
            lambda: self.measure(TUNE_S),
        )  # fmt: skip

    @property
    def _axis(self) -> Axis | None:
        return next((a for a in self._axes if a.name == self.dimension.currentData()), None)

    @property
    def _counts(self) -> Histogram:
        """What was recorded, until other runs are typed in its place."""
        return self._recorded if self.runs.text() == self._filled else {}

    def measure(self, tune_s: float = 0.0) -> bool:
        """Run the model at the sizes in the field; False where that is impossible now."""
        asked, model = parsed(self.field.text(), self.runs.text()), self._session.state.model
        sizes, axis = tuple(asked), self._axis
        if parsed(self.field.text()) and not asked:
            self._say("Type one number of runs for each size, such as 5, 3, 1.", self.runs)
            return False
        if not 2 <= len(sizes) <= MOST or model is None or axis is None:
            self._say(f"Type 2 to {MOST} whole numbers, such as 32, 64, 128.", self.field)
            return False
        if not axis.low <= sizes[0] <= sizes[-1] <= axis.high:
            self._say(
                f"Sizes of {words_of(axis)} are from {axis.low:,} to {axis.high:,}.", self.field
            )
            return False
        wanted, path = {axis.name: sizes}, model.path
        shares = tuple(asked.values()) if self.runs.text().strip() else ()
        effort = SizesEffort(tune_s, shares, self._host.visits if self.alone.isChecked() else None)
        return self._session.run(
            Job(
                JOB,
                "Measuring the model at several sizes",
                lambda bench, tell: jobs.profile_sizes_beside(bench, path, wanted, effort, tell),
            )
        )

    def show_result(self, found: SizesProfile | None) -> None:
        """Plot what was measured; None clears it."""
        rows, name = (found.rows, self.dimension.currentData() or "size") if found else ((), "size")
        if rows:
            name = next((n for n in rows[0].sizes if rows[0].sizes[n] != rows[-1].sizes[n]), name)
        axis = next((a for a in self._axes if a.name == name), None)
        role = axis.role if axis else name
        self.latency.show_points(role, [_latency(row, name) for row in rows])
        self.memory.show_points(role, [_memory(row, name) for row in rows])
        known = (
            *(True for _ in COLUMNS[:ALWAYS]), any(row.share is not None for row in rows),
            any(row.tunable for row in rows), any(row.alone for row in rows),
        )  # fmt: skip
        self.table.set_columns(list(compress(COLUMNS, known)))
        self.table.model.set_rows([SizeLine(name, row) for row in rows], keep=False)
        if found is not None:
            threads = text.counted(found.threads, "thread")
            of = words_of(axis) if axis else name
            said = [
                f"{of[:1].upper()}{of[1:]} at {text.counted(len(rows), 'size')}, in turns from one "
                f"import, on {threads}."
            ]
            if found.mean_ms is not None:
                said.append(f"A run takes {text.time(found.mean_ms)} on average.")
            self._say(" ".join((*said, *found.notes)))
        else:
            self._say(HINT if self._axes else FIXED)

    def set_theme(self, theme: Theme) -> None:
        for part in (self.latency, self.memory, self.table):
            part.set_theme(theme)

    def _open(self) -> None:
        """Offer the open dimensions of the file that is open now."""
        self._axes = open_axes(self._session.state)
        self.dimension.clear()
        for axis in most_varied(self._axes):
            self.dimension.addItem(axis.title, axis.name)
        self._suggest()
        self.show_result(None)
        self._follow()

    def _suggest(self, *_: object) -> None:
        self._recorded = {}
        _write(self.runs, "")
        _write(self.field, suggested(self._axis) if self._axis else "")

    def _choose_files(self) -> None:
        """Have the user name files that tell how often sizes come."""
        model = self._session.state.model
        if model is not None:
            dialogs.ask_files(self, dialogs.RUNS, model.path.parent, self.read_files)

    def read_files(self, paths: Sequence[Path]) -> None:
        """Take sizes and how often they come from files."""
        survey, axis = self._session.state.survey, self._axis
        if survey is not None and axis is not None:
            self._files.start(JOB, lambda _: (axis, read_histogram(paths, survey, axis.name)))

    def _record(self, read: tuple[Axis, Histogram]) -> None:
        axis, found = read
        kept = {size: runs for size, runs in found.items() if axis.low <= size <= axis.high}
        if axis != self._axis:
            return  # another dimension was chosen meanwhile
        if len(kept) < 2:
            self._say(
                f"Fewer than two sizes lie between {axis.low} and {axis.high}: choose more files."
            )
            return
        self._recorded, self._filled = kept, self.runs.text()
        few = typical(kept)
        _write(self.field, ", ".join(map(str, few if len(few) > 1 else (min(kept), max(kept)))))
        self._share_out()
        left = sum(found.values()) - sum(kept.values())
        said = [
            f"{text.counted(round(sum(kept.values())), 'run')} of {min(kept)} to {max(kept)}; "
            "a few sizes stand for all, each for those that are nearest."
        ]
        if left:
            said.append(f"{left:.0f} more are outside {axis.low} to {axis.high}.")
        self._say(" ".join(said))

    def _share_out(self) -> None:
        """Say how often the sizes in the field run, of those that were recorded."""
        sizes = self.field.text().replace(",", " ").split()
        if self._counts and parsed(self.field.text()):
            runs = runs_at(self._counts, [int(size) for size in sizes])
            self._filled = ", ".join(f"{n:g}" for n in runs)
            _write(self.runs, self._filled)
        self._draw_runs()

    def _draw_runs(self) -> None:
        typed = parsed(self.field.text(), self.runs.text()) if self.runs.text().strip() else {}
        self.latency.show_runs(self._counts or typed)

    def _follow(self) -> None:
        free = bool(self._axes) and not self._session.busy
        for widget in (
            self.dimension, self.field, self.runs, self.files_button, self.button, self.tune_button,
        ):  # fmt: skip
            widget.setEnabled(free)
        self.alone.setEnabled(free and self._host.visits is not None)

    def _tell(self, changes: frozenset[str]) -> None:
        if "phase" in changes and self._session.busy == JOB:
            self._say(self._session.state.phase)

    def _say(self, words: str, wrong: QWidget | None = None) -> None:
        """Put a sentence above the plots, in red where something is ``wrong``."""
        self.caption.setText(words)
        for widget in (self.field, self.runs):
            widget.setProperty("wrong", widget is wrong)
            widget.style().polish(widget)
        name = "muted" if wrong is None else "bad"
        if self.caption.objectName() != name:
            self.caption.setObjectName(name)
            self.caption.style().polish(self.caption)

    def _refuse(self, problem: JobProblem) -> None:
        self._say(str(problem), self.caption)

    def _failed(self, problem: JobProblem) -> None:
        if problem.job == JOB:
            self._refuse(problem)

    def _done(self, job: str, result: object) -> None:
        if job == JOB and isinstance(result, SizesProfile):
            self.show_result(result)
        elif job == "open":
            self._open()


def _write(field: QLineEdit, words: str) -> None:
    """Put words into a field, so that Ctrl+Z takes them back."""
    if field.text() != words:
        field.selectAll()
        field.insert(words)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _latency(row: SizeRow, name: str) -> Point:
    tuned = bool(row.tuned or not row.tunable)
    time = row.time
    return Point(row.sizes[name], time.ms, time.low, time.high, row.alone_ms, tuned)


def _memory(row: SizeRow, name: str) -> Point:
    mib = row.wasm_bytes / MIB
    return Point(row.sizes[name], mib, mib, mib)
