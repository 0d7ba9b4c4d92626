"""The tab Live: kernels of ONNX Runtime Web exchanged in its own session, in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QFrame, QLabel, QSpinBox, QWidget

from nnjit_studio.support.processes import usable_cores
from nnjit_studio.tuner.events import Event
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.candidates import state_column
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.rates_plot import Items, RatesPlot
from nnjit_studio.ui.state.jobs import JobProblem, reader
from nnjit_studio.ui.state.rounds import Rounds
from nnjit_studio.ui.wasm import jobs
from nnjit_studio.ui.wasm.live_state import LiveState
from nnjit_studio.ui.wasm.long_job import LongJob
from nnjit_studio.ui.wasm.said import Said
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import (
    Panel,
    chooser,
    ground,
    hbox,
    inset,
    named,
    push_button,
    scaled_font,
    scrolled,
    splitter,
    vbox,
)
from nnjit_studio.ui.widgets.plots.panel import pen
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme, series_style

JOB = "live"
LOOKING = "Looking for kernels that can be exchanged…"
NO_MODEL = "No model chosen"
LOWEST = 200
"""Pixels of plot and table; where there are fewer, the tab scrolls."""
READY = "{count} kernels of {name} can be exchanged while it serves a model."
CHOOSE = " Choose the model."


def _shape(place: int) -> Any:
    return lambda row: row.shape[place] if row.shape else None


def _rate(value: float | None) -> str:
    return "" if value is None else text.fixed(value, 1)


def _own(value: int | None) -> str:
    return "own" if value is None else str(value)


COLUMNS = (
    state_column(116, "incumbent: the kernels that serve now; proven: they give the same results"),
    Column("rows", _shape(0), _own, True, "of the tile; own: ONNX Runtime's kernels", 50),
    Column("columns", _shape(1), lambda v: "" if v is None else str(v), True, "of the tile", 66),
    Column("unroll", _shape(2), lambda v: "" if v is None else str(v), True,
           "of the reduction", 54),
    Column("alone", lambda r: r.alone, _rate, True,
           "GFLOP/s of the model's products on memory of their own", 58, in_files="alone GFLOP/s"),
    Column("GFLOP/s", lambda r: r.gflops, _rate, True,
           "of ONNX Runtime's whole inferences, in its heats", 66),
    Column("speed-up", lambda r: r.speedup, lambda v: "" if v is None else f"{v:.3f}", True,
           "of whole inferences, in turns", 78),
    Column("interval", lambda r: None if r.low is None else f"{r.low:.3f} to {r.high:.3f}",
           lambda v: v or "", width=104, tip="of the speed-up"),
    Column("against", lambda r: r.against, width=130, tip="what it was judged against"),
    Column("why", lambda r: r.why, width=160),
)  # fmt: skip


class LivePlot(RatesPlot):
    """The runtime's rate in its inferences: dots; what serves, as a line."""

    def __init__(self, theme: Theme) -> None:
        self.rounds = Rounds()
        super().__init__(
            "GFLOP/s of ONNX Runtime",
            "Dots: single inferences, and medians of heats.\n"
            "Line: the median with the kernels that serve.",
            theme,
        )
        self.switch()

    def series(self) -> Mapping[str, Rounds]:
        return {"ONNX Runtime": self.rounds}

    def rounds_named(self) -> str:
        return "round"

    def dress(self, key: str) -> None:
        colour, _ = series_style(self.theme, 0)
        dots, line = self.items[key]
        dots.setBrush(colour)
        line.setPen(pen(colour, 2.2))

    def make(self, key: str, pair: Items) -> None:
        """One series needs no legend."""


