"""Latency and memory by the sizes of the open dimensions, and the kernels tuned for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit

from nnjit_studio.analysis.profile.sizes import SizeRow, SizesProfile
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import Job, JobProblem
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import Panel, chooser, hbox, named, push_button, splitter, vbox
from nnjit_studio.ui.widgets.plots import PlotPanel, Table, pen
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.inputs.roles import BATCH, Axis, axes_of

JOB = "sizes"
TUNE_S = 60.0
"""Of all sizes together."""
SUGGESTED = 4
MOST = 8
"""Sizes at once: each is a plan of its own in the page."""
FIXED = "This model leaves no size open."
HINT = "Type sizes to run the model at, in turns, from one import: 32, 64, 128"
EMPTY = "Nothing is measured yet."
MIB = 2**20


def suggested(axis: Axis) -> str:
    """Sizes around the first guess, within the allowed range."""
    sizes = dict.fromkeys(int(axis.first * 2.0**step) for step in range(-2, 4))
    allowed = [str(n) for n in sizes if max(1, axis.low) <= n <= axis.high]
    return ", ".join(allowed[:SUGGESTED])


def parsed(words: str) -> tuple[int, ...]:
    """The sizes that were typed, ascending; empty where they are no whole numbers above 0."""
    parts = words.replace(",", " ").split()
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        return ()
    return tuple(sorted({int(part) for part in parts}))


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


COLUMNS = (
    Column("size", lambda line: line.size, numeric=True, width=52),
    Column("time", lambda line: line.row.time.ms, text.time, True, "median of runs in turns", 70,
           in_files="time ms"),
    Column("interval", lambda line: line.interval, width=130),
    Column("memory", lambda line: line.row.wasm_bytes, text.nbytes, True,
           "WebAssembly memory of a page that runs this size alone", 78, in_files="memory bytes"),
)  # fmt: skip


class SizePlot(PlotPanel):
    """A line over sizes, each value with its interval."""

    def __init__(self, title: str, unit: str, theme: Theme) -> None:
        super().__init__(title, "size", title.lower(), unit, EMPTY, theme)
        self.plot.setAccessibleDescription("The sentence above has the figures.")
        self._rows: tuple[tuple[float, float, float, float], ...] = ()
        self.bars = pg.ErrorBarItem(beam=0)
        self.line = pg.PlotDataItem(symbol="o", symbolSize=6, symbolPen=None)
        self.item.addItem(self.bars)
        self.item.addItem(self.line)
        self.item.setLimits(yMin=0)
        # The stage is low: axes are named in a line above the plot, its buttons are elsewhere.
        self.bar.setContentsMargins(0, 0, 0, 0)
        self.reset_button.hide()
        self.save_button.hide()
        self.axes = self.add_caption()
        for side in ("bottom", "left"):
            self.item.getAxis(side).showLabel(False)
        self.set_theme(theme)

    def show_rows(self, name: str, rows: tuple[tuple[float, float, float, float], ...]) -> None:
        """Show size, value, and the ends of its interval."""
        self._rows = rows
        self.label_axes(bottom=(name, ""))
        self.redraw()

    def label_axes(self, **names: tuple[str, str]) -> None:
        """Name them in the line above."""
        super().label_axes(**names)
        if hasattr(self, "axes"):  # not yet while the panel is built
            (below, _), (left, unit) = self._axis_names["bottom"], self._axis_names["left"]
            self.axes.setText(f"{left}, {unit}, by {below}")
            for side in ("bottom", "left"):
                self.item.getAxis(side).showLabel(False)

    def redraw(self) -> None:
        x, y, low, high = np.array(self._rows, dtype=np.float64).reshape(-1, 4).T
        self.show_empty(not len(x))
        self.line.setData(x, y)
        self.bars.setData(x=x, y=y, bottom=y - low, top=high - y)
        if len(x):
            self.frame(float(high.max()))

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.line.setPen(pen(theme.accent, 2.0))
        self.line.setSymbolBrush(pg.mkBrush(theme.accent))
        self.bars.setOpts(pen=pen(theme.muted, 1.4))

    def table(self) -> Table:
        return ("size", self.plot.accessibleName().lower(), "low", "high"), self._rows


class SizesView(Panel):
    """Asks for sizes of the open model and plots what they take."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._session = host.session
        self._axes: tuple[Axis, ...] = ()
        self.dimension = chooser("Dimension", "The open dimension whose sizes these are", ())
        self.dimension.currentIndexChanged.connect(self._suggest)
        self.field = named(QLineEdit(placeholderText="32, 64, 128"), "Sizes")
        self.field.returnPressed.connect(self.measure)
        self.button = push_button("Measure", "Measure these sizes", act=self.measure)
        self.tune_button = push_button(
            "Tune and measure", "Tune and measure these sizes",
            f"Tune the kernels of all these sizes for {TUNE_S:.0f} s together, and compare what is "
            "best at each of them at all, then measure; bundles for any size take the settings "
            "that were compared",
            lambda: self.measure(TUNE_S),
        )  # fmt: skip
        self.caption = caption(FIXED)
        self.latency = SizePlot("Latency", "ms", host.theme)
        self.memory = SizePlot("Memory", "MiB", host.theme)
        self.table = TablePanel("Sizes", COLUMNS, host.theme)
        self.table.filter.hide()
        self.table.view.horizontalHeader().setStretchLastSection(True)
        plots = splitter(
            Qt.Orientation.Horizontal, (self.latency, 380), (self.memory, 240), (self.table, 370)
        )
        self.latency.save_button.show()
        line = hbox(
            self.dimension, (self.field, 1), self.button, self.tune_button,
            self.latency.save_button, self.table.copy_button, margins=(10, 6, 10, 2),
        )  # fmt: skip
        vbox(line, self.caption, (plots, 1), on=self)
        self.caption.setContentsMargins(10, 0, 10, 0)
        session = host.session
        session.busy_changed.connect(lambda _: self._follow())
        session.refreshed.connect(self._tell)
        session.done.connect(self._done)
        session.problem.connect(self._failed)
        self._open()

    def measure(self, tune_s: float = 0.0) -> bool:
        """Run the model at the sizes in the field; False where that is impossible now."""
        sizes, model = parsed(self.field.text()), self._session.state.model
        if not 2 <= len(sizes) <= MOST or model is None:
            self.caption.setText(f"Type 2 to {MOST} whole numbers, such as 32, 64, 128.")
            return False
        axis = next((a for a in self._axes if a.name == self.dimension.currentData()), None)
        if axis is not None and not axis.low <= sizes[0] <= sizes[-1] <= axis.high:
            self.caption.setText(f"{axis.title} takes {axis.low} to {axis.high}: type such sizes.")
            return False
        wanted, path = {self.dimension.currentData(): sizes}, model.path
        return self._session.run(
            Job(
                JOB,
                "Measuring the model at several sizes",
                lambda bench, tell: jobs.profile_sizes_beside(bench, path, wanted, tune_s, tell),
            )
        )

    def show_result(self, found: SizesProfile | None) -> None:
        """Plot what was measured; None clears it."""
        rows, name = (found.rows, self.dimension.currentData() or "size") if found else ((), "size")
        if rows:
            name = next((n for n in rows[0].sizes if rows[0].sizes[n] != rows[-1].sizes[n]), name)
        self.latency.show_rows(name, tuple(_latency(row, name) for row in rows))
        self.memory.show_rows(name, tuple(_memory(row, name) for row in rows))
        self.table.model.set_rows([SizeLine(name, row) for row in rows], keep=False)
        if found is not None:
            threads = text.counted(found.threads, "thread")
            said = f"Sizes of {name}, run in turns from one import, on {threads}."
            self.caption.setText(" ".join((said, *found.notes)))
        else:
            self.caption.setText(HINT if self._axes else FIXED)

    def set_theme(self, theme: Theme) -> None:
        for part in (self.latency, self.memory, self.table):
            part.set_theme(theme)

    def _open(self) -> None:
        """Offer the open dimensions of the file that is open now."""
        model, survey = self._session.state.model, self._session.state.survey
        known = model is not None and survey is not None and survey.path == model.path
        self._axes = axes_of(survey) if survey is not None and known else ()
        self.dimension.clear()
        for axis in sorted(self._axes, key=lambda a: a.role == BATCH):
            self.dimension.addItem(axis.title, axis.name)
        self._suggest()
        self.show_result(None)
        self._follow()

    def _suggest(self, *_: object) -> None:
        by_name: Mapping[str, Axis] = {axis.name: axis for axis in self._axes}
        axis = by_name.get(self.dimension.currentData() or "")
        self.field.setText(suggested(axis) if axis else "")

    def _follow(self) -> None:
        free = bool(self._axes) and not self._session.busy
        for widget in (self.dimension, self.field, self.button, self.tune_button):
            widget.setEnabled(free)

    def _tell(self, changes: frozenset[str]) -> None:
        if "phase" in changes and self._session.busy == JOB:
            self.caption.setText(self._session.state.phase)

    def _failed(self, problem: JobProblem) -> None:
        if problem.job == JOB:
            self.caption.setText(str(problem))

    def _done(self, job: str, result: object) -> None:
        if job == JOB and isinstance(result, SizesProfile):
            self.show_result(result)
        elif job == "open":
            self._open()


def _latency(row: SizeRow, name: str) -> tuple[float, float, float, float]:
    return float(row.sizes[name]), row.time.ms, row.time.low, row.time.high


def _memory(row: SizeRow, name: str) -> tuple[float, float, float, float]:
    mib = row.wasm_bytes / MIB
    return float(row.sizes[name]), mib, mib, mib
