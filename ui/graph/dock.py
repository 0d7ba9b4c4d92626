"""The model graph: search, colours, comparison of two runs, and what is known of one node."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSplitter,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.analysis.backends import BackendComparison
from nnjit_studio.analysis.diff import Diff
from nnjit_studio.analysis.profile import ModelProfile, load
from nnjit_studio.model import Node
from nnjit_studio.ui.diff.dock import merged
from nnjit_studio.ui.graph import facts as graph_facts
from nnjit_studio.ui.graph.details import NodeDetails
from nnjit_studio.ui.graph.drawing import arrange
from nnjit_studio.ui.graph.facts import COLOUR_BY, Facts, Run
from nnjit_studio.ui.graph.index import Index
from nnjit_studio.ui.graph.legend import Legend, colour_boxes
from nnjit_studio.ui.graph.runs import BEFORE, RunChoice
from nnjit_studio.ui.graph.scene import Box, GraphView, Sheet
from nnjit_studio.ui.graph.sides import Sides
from nnjit_studio.ui.state.session import Problem, Session
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.theme import Theme, named, panel
from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.workbench import OpenModel

log = logging.getLogger(__name__)

AT_ONCE = 40
"""Nodes of a graph that is laid out without a thread: a few milliseconds."""


class GraphPanel(QWidget):
    """Renders the graph of the session; clicks and searches select workloads.

    Signals
    -------
    asked(str, str)
        A link of the details: the name of a dock or of an action, and a node.
    wants_profile()
        A saved profile is to be chosen, for :meth:`compare_with_file`.
    problem(Problem)
        A file could not be read.
    drawn()
        A graph was laid out and is shown.
    split_changed(bool)
        Whether two runs are drawn side by side now.
    """

    asked = Signal(str, str)
    wants_profile = Signal()
    problem = Signal(object)
    drawn = Signal()
    split_changed = Signal(bool)

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        panel(self)
        self._session = session
        self._shown: object = None
        self._index: Index | None = None
        self._closed: frozenset[str] = frozenset()
        self._next: Callable[[], object] | None = None
        self._pending = ""
        self._facts, self._beside = Facts(), Facts()
        self._profile: ModelProfile | None = None
        self._errors: dict[str, float] = {}
        self._hits: list[Node] = []
        self._hit = -1
        self._worker = Worker(self)
        self._worker.returned.connect(lambda _, made: self._made(made))
        self._worker.failed.connect(lambda job, e: self.problem.emit(Problem.of(job, e)))
        self._files = Worker(self)
        self._files.returned.connect(lambda _, run: self._add_run(run))
        self._files.failed.connect(lambda job, e: self.problem.emit(Problem.of(job, e)))
        self.sides = Sides(theme)
        self.view = self.sides.view
        for view in (self.view, self.sides.other):
            view.tip = partial(self.tip, view=view)
            view.canvas.cost = partial(self.cost, view=view)
            view.clicked.connect(session.select)
            view.wants_open.connect(self.open_group)
            view.wants_closed.connect(self.close_group)
        self.view.moved.connect(self._moved)
        self.runs = RunChoice(self._before)
        self.runs.wants_file.connect(self.wants_profile)
        self.runs.changed.connect(self._choose_run)
        self.legend = Legend(theme)
        self.details = NodeDetails(session, theme)
        self.details.asked.connect(self.asked)
        self._build()
        session.done.connect(self._done)
        session.imported.connect(self.preview)
        session.problem.connect(self._not_opened)

    # What the user can do

    def go_to(self, name: str) -> None:
        """Select a node, by its name or that of an ONNX node in it, and bring it into view."""
        for node in self._index.graph.nodes if self._index else ():
            if name in (node.name, *node.source):
                self._show_node(node.name)
                return

    def go_to_workload(self, key: str) -> None:
        """Select the first node that runs a workload."""
        nodes = self._index.graph.nodes if self._index else ()
        node = next((n for n in nodes if n.workload == key), None)
        if node is not None and (self.view.current is None or self.view.current.workload != key):
            self._show_node(node.name)

    def open_group(self, group: str = "") -> None:
        """Open a group one level, or without a name the one that is current."""
        box = self.view.current_box
        group = group or (box.unit.group if box is not None else "")
        if group and self._index is not None:
            groups = self._index.groups
            inside = {g for g, around in groups.parents.items() if group in around}
            self._pending = groups.members[group][0]
            self._lay_out((self._closed - {group}) | inside)

    def close_group(self, group: str = "") -> None:
        """Close a group, or without a name the innermost open one around the current box."""
        box = self.view.current_box
        if self._index is None or (box is None and not group):
            return
        groups = self._index.groups
        if box is not None and box.unit.nodes:
            self._pending = box.unit.nodes[0].name
            if not group:
                path = groups.path[self._pending]
                outer = [g for g in path if g not in self._closed and g != box.unit.group]
                if box.unit.group:
                    outer = [g for g in outer if len(g) < len(box.unit.group)]
                group = outer[-1] if outer else ""
        if group:
            self._pending = self._pending or groups.members[group][0]
            self._lay_out(self._closed | {group})

    def open_all(self) -> None:
        self._lay_out(frozenset())

    def close_all(self) -> None:
        if self._index is not None:
            self._lay_out(self._index.groups.closed_at(0))

    def next_colour(self) -> None:
        self.colour.setCurrentIndex((self.colour.currentIndex() + 1) % self.colour.count())

    def set_split(self, split: bool) -> None:
        """Draw the run that is compared beside the one that is shown."""
        self.split_button.setChecked(split)
        self.sides.set_split(split)
        if split and self.runs.compared is None and self._before() is not None:
            self.runs.compare_with(BEFORE)
        if split and COLOUR_BY[self.colour.currentIndex()].id == "delta":
            self.colour.setCurrentIndex(0)  # each side tells of one run
        self._learn()
        self._mark_hits()
        self.split_changed.emit(split)

    def step_hit(self, step: int) -> None:
        """Go to the next (1) or previous (-1) node that the search found."""
        if self._hits:
            self._hit = (self._hit + step) % len(self._hits) if self._hit >= 0 else min(0, step)
            self._hit %= len(self._hits)
            self._count()
            self._show_node(self._hits[self._hit].name)

    def compare_with_file(self, path: Path) -> None:
        """Set a saved profile beside the present run."""
        index = self._index
        if index is not None:
            self._files.start(
                "read profile",
                lambda _: graph_facts.run_of_profile(load(path), path.name, index.graph),
            )

    # Following the session

    def preview(self, model: OpenModel) -> None:
        """Draw a model that is still loaded into the page."""
        self._shown = model
        self._open(model)

    def _not_opened(self, problem: Problem) -> None:
        model = self._session.state.model
        if problem.job == "open" and self._shown is not model:
            self._shown, self._index = model, None
            if model is not None:
                self._open(model)
            else:
                self.sides.clear()
                self.pages.setCurrentIndex(0)

    def render(self, changes: frozenset[str]) -> None:
        state = self._session.state
        if "model" in changes and state.model is not None and state.model is not self._shown:
            self._shown = state.model
            self._open(state.model)
        if "graph" in changes and state.model is not None:
            if state.node_ms is not self._facts.ms:
                self._learn()
            for view in self.sides.views:
                view.select_workload(state.selected)
        self.details.render(changes)

    def set_theme(self, theme: Theme) -> None:
        self.legend.theme = theme
        self.sides.set_theme(theme)
        self.details.set_theme(theme)
        self._colour()

    def tip(self, box: Box, view: GraphView | None = None) -> str:
        """What a box tells when the pointer rests on it."""
        unit, facts = box.unit, self._facts_of(view)
        if not unit.nodes:
            return f"{box.title}  {box.line}"
        lines = [box.warning, ""] if box.warning else []
        if unit.group:
            lines += [unit.group, f"{len(unit.nodes)} nodes; double-click or Right opens it"]
        else:
            lines += _of_node(unit.nodes[0], self._session)
        for by in COLOUR_BY:
            value = by.value(facts, unit.nodes)
            if value is not None:
                lines.append(f"{by.title}: {by.say(value)}")
        ms = [facts.ms[n.name] for n in unit.nodes if n.name in facts.ms]
        if ms:
            lines.append(f"{text.latency(sum(ms))} ms, {self._said_of(view)}")
        names = list(dict.fromkeys(name for n in unit.nodes for name in n.source))
        if names and not unit.group:
            more = len(names) - 8
            lines += ["", "ONNX nodes:", *names[:8], *([f"and {more} more"] if more > 0 else [])]
        return "\n".join(lines)

    def _build(self) -> None:
        self.search = named(
            QLineEdit(placeholderText="Find op, shape or ONNX node"), "Find in graph"
        )
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._find)
        self.search.returnPressed.connect(lambda: self.step_hit(1))
        self.hits = QLabel()
        self.hits.setObjectName("muted")
        self.colour = named(QComboBox(), "Colour by", "What the colours of the boxes say")
        for by in COLOUR_BY:
            self.colour.addItem(by.title, by.id)
        self.colour.currentIndexChanged.connect(lambda _: self._colour())
        self.split_button = named(
            QToolButton(text="Side by side", checkable=True),
            "Two graphs side by side",
            "The run under Compare on the left, the run under Show on the right (Ctrl+B)",
        )
        self.split_button.clicked.connect(self.set_split)
        first, second, third = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        first.setContentsMargins(8, 6, 8, 2)
        second.setContentsMargins(8, 2, 8, 2)
        third.setContentsMargins(8, 2, 8, 4)
        first.addWidget(self.search, 1)
        first.addWidget(self.hits)
        for name, arrow, tip, act in (
            ("Previous found", Qt.ArrowType.UpArrow, "Previous found (Shift+F3)",
             lambda: self.step_hit(-1)),
            ("Next found", Qt.ArrowType.DownArrow, "Next found (F3)", lambda: self.step_hit(1)),
        ):  # fmt: skip
            first.addWidget(_button(name, arrow, tip, act))
        second.addWidget(self.colour, 1)
        second.addWidget(self.split_button)
        third.addWidget(self.runs)
        empty = QLabel(
            "The model graph appears here.\n\nDrop an .onnx model on the window,\nor press Ctrl+O.",
            alignment=Qt.AlignmentFlag.AlignCenter,
        )
        empty.setObjectName("empty")
        splitter = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        splitter.addWidget(self.sides)
        splitter.addWidget(self.details)
        splitter.setStretchFactor(0, 1)
        splitter.setSizes([600, 180])
        self.pages = QStackedLayout()
        self.pages.addWidget(empty)
        self.pages.addWidget(splitter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(first)
        layout.addLayout(second)
        layout.addLayout(third)
        layout.addLayout(self.pages, 1)
        layout.addWidget(self.legend)

    # Laying out

    def _open(self, model: OpenModel) -> None:
        self._index = None
        self._closed, self._pending = frozenset(), ""
        self._profile, self._errors = None, {}
        self._facts, self._beside = Facts(), Facts()
        self.sides.clear()
        self.runs.clear()
        self._work(lambda: Index(model.graph, model.workloads), len(model.graph.nodes))

    def _lay_out(self, closed: frozenset[str]) -> None:
        index = self._index
        if index is None:
            return
        self._closed = closed
        box = self.view.current_box
        if box is not None and box.unit.nodes:
            self._pending = self._pending or box.unit.nodes[0].name
        self._work(lambda: Sheet(arrange(index.groups, closed), index.line), len(index.graph.nodes))

    def _work(self, work: Callable[[], object], nodes: int) -> None:
        """Have something made of the graph: in a thread, after what runs there, if it is large."""
        if nodes <= AT_ONCE:
            self._made(work())
        elif not self._worker.start("layout", lambda _: work()):
            self._next = work

    def _made(self, made: object) -> None:
        work, self._next = self._next, None
        if work is not None:
            self._worker.start("layout", lambda _: work())
        elif isinstance(made, Index):
            self._index = made
            self._find(self.search.text())
            self._learn()
            self._lay_out(made.at_first)
        elif isinstance(made, Sheet):
            self._show(made)

    def _show(self, sheet: Sheet) -> None:
        arranged = sheet.arranged
        first = not self.view.boxes
        self.pages.setCurrentIndex(1)
        self.sides.show_sheet(sheet)
        self._colour()
        for view in self.sides.views:
            view.select_workload(self._session.state.selected)
        self._mark_hits()
        if first:
            self.view.show_top()
        if self._pending:
            name, self._pending = self._pending, ""
            self.view.pick(self.view.boxes[arranged.groups.shown_as(name, arranged.closed)])
        log.debug("The graph is drawn: %d boxes.", len(sheet.boxes))
        self.drawn.emit()

    def _show_node(self, name: str) -> None:
        """Make a node current; the groups around it are opened."""
        assert self._index is not None
        around = self._closed.intersection(self._index.groups.path[name])
        if not around and name in self.view.boxes:
            self.view.pick(self.view.boxes[name])
        else:
            self._pending = name
            self._lay_out(self._closed - around)

    # Colours

    def _learn(self) -> None:
        """Take what the session knows into the facts, and show it."""
        if self._index is None:
            return
        nbytes, before = self._index.nbytes, self.runs.compared
        state = self._session.state
        ms = state.node_ms if state.model is self._shown else {}
        now = Run("Now", ms, graph_facts.peaks_of(self._profile))
        run = self.runs.shown or now
        errors = self._errors if run is now else {}
        self._facts = Facts(run.ms, run.peak, nbytes, errors, before)
        beside = before or Run("Choose a run under Compare", {})
        self._beside = Facts(beside.ms, beside.peak, nbytes)
        for caption, said, facts in zip(
            self.sides.captions, (beside, run), (self._beside, self._facts), strict=True
        ):
            total = f": {text.latency(facts.total_ms)} ms, all steps" if said.ms else ""
            caption.setText(said.label + total)
        self.details.facts = self._facts
        self._colour()

    def _facts_of(self, view: GraphView | None) -> Facts:
        return self._beside if view is self.sides.other else self._facts

    def _said_of(self, view: GraphView | None) -> str:
        chosen = self.runs.compared if view is self.sides.other else self.runs.shown
        return chosen.label if chosen is not None else "in the last timed run"

    def _colour(self) -> None:
        by = COLOUR_BY[self.colour.currentIndex()]
        workloads = self._session.state.workloads
        warnings = {key: graph_facts.warning_of(w) for key, w in workloads.items()}
        sides = [(view, self._facts_of(view)) for view in self.sides.views]
        ends, marked = colour_boxes(sides, by, warnings)
        self.legend.show_scale(by, ends, marked)

    def cost(self, box: Box, view: GraphView | None = None) -> str:
        """The last line of a box: its time, and what it is coloured by."""
        by, unit, facts = COLOUR_BY[self.colour.currentIndex()], box.unit, self._facts_of(view)
        value = by.value(facts, unit.nodes)
        ms = [facts.ms[n.name] for n in unit.nodes if n.name in facts.ms]
        if by.id == "delta" and value is not None:
            return f"{text.latency(sum(ms) - value)} → {text.latency(sum(ms))} ms"
        said = "" if value is None else by.say(value)
        return f"{text.latency(sum(ms))} ms   {said}" if ms else said

    # Two runs

    def _choose_run(self) -> None:
        if self.runs.compare.currentIndex() > 0 and not self.sides.split:
            self.colour.setCurrentIndex([by.id for by in COLOUR_BY].index("delta"))
        self._learn()

    def _before(self) -> Run | None:
        ms = self._session.state.node_ms_before
        return Run(BEFORE, ms, graph_facts.peaks_of(self._profile)) if ms else None

    def _add_run(self, run: Run) -> None:
        assert self._index is not None
        nodes = len(self._index.graph.nodes)
        self.runs.add(run)
        self.runs.compare_with(run.label)
        if len(run.ms) < nodes:
            self.runs.compare.setToolTip(f"{run.label} has {len(run.ms)} of {nodes} steps by name.")

    def _done(self, job: str, result: object) -> None:
        if self._index is None:
            return
        if isinstance(result, ModelProfile):
            self._profile = result
            label = f"Profile {self.runs.count('Profile') + 1}: "
            label += f"{result.target}, {result.tier}, {result.warm.median_ms:.2f} ms"
            self.runs.add(graph_facts.run_of_profile(result, label, self._index.graph))
        elif isinstance(result, Diff):
            self._errors = {**self._errors, **graph_facts.errors_of(result)}
            old = self.details.diff
            self.details.diff = merged(old, result) if old is not None else result
        elif isinstance(result, BackendComparison):
            self.runs.add(*graph_facts.runs_of_backends(result))
        else:
            return
        self._learn()
        self.details.profile = self._profile
        self.details.show_box(self.view.current_box)

    # Search

    def _find(self, words: str) -> None:
        self._hits = self._index.find(words) if self._index is not None else []
        self._hit = -1
        self._mark_hits()
        self._count()
        if self._hits and self._index is not None:
            key = self._index.groups.shown_as(self._hits[0].name, self._closed)
            if key in self.view.boxes:
                self.view.centerOn(self.view.boxes[key].pos())

    def _mark_hits(self) -> None:
        if self._index is not None:
            shown_as = self._index.groups.shown_as
            keys = {shown_as(node.name, self._closed) for node in self._hits}
            for view in self.sides.views:
                for box in view.boxes.values():
                    box.found = box.unit.key in keys
                view.redraw()

    def _count(self) -> None:
        place = f"{self._hit + 1} of " if self._hit >= 0 else ""
        found = f"{place}{len(self._hits)} found"
        self.hits.setText(found if self.search.text().strip() else "")

    def _moved(self) -> None:
        loaded = self._session.state.model is self._shown
        self.details.show_box(self.view.current_box if loaded else None)


def _button(name: str, arrow: Qt.ArrowType, tip: str, act: Callable[[], object]) -> QToolButton:
    button = named(QToolButton(), name, tip)
    button.setArrowType(arrow)
    button.setAutoRaise(True)
    button.clicked.connect(lambda _=False: act())
    return button


def _of_node(node: Node, session: Session) -> list[str]:
    state = session.state
    lines = [node.op, f"workload  {text.short_key(node.workload)}"]
    workload = state.find(node.workload)
    if workload is not None:
        lines.append(f"used by {workload.workload.uses} nodes")
        if workload.incumbent and state.code:
            lines.append(f"{state.code} kernel  {workload.incumbent}")
    return lines