class LivePanel(Panel):
    """Settings, the course of a session, and its end."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self.path: Path | None = None
        self.runtime: jobs.Runtime | None = None
        self.model: Path | None = None
        self.state = LiveState()
        self._looker = reader(self, self._found, self._not_found)
        self.job = LongJob(host, self)
        self.job.told.connect(self._take)
        self.job.returned.connect(lambda _: self._ended())
        self.job.stopped.connect(self._stopped)
        self.job.failed.connect(self._failed)
        self.job.changed.connect(self._follow)
        self.said = Said()
        self.facts = caption()
        self.facts.setContentsMargins(10, 0, 10, 4)
        self.plot = LivePlot(host.theme)
        self.table = TablePanel("Candidates of the live session", COLUMNS, host.theme)
        self._make_settings()
        self._make_card()
        self.parts = splitter(Qt.Orientation.Horizontal, (self.plot, 350), (self.table, 590))
        self.parts.setMinimumHeight(LOWEST)
        whole = ground(QWidget())
        vbox(
            hbox((self.model_name, 1), self.model_button, self.open_button, margins=(8, 6, 8, 0)),
            hbox(
                self.engines, self.threads, self.seconds, self.fused, None, self.start_button,
                self.stop_button, margins=(8, 6, 8, 4),
            ),
            self.said, self.facts, self.card, (self.parts, 1), on=whole,
        )  # fmt: skip
        vbox(scrolled(whole), on=self)
        self._follow()

    def _make_settings(self) -> None:
        self.model_name = caption(NO_MODEL)
        self.model_button = push_button(
            "Model…", "Choose the model", "The .onnx file that ONNX Runtime serves", self.ask
        )
        self.open_button = push_button(
            "Open model", "Use the open model",
            "Serve the model that is open in the window, with its inputs", self.use_open_model,
        )  # fmt: skip
        self.engines = chooser("Browser of the live session", "Where ONNX Runtime serves the model")
        cores = usable_cores()
        self.threads = named(inset(QSpinBox(minimum=1, maximum=cores)), "Threads of ONNX Runtime")
        self.threads.setPrefix("threads: ")
        self.seconds = named(inset(QSpinBox(minimum=5, maximum=600, value=15)), "Seconds of tuning")
        self.seconds.setSuffix(" s")
        self.fused = named(
            QCheckBox("fuse"), "Fuse multiply-adds in live kernels",
            "Fuse multiply-adds: faster, and answers then differ by rounding",
        )  # fmt: skip
        self.start_button = push_button(
            "Start", "Start the live session",
            "Serve the model in the browser and exchange kernels between its inferences",
            self.start,
        )  # fmt: skip
        self.stop_button = self.job.stop_button("the live session")

    def _make_card(self) -> None:
        self.card = named(QFrame(), "Result of the live session")
        self.card.setObjectName("message")
        self.worth, self.kept = QLabel(wordWrap=True), caption()
        self.worth.setFont(scaled_font(self.font(), 1.1, bold=True))
        vbox(self.worth, self.kept, on=self.card, margins=(14, 6, 10, 6), spacing=2)
        self.card.hide()

    def refresh(self, changes: frozenset[str]) -> None:
        if "model" in changes:
            self._follow()

    # Settings

    def show_file(self, path: Path) -> None:
        """Offer a session for a file, if it is a runtime's."""
        self.path, self.runtime = path, None
        if not self.engines.count():
            self.engines.addItems(jobs.browser_names())
        if not self.job.job:
            self.show_state(LiveState())
            self.said.tell(LOOKING)
        self._look()
        self._follow()

    def ask(self) -> None:
        """Have the user choose a model."""
        dialogs.ask_file(self._host.window, dialogs.MODELS, self._host.saver.folder, self.use)

    def use(self, model: Path) -> None:
        """Serve a file."""
        self.model = model
        self._follow()
        self._tell_ready()

    def use_open_model(self) -> None:
        """Serve the model that is open."""
        opened = self._host.session.state.model
        if opened is not None:
            self.use(opened.path)

    def _look(self) -> None:
        path = self.path
        if path is not None:
            self._looker.start("look", lambda _: jobs.runtime_of(path))

    def _found(self, runtime: jobs.Runtime) -> None:
        if runtime.file != self.path:
            self._look()
            return
        self.runtime = runtime
        self._follow()
        self._tell_ready()

    def _not_found(self, problem: JobProblem) -> None:
        self._follow()
        self.said.tell(str(problem), "bad")

    def _tell_ready(self) -> None:
        if self.runtime is not None and not self.job.job:
            ready = READY.format(count=self.runtime.kernels, name=self.runtime.file.name)
            self.said.tell(ready + CHOOSE * (self.model is None))

    # The session

    def start(self) -> None:
        """Begin a session with these settings."""
        runtime, model, session = self.runtime, self.model, self._host.session
        if runtime is None or model is None:
            return
        opened, workbench = session.state.model, session.workbench
        same = opened is not None and opened.path == model
        given = {
            "runtime": runtime.file,
            "model": model,
            "target": self.engines.currentText(),
            "threads": self.threads.value(),
            "fused": self.fused.isChecked(),
            "seconds": float(self.seconds.value()),
            "feeds": dict(workbench.model.feeds) if same else None,
            "no_sandbox": workbench.page.sandbox.asked_off,
        }
        records = workbench.database
        if self.job.start(JOB, lambda _: jobs.live(given, records)):
            self.show_state(LiveState())
            self.said.tell(f"{self.state.phase}…")

    def show_state(self, state: LiveState) -> None:
        """Show a session from its beginning."""
        self.state = state
        self.plot.rounds = state.rounds
        self.plot.clear()
        self.card.hide()
        self._draw()

    def _take(self, events: list[Event]) -> None:
        for event in events:
            self.state.take(event)
        self.said.tell(f"{self.state.phase}…")
        self._draw()

    def _draw(self) -> None:
        self.plot.follow()
        self.table.model.set_rows(self.state.shown_rows())
        self.facts.setText(self.state.facts(bool(self.job.job)))

    def _ended(self) -> None:
        self._draw()
        self.said.tell("The session has ended; its browser is closed.")
        self.worth.setText(self.state.result())
        self.kept.setText(self._remembered())
        self.card.show()

    def _stopped(self) -> None:
        self._draw()
        self.said.tell(f"Stopped; the browser is closed. {self._remembered()}")

    def _failed(self, problem: JobProblem) -> None:
        self.said.tell(str(problem), "bad")

    def _remembered(self) -> str:
        return self.state.remembered(self._host.session.workbench.database.why_not_kept)

    def set_theme(self, theme: Theme) -> None:
        self.plot.set_theme(theme)
        self.table.set_theme(theme)

    def _follow(self) -> None:
        idle = not self.job.job
        opened = self._host.session.state.model
        self.model_name.setText(f"Model: {self.model.name}" if self.model else NO_MODEL)
        self.open_button.setEnabled(idle and opened is not None)
        for widget in (self.model_button, self.engines, self.threads, self.seconds, self.fused):
            widget.setEnabled(idle)
        ready = self.runtime is not None and self.model is not None
        self.start_button.setEnabled(idle and ready and self.engines.count() > 0)
