"""The tab Offload: which loops of a file can run on a GPU, what that costs, and the counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QCheckBox, QPlainTextEdit, QWidget

from nnjit_studio.foreign_wasm.offload.cases import Loop
from nnjit_studio.foreign_wasm.offload.lift.refusal import REASONS
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.wasm import jobs
from nnjit_studio.ui.wasm.long_job import LongJob
from nnjit_studio.ui.wasm.said import Said
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.panel import chooser, hbox, named, push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel

NO_ADAPTER = (
    "This browser finds no GPU. Choose another browser, or “software adapter”, which shows the "
    "way but no gain."
)
FIND, PRICE = "find loops", "measure loops"
EMPTY = "Finds the loops that could run on a GPU, and says of each other one why it stays."
ADAPTERS = {"any adapter": "", "GPU": "hardware", "software adapter": "software"}
MODES = {"suspended (JSPI)": "jspi", "blocked": "blocking"}
Told = Mapping[str, Any]


def _price(key: str) -> Any:
    return lambda r: (r["price"] or {}).get(key)


def _ms(value: Any) -> str:
    return "" if value is None else text.latency(value)


def _verdict(row: Told) -> str:
    if row["pattern"]:
        return f"{row['pattern']}, but stays" if row["verdict"] == "stays" else str(row["pattern"])
    return f"stays: {row['reason'].replace('-', ' ')}"


def _tone(row: Told) -> str:
    return "good" if row["verdict"] == "offload" else "muted"


def _sentence(row: Told) -> str:
    if row["price"] or not row["pattern"]:
        return str(row["text"]).removeprefix("stays: ")
    return "not measured"


COLUMNS = (
    Column("function", lambda r: r["function"], str, True, width=66),
    Column("name", lambda r: r["name"], width=150, middle=True),
    Column("loop", lambda r: r["loop"], str, True, "by the order of their beginnings", 44),
    Column("verdict", _verdict, width=150, tone=_tone, tip="the pattern of what can run on a GPU"),
    Column("MFLOP", lambda r: r["flops"] / 1e6 or None,
           lambda v: "" if v is None else text.digits3(v), True, "of one call", 64),
    Column("loop ms", _price("loop"), _ms, True, "as it is, in Wasm", 66),
    Column("GPU ms", _price("gpu"), _ms, True, "with all transfers", 66),
    Column("in words", _sentence, width=420),
)  # fmt: skip


class OffloadPanel(TablePanel):
    """Finds loops, measures those that can run on a GPU, shows the counters of the runs."""

    def __init__(self, host: Host) -> None:
        super().__init__("Loops for a GPU", COLUMNS, host.theme)
        self._host = host
        self.path: Path | None = None
        self.found: list[Loop] = []
        self._told: list[Told] = []
        self.said = Said(EMPTY)
        self.job = LongJob(host, self)
        self.job.told.connect(self._follow_job)
        self.job.returned.connect(self._returned)
        self.job.stopped.connect(lambda: self.said.tell("Stopped."))
        self.job.failed.connect(self._failed)
        self.job.changed.connect(self._follow)
        self.find_button = push_button(
            "Find loops", "Find loops for a GPU", "A large file takes a minute or more", self.look
        )
        self.only = named(
            QCheckBox("for a GPU only"), "Only loops for a GPU", "Leave out the loops that stay"
        )
        self.only.toggled.connect(lambda _: self._show())
        stop = self.job.stop_button("looking or measuring", "Ends the browser that measures, too")
        self.lead(self.find_button, stop, self.only, QWidget())
        self.filter.setPlaceholderText("Filter: function, name, reason")
        self._make_measuring()
        self.counters = named(QPlainTextEdit(readOnly=True), "Counters of the measured loops")
        self.counters.setMaximumHeight(110)
        self.counters.hide()
        self.box.insertWidget(2, self.said)
        self.box.addWidget(self.counters)
        self._follow()

    def _make_measuring(self) -> None:
        self.engines = chooser("Browser that measures loops", "Whose GPU runs the loops")
        self.adapters = chooser("Adapter", "A software adapter shows the way, not a gain", ADAPTERS)
        self.modes = chooser("How the module waits", "While the GPU works", MODES)
        self.measure_button = push_button(
            "Measure…", "Measure the loops for a GPU",
            "Runs each as it is and through its kernel with the transfers", self.measure,
        )  # fmt: skip
        row = hbox(
            self.engines, self.adapters, self.modes, self.measure_button, None,
            margins=(8, 0, 8, 4),
        )  # fmt: skip
        self.box.insertLayout(1, row)

    def show_file(self, path: Path) -> None:
        """Offer to look through a file."""
        self.path = path
        if not self.engines.count():
            self.engines.addItems(jobs.browser_names())
        self._take_loops([])
        self.said.tell(EMPTY)

    def look(self) -> None:
        """Look through the file."""
        path = self.path
        if path is not None and self.job.start(FIND, lambda note: (path, jobs.loops(path, note))):
            self.said.tell("Reading the file…")

    def measure(self) -> None:
        """Run the loops that can stand alone."""
        found, target = list(self.found), self.engines.currentText()
        gpu, mode = ADAPTERS[self.adapters.currentText()], MODES[self.modes.currentText()]
        unsafe = self._host.session.workbench.page.sandbox.asked_off
        path = self.path
        if self.job.start(
            PRICE, lambda note: (path, jobs.prices(found, target, gpu, mode, unsafe, note))
        ):
            self.said.tell("Starting the browser…")

    def searched(self, row: Told) -> str:
        return f"{row['function']} {row['name']} {_verdict(row)} {row['text']}"

    def _follow_job(self, told: list[Any]) -> None:
        prices = [item for item in told if isinstance(item, jobs.Priced)]
        for price in prices:
            self._told[price.place] = dict(price.told)
        if prices:
            self._show()
        words = [item for item in told if isinstance(item, str)]
        if words:
            self.said.tell(f"{words[-1].capitalize()}…")

    def _returned(self, result: tuple[Path, list[Loop] | jobs.Prices]) -> None:
        path, found = result
        if path != self.path:  # another file was opened meanwhile
            self.said.tell(EMPTY)
        elif isinstance(found, jobs.Prices):
            self._show_prices(found)
        else:
            self._take_loops(found)
            self.said.tell(self._summary())

    def _take_loops(self, found: list[Loop]) -> None:
        self.found, self._told = found, [loop.told for loop in found]
        self.counters.hide()
        self._show()
        self._follow()

    def _show(self) -> None:
        rows = [r for r in self._told if r["pattern"] or not self.only.isChecked()]
        rows.sort(key=lambda r: (not r["pattern"], r["function"], r["loop"]))
        self.model.set_rows(rows, keep=False)

    def _summary(self) -> str:
        good = sum(bool(row["pattern"]) for row in self._told)
        alone = sum(loop.case is not None for loop in self.found)
        said = f"{len(self._told):,} loops, {good:,} of them can run on a GPU"
        said += f", {alone:,} of those alone, so that they can be measured. " if good else ". "
        stays = Counter(row["reason"] for row in self._told if not row["pattern"]).most_common(3)
        most = "; ".join(f"{n:,} {REASONS[reason]}" for reason, n in stays)
        return said + (f"Most others stay because: {most}." if most else "")

    def _show_prices(self, prices: jobs.Prices) -> None:
        for place, told in prices.loops.items():
            self._told[place] = dict(told)
        self._show()
        self.counters.setPlainText(prices.counters)
        self.counters.show()
        adapter = prices.adapter
        name = adapter["description"] or adapter["device"] or adapter["vendor"] or "an adapter"
        kind = "a software adapter: its times say nothing of a GPU" * adapter["is_fallback"]
        on = f"{name}, {kind}" if kind else name
        gain = sum(
            r["verdict"] == "offload" and r["price"]["gpu"] is not None
            for r in prices.loops.values()
        )
        self.said.tell(f"Measured {len(prices.loops)} loops on {on}. {gain} are faster there.")

    def _failed(self, problem: JobProblem) -> None:
        self.said.tell(NO_ADAPTER if "no adapter" in str(problem) else str(problem), "bad")

    def _follow(self) -> None:
        idle = not self.job.job
        self.find_button.setEnabled(idle and self.path is not None)
        can = any(loop.case is not None for loop in self.found) and self.engines.count() > 0
        for widget in (self.engines, self.adapters, self.modes, self.measure_button):
            widget.setEnabled(idle and can)
