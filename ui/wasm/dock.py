"""The dock of a Wasm file: treemap, functions, findings, and what changed since another build."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QTabWidget

from nnjit_studio.foreign_wasm.inspection.comparison import Comparison, compare
from nnjit_studio.foreign_wasm.inspection.cost.records import CompileCost
from nnjit_studio.foreign_wasm.inspection.cost.trace import trace_events
from nnjit_studio.foreign_wasm.inspection.report import Tiers, headline, sections
from nnjit_studio.foreign_wasm.inspection.rules import Finding, ranked
from nnjit_studio.foreign_wasm.inspection.survey import Survey, survey_file
from nnjit_studio.support.files import write_json
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.feature import WASM_FILE
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.wasm.colours import choices, colouring, legend
from nnjit_studio.ui.wasm.live import LivePanel
from nnjit_studio.ui.wasm.long_job import LongJob
from nnjit_studio.ui.wasm.offload import OffloadPanel
from nnjit_studio.ui.wasm.tables import (
    SECTION_COLUMNS,
    FunctionTable,
    change_columns,
    finding_columns,
    rows_of,
)
from nnjit_studio.ui.wasm.treemap import REST, SHOWN, Cell, Treemap
from nnjit_studio.ui.wasm.turbo import TurboPanel
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import Panel, chooser, hbox, named, push_button, splitter, vbox
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.ui.widgets.theme import Theme

EMPTY = "Drop a .wasm on the window to see which functions are large, slow to compile, or spill."
NO_OTHER = "Compare with another build to see what changed."


class WasmPanel(Panel):
    """A file is read in processes of its own, while no other job of the dock runs."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host, self._theme = host, host.theme
        self.survey: Survey | None = None
        self.comparison: Comparison | None = None
        self.tiers: Tiers = {}
        self.cost: CompileCost | None = None
        self._found: list[Finding] = []
        self.caption = caption(EMPTY)
        self._reading = LongJob(host, self, measures=False)
        self._reading.told.connect(lambda lines: self.caption.setText(lines[-1]))
        self._reading.returned.connect(lambda found: self._take(*found))
        self._reading.stopped.connect(lambda: self._tell("Reading was stopped. "))
        self._reading.failed.connect(self._refuse)
        self._reading.changed.connect(self._follow)
        self.stop_button = self._reading.stop_button("reading", "The file that was shown stays")
        self.open_button = push_button(
            "Open…", "Open a Wasm file", act=host.actions["wasm"].trigger
        )
        self.compare_button = push_button(
            "Compare with…", "Compare with another build", "Which functions changed since another "
            "build of this file", self.ask_other,
        )  # fmt: skip
        self.trace_button = push_button(
            "Save trace…", "Save compile times as a trace",
            "Compile times by tier, for Perfetto or Chrome", self.ask_trace,
        )  # fmt: skip
        self.bar = hbox(
            (self.caption, 1), self.stop_button, self.open_button, self.compare_button,
            self.trace_button,
            margins=(8, 6, 8, 4),
        )  # fmt: skip
        self._make_views(host)
        vbox(self.bar, (self.parts, 1000), None, on=self)  # the bar stays above, alone too
        self._follow()

    def _make_views(self, host: Host) -> None:
        theme = host.theme
        self.functions = FunctionTable(theme)
        self.findings = TablePanel("Findings", (), theme)
        self.sections = TablePanel("Sections", SECTION_COLUMNS, theme)
        self.builds = TablePanel("Two builds", (), theme)
        self.turbo = TurboPanel(host)
        self.turbo.compiled.connect(self.show_cost)
        self.turbo.changed.connect(self._follow)
        self.live = LivePanel(host)
        self.offload = OffloadPanel(host)
        self.builds_caption = caption(NO_OTHER)
        self.builds.lead(self.builds_caption)
        self.tabs = named(QTabWidget(documentMode=True), "Parts of the Wasm file")
        for title, panel in (
            ("Functions", self.functions),
            ("Findings", self.findings),
            ("Sections", self.sections),
            ("Builds", self.builds),
            ("Turbo", self.turbo),
            ("Live", self.live),
            ("Offload", self.offload),
        ):
            self.tabs.addTab(panel, title)
        self.treemap = Treemap(theme)
        self.colours = chooser("Colour of the treemap", "What the colours show")
        self.colours.currentTextChanged.connect(lambda _: self._recolour())
        self.details = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.details.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.details.setContentsMargins(8, 4, 8, 6)
        right = Panel()
        self.legend = QLabel(textFormat=Qt.TextFormat.RichText)
        self.legend.setContentsMargins(8, 4, 8, 0)
        above = hbox((caption("area: bytes, colour:"), 1), self.colours, margins=(8, 6, 8, 4))
        vbox(above, (self.treemap, 1), self.legend, self.details, on=right)
        self.right = right
        self.tabs.currentChanged.connect(lambda _: self._make_room())
        self.parts = splitter(Qt.Orientation.Horizontal, (self.tabs, 760), (right, 520))
        self.functions.picked.connect(lambda row: self.show_function(row.facts.index))
        self.findings.picked.connect(lambda row: self.show_function(row.function))
        self.builds.picked.connect(lambda row: self.show_function(row.after.index))
        self.treemap.picked.connect(self._pick)

    def refresh(self, changes: frozenset[str]) -> None:
        self.live.refresh(changes)

    # Opening

    def ask_other(self) -> None:
        """Have the user choose another build."""
        folder = self.survey.path.parent if self.survey else self._host.saver.folder
        dialogs.ask_file(self._host.window, dialogs.WASM_FILES, folder, self.compare_with)

    def ask_trace(self) -> None:
        """Have the user choose where the trace goes."""
        survey, cost = self.survey, self.cost
        if survey is not None and cost is not None:
            events = trace_events(cost, survey.name)
            write = self._host.saver.guarded(lambda path: write_json(path, events))
            self._host.saver.ask("Save trace", f"{survey.path.stem}-compile.json", write)

    def open(self, path: Path) -> bool:
        """Read a file and show it; False while another job of the dock runs.

        The first file, where no model is open, gets the window's layout for Wasm files.
        """
        if self.survey is None and self._host.session.state.model is None:
            self._host.docks.take_layout(WASM_FILE, for_file=True)
        self._host.message.hide()
        return self._read("wasm", path)

    def compare_with(self, path: Path) -> bool:
        """Read another build and show what changed since; False without a file."""
        return self.survey is not None and self._read("wasm-other", path)

    @property
    def busy(self) -> bool:
        """Whether a file is being read."""
        return bool(self._reading.job) or self.turbo.busy

    def _read(self, job: str, path: Path) -> bool:
        begun = self._reading.start(job, lambda note: (job, survey_file(path, note)))
        if begun:
            self.caption.setText(f"Reading {path.name}…")
        return begun

    def _take(self, job: str, survey: Survey) -> None:
        if job == "wasm":
            self.show_survey(survey)
            self.take_keys()
        elif self.survey is not None:
            self.show_comparison(compare(survey, self.survey))

    def _refuse(self, problem: JobProblem) -> None:
        self._tell()
        self._host.tell(problem)

    # Showing

    def show_survey(self, survey: Survey) -> None:
        """Show a file, whose compile times are not known yet."""
        self.survey, self.tiers, self.cost, self.comparison = survey, {}, None, None
        self._found = ranked(survey)
        self.turbo.show_survey(survey)
        self.live.show_file(survey.path)
        self.offload.show_file(survey.path)
        self.functions.show_rows(rows_of(survey, self.tiers))
        self.findings.set_columns(finding_columns(survey, self._found))
        self.findings.model.set_rows(self._found, keep=False)
        self.sections.model.set_rows(
            [(n, size, 100 * size / survey.nbytes) for n, size in sections(survey).items()],
            keep=False,
        )
        self.builds.model.set_rows([], keep=False)
        self.builds_caption.setText(NO_OTHER)
        self.tabs.setTabToolTip(0, f"{len(survey.functions):,} functions")
        self.tabs.setTabToolTip(1, f"{len(self._found):,} findings")
        self.treemap.show_cells(_cells(survey))
        self._offer_colours()
        self._tell()
        functions = text.counted(len(survey.functions), "function")
        self._host.wasm_shown.emit(survey.path, f"{text.nbytes(survey.nbytes)}, {functions}")
        if survey.functions:
            self._pick(max(survey.functions, key=lambda f: f.bytes).index)

    def show_cost(self, cost: CompileCost) -> None:
        """Show compile times, in the table and as colours."""
        if self.survey is None:
            return
        self.cost = cost
        self.tiers = {f.index: known for f in self.survey.functions if (known := cost.of(f.index))}
        self.functions.show_rows(rows_of(self.survey, self.tiers))
        self._offer_colours()
        self._follow()

    def show_comparison(self, found: Comparison) -> None:
        """Show what changed since another build."""
        self.comparison = found
        self.builds.set_columns(change_columns(found))
        self.builds.model.set_rows(found.changed, keep=False)
        growth = found.after.nbytes - found.before.nbytes
        self.builds_caption.setText(
            f"Since {found.before.path.name}: {growth:+,} bytes; {found.same:,} functions the "
            f"same, {len(found.changed):,} changed, {len(found.added):,} new, "
            f"{len(found.removed):,} gone."
        )
        self.tabs.setCurrentWidget(self.builds)
        self._tell()

    def show_function(self, index: int) -> None:
        """Ring a function in the treemap and describe it."""
        self.treemap.select(index)
        self.details.setText(self._describe(index))

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for part in (
            self.functions,
            self.findings,
            self.sections,
            self.builds,
            self.turbo,
            self.live,
            self.offload,
            self.treemap,
        ):
            part.set_theme(theme)
        self._recolour()

    def _pick(self, index: int) -> None:
        self.tabs.setCurrentWidget(self.functions)
        self.functions.select_function(index)
        self.show_function(index)

    def _describe(self, index: int) -> str:
        survey = self.survey
        if survey is None:
            return ""
        callers = survey.callers.get(index, ())
        said = [f"Function {index} {survey.name(index)}".strip() + "."]
        said += [finding.text for finding in self._found if finding.function == index]
        if callers:
            more = f" and {len(callers) - 8} more" if len(callers) > 8 else ""
            said.append(f"Called by {', '.join(map(str, callers[:8]))}{more}.")
        else:
            said.append("No function calls it directly.")
        return " ".join(said)

    def _tell(self, before: str = "") -> None:
        self.caption.setText(before + (headline(self.survey) if self.survey else EMPTY))
        self._follow()

    def _make_room(self) -> None:
        """Tabs about a running file have the treemap's room, too."""
        shown = self.tabs.currentWidget()
        compares = shown is self.turbo and not self.turbo.speed.isHidden()
        self.right.setVisible(not compares and shown not in (self.live, self.offload))

    def _follow(self) -> None:
        self.stop_button.setVisible(bool(self._reading.job))
        self.open_button.setEnabled(not self.busy)
        self.compare_button.setEnabled(self.survey is not None and not self.busy)
        self.trace_button.setEnabled(self.cost is not None)
        self.parts.setVisible(self.survey is not None)
        self._make_room()

    # Colours

    def _offer_colours(self) -> None:
        self.colours.blockSignals(True)
        self.colours.clear()
        self.colours.addItems(choices(self.tiers))
        self.colours.blockSignals(False)
        self._recolour()

    def _recolour(self) -> None:
        if self.survey is not None:
            choice = self.colours.currentText()
            self.treemap.recolour(colouring(choice, self.survey, self.tiers, self._theme))
            self.legend.setText(legend(choice, self.tiers, self._theme))


def _cells(survey: Survey) -> list[Cell]:
    ranked_ = sorted(survey.functions, key=lambda f: -f.bytes)
    cells = [
        Cell(
            f.index,
            f.bytes,
            survey.name(f.index) or str(f.index),
            text.nbytes(f.bytes),
            f"function {f.index} {survey.name(f.index)}\n{f.bytes:,} bytes, {f.blocks:,} blocks, "
            f"{f.loops:,} loops, {f.simd:,} vector instructions",
        )
        for f in ranked_[:SHOWN]
    ]
    rest = ranked_[SHOWN:]
    if rest:
        size = sum(f.bytes for f in rest)
        title, tip = f"{len(rest):,} smaller functions", f"{size:,} bytes together"
        cells.append(Cell(REST, size, title, text.nbytes(size), f"{title}: {tip}"))
    return cells
