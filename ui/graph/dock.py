"""The model graph: search, colours, comparison of two runs, and the facts of one node."""

from __future__ import annotations

import logging
from functools import partial, reduce
from pathlib import Path

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QStackedLayout, QTabWidget

from nnjit_studio.analysis.diff import Diff, merged
from nnjit_studio.analysis.profile.compare import load
from nnjit_studio.model import Node
from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.graph.boxes import Box, Sheet
from nnjit_studio.ui.graph.details import NodeDetails
from nnjit_studio.ui.graph.facts import (
    BEFORE,
    COLOUR_BY,
    ColourBy,
    Facts,
    Run,
    RunFacts,
    Values,
    run_of_profile,
    warning_of,
)
from nnjit_studio.ui.graph.folding import Folding, Index
from nnjit_studio.ui.graph.layers import LayerList
from nnjit_studio.ui.graph.legend import Legend, colour_boxes
from nnjit_studio.ui.graph.node_texts import cost_of, tip_of
from nnjit_studio.ui.graph.runs import RunChoice
from nnjit_studio.ui.graph.search import GraphSearch
from nnjit_studio.ui.graph.sides import Sides
from nnjit_studio.ui.graph.view import GraphView
from nnjit_studio.ui.state.jobs import JobProblem, reader
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.panel import Panel, chooser, hbox, named, splitter, tool_button, vbox
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench import OpenModel

ROOMY = 540
"""Pixels of width in which the tools have all their words."""
log = logging.getLogger(__name__)
EMPTY = "The model graph appears here.\n\nDrop an .onnx model on the window,\nor press Ctrl+O."
READING = "Reading the file: its graph appears here.\n\n“Cancel” above ends it."


class GraphPanel(Panel):
    """Draws the graph of the session; clicks and searches select workloads."""

    asked = Signal(str, str)
    """A link of the details: the name of a dock or of an action, and a node."""
    wants_kernel = Signal(str)
    """The kernel of a workload is to be inspected, by its key."""
    wants_profile = Signal()
    """A saved profile is to be chosen, for :meth:`compare_with_file`."""
    problem = Signal(object)
    """``JobProblem``: A file could not be read, or a graph not be drawn."""
    drawn = Signal()
    """A graph was laid out and is shown."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self._shown: object = None
        self._look = False
        self._ms: Values = {}
        self._told_ms: Values | None = None
        self.facts = RunFacts()
        self.folding = Folding(self, lambda: self.view.current_unit)
        self.folding.indexed.connect(self._indexed)
        self.folding.arranged.connect(self._show)
        self.folding.problem.connect(self.problem)
        self._files = reader(self, self._add_run, self.problem.emit)
        self.sides = Sides(theme)
        self.view = self.sides.view
        for view in (self.view, self.sides.other):
            view.tip = partial(self.tip, view=view)
            view.canvas.cost = partial(self.cost, view=view)
            view.clicked.connect(session.select)
            view.wants_open.connect(self.folding.open_group)
            view.wants_closed.connect(self.folding.close_group)
            view.wants_kernel.connect(self.wants_kernel)
        self.view.moved.connect(self._moved)
        self.runs = RunChoice(lambda: self.facts.before(session.state.node_ms_before))
        self.runs.wants_file.connect(self.wants_profile)
        self.runs.changed.connect(self._choose_run)
        self.legend = Legend(theme)
        self.details = NodeDetails(session, theme)
        self.details.asked.connect(self.asked)
        self.layers = LayerList(theme)
        self.layers.picked.connect(lambda layer: self.show_layer(layer.group))
        self._layer = ""
        self._build()
        session.done.connect(self._done)
        session.surveyed.connect(self.preview)
        session.imported.connect(self.preview)
        session.problem.connect(self._not_opened)
        session.abandoned.connect(self._put_back)

    def _build(self) -> None:
        self.search = GraphSearch(lambda words: self._index.find(words) if self._index else ())
        self.search.changed.connect(self._show_hits)
        self.search.wanted.connect(lambda node: self._show_node(node.name, look=True))
        titles = (by.title for by in COLOUR_BY)
        self.colour = chooser("Colour by", "The value that the boxes are coloured by", titles)
        self.colour.currentIndexChanged.connect(lambda _: self.colour_boxes())
        self.split_button = tool_button(
            "Side by side",
            "Two graphs side by side",
            "The run under Compare on the left, the run under Show on the right (Ctrl+B)",
        )
        self.split_button.setCheckable(True)
        self.split_button.clicked.connect(self.set_split)
        self.empty = QLabel(EMPTY, alignment=Qt.AlignmentFlag.AlignCenter)
        self.empty.setObjectName("empty")
        self._session.busy_changed.connect(
            lambda job: self.empty.setText(READING if job == "open" else EMPTY)
        )
        self.tabs = named(QTabWidget(documentMode=True), "Layers and details")
        self.tabs.addTab(self.layers, "Layers")
        self.tabs.addTab(self.details, "Details")
        parts = splitter(Qt.Orientation.Horizontal, (self.sides, 840), (self.tabs, 320))
        parts.setStretchFactor(0, 1)
        self.pages = QStackedLayout()
        self.pages.addWidget(self.empty)
        self.pages.addWidget(parts)
        tools = hbox(
            (self.search, 2), self.colour, (self.runs, 2), self.split_button, margins=(8, 5, 8, 5)
        )
        vbox(
            tools,
            (self.pages, 1),
            self.legend,
            on=self,
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A narrow dock has room for one word."""
        self.split_button.setText("Side by side" if event.size().width() >= ROOMY else "Both")

    # What the user can do

    def go_to(self, name: str) -> None:
        """Select a node, by its name or that of an ONNX node in it, and bring it into view."""
        for node in self._nodes:
            if name in (node.name, *node.source):
                self._show_node(node.name)
                return

    def go_to_workload(self, key: str) -> None:
        """Select the first node that runs a workload."""
        node = next((n for n in self._nodes if n.workload == key), None)
        if node is not None and (self.view.current is None or self.view.current.workload != key):
            self._show_node(node.name)

    def show_layer(self, group: str) -> None:
        """Bring a layer into view: its box, or the boxes of one that is open."""
        self._layer = group
        if self.folding.show_group(group):
            return  # it goes on when the graph is laid out
        self._layer = ""
        index, boxes = self._index, self.view.boxes
        if index is None:
            return
        keys = {self.folding.shown_as(name) for name in index.groups.members[group]}
        found = [boxes[key] for key in keys if key in boxes]
        if group in self.folding.closed and found:
            self.view.pick(found[0])
            self.view.look_at(found[0])
        elif found:
            self.view.look_at_area(reduce(QRectF.united, (box.rect for box in found)))
        self.tabs.setCurrentWidget(self.layers)

    def next_colour(self) -> None:
        self.colour.setCurrentIndex((self.colour.currentIndex() + 1) % self.colour.count())

    def set_split(self, split: bool) -> None:
        """Draw the run under Compare to the left of the one that is shown."""
        self.split_button.setChecked(split)
        self.sides.set_split(split)
        if split and self.runs.compared is None and self._session.state.node_ms_before:
            self.runs.compare_with(BEFORE)
        if split and self._by.id == "delta":
            self.colour.setCurrentIndex(0)  # each side shows one run
        self._learn()
        self._mark_hits()

    def compare_with_file(self, path: Path) -> None:
        """Compare the run that is shown with a saved profile."""
        index = self._index
        if index is not None:
            self._files.start(
                "read profile", lambda _: run_of_profile(load(path), path.name, index.graph)
            )

    # Following the session

    def take_keys(self) -> None:
        """The graph has them, not the list of layers beside it; the window until it is drawn."""
        (self.view if self.view.boxes else self.window()).setFocus()

    def preview(self, model: OpenModel | Survey) -> None:
        """Draw a file's raw graph, or a model that is still loaded into the page."""
        self._shown = model
        self._ms = {}
        self.facts = RunFacts()
        self.sides.clear()
        self.runs.clear()
        self.folding.open(model.graph, model.workloads)

    def _not_opened(self, problem: JobProblem) -> None:
        if problem.job == "open" and not isinstance(self._shown, Survey):
            self._put_back()

    def _put_back(self) -> None:
        """Draw the open model again, if there is one."""
        model = self._session.state.model
        if model is self._shown:
            return
        if model is not None:
            self.preview(model)
        else:
            self._shown = None
            self.folding.clear()
            self.sides.clear()
            self.pages.setCurrentIndex(0)

    def refresh(self, changes: frozenset[str]) -> None:
        state = self._session.state
        if "model" in changes and state.model is not None and state.model is not self._shown:
            self.preview(state.model)
        if "graph" in changes and state.model is not None:
            if state.node_ms is not self._told_ms:
                self._told_ms = state.node_ms
                self._learn()
            for view in self.sides.views:
                view.select_workload(state.selected)
        self.details.refresh(changes)

    def set_theme(self, theme: Theme) -> None:
        self.legend.theme = theme
        self.sides.set_theme(theme)
        self.details.set_theme(theme)
        self.layers.set_theme(theme)
        self.colour_boxes()

    def _done(self, job: str, result: object) -> None:
        runs = self.facts.take(result, self._index.graph) if self._index is not None else None
        if runs is None:
            return
        self.runs.add(*runs)
        known = self.details.known
        if isinstance(result, Diff):
            known.diff = merged(known.diff, result) if known.diff is not None else result
        self._learn()
        known.profile = self.facts.profile
        self.details.show_box(self.view.current_box)

    # What is drawn

    @property
    def _index(self) -> Index | None:
        return self.folding.index

    @property
    def _nodes(self) -> tuple[Node, ...]:
        return self._index.graph.nodes if self._index is not None else ()

    def _indexed(self) -> None:
        layered = self._index is not None and bool(self._index.groups.members)
        self.tabs.setTabVisible(self.tabs.indexOf(self.layers), layered)
        self.search.search()
        self._learn()

    def _show(self, sheet: Sheet) -> None:
        first = not self.view.boxes
        self.pages.setCurrentIndex(1)
        self.sides.show_sheet(sheet)
        self.colour_boxes()
        for view in self.sides.views:
            view.select_workload(self._session.state.selected)
        self._mark_hits()
        if first:
            self.view.show_top()
            used = self.window().focusWidget()
            if used is self.window() or self.isAncestorOf(used):
                self.take_keys()  # nothing but the search could have them until now
        if self.folding.goal:
            name, self.folding.goal = self.folding.goal, ""
            self.view.pick(self.view.boxes[self.folding.shown_as(name)])
            if self._look:
                self.view.look_at(self.view.boxes[self.folding.shown_as(name)])
        if self._layer:
            self.show_layer(self._layer)
        log.debug("The graph is drawn: %d boxes.", len(sheet.boxes))
        self.drawn.emit()

    def _show_node(self, name: str, look: bool = False) -> None:
        """Make a node current; the groups around it are opened. Or bring it to the middle."""
        self._look = look
        if name in self.view.boxes and not self.folding.hides(name):
            self.view.pick(self.view.boxes[name])
            if look:
                self.view.look_at(self.view.boxes[name])
        else:
            self.folding.show(name)

    def _moved(self) -> None:
        loaded = self._session.state.model is self._shown
        if self.view.current_box is not None:
            self.tabs.setCurrentWidget(self.details)
        node = self.view.current
        self._session.state.node = node.name if node is not None and loaded else ""
        self.details.show_box(self.view.current_box if loaded else None)

    # Colours and runs

    @property
    def _by(self) -> ColourBy:
        return COLOUR_BY[self.colour.currentIndex()]

    def tip(self, box: Box, view: GraphView | None = None) -> str:
        """The tooltip of a box."""
        chosen = self.runs.compared if view is self.sides.other else self.runs.shown
        run = chosen.label if chosen is not None else "in the last timed run"
        facts, state = self.facts_of(view), self._session.state
        return tip_of(box.unit, box.line, box.reason, facts, run, state)

    def cost(self, box: Box, view: GraphView | None = None) -> str:
        """The last line of a box."""
        return cost_of(box.unit, self._by, self.facts_of(view))

    def facts_of(self, view: GraphView | None = None) -> Facts:
        """Of the run that a view draws; without one, of the run that is shown."""
        return self.facts.other if view is self.sides.other else self.facts.shown

    def colour_boxes(self) -> None:
        """Colour and mark all boxes by what is known now."""
        warnings = {key: warning_of(w) for key, w in self._session.state.workloads.items()}
        sides = [(view, self.facts_of(view)) for view in self.sides.views]
        for view, facts in sides:
            view.canvas.copies = self.folding.edges(facts.copies)
        ends, marked = colour_boxes(sides, self._by, warnings)
        self.legend.show_scale(self._by, ends, marked, len(self.facts.shown.copies))
        if self._index is not None:
            self.layers.show_layers(self._index.groups, self.facts.shown, warnings)

    def _learn(self) -> None:
        """Take what the session knows into the facts, and show it."""
        if self._index is None:
            return
        state, runs = self._session.state, self.runs
        if state.node_ms and state.model is self._shown:
            self._ms = state.node_ms  # a session that begins has none: its model's last stay
        captions = self.facts.learn(self._ms, self._index.nbytes, runs.shown, runs.compared)
        for label, words in zip(self.sides.captions, captions, strict=True):
            label.setText(words)
        self.details.known.facts = self.facts.shown
        self.colour_boxes()

    def _choose_run(self) -> None:
        if self.runs.compare.currentIndex() > 0 and not self.sides.split:
            self.colour.setCurrentIndex([by.id for by in COLOUR_BY].index("delta"))
        self._learn()

    def _add_run(self, run: Run) -> None:
        nodes = len(self._nodes)
        self.runs.add(run)
        self.runs.compare_with(run.label)
        if len(run.ms) < nodes:
            self.runs.compare.setToolTip(f"{run.label} has {len(run.ms)} of {nodes} steps by name.")

    # Search

    def _show_hits(self) -> None:
        self._mark_hits()
        if self.search.found:
            key = self.folding.shown_as(self.search.found[0].name)
            if key in self.view.boxes:
                self.view.look_at(self.view.boxes[key])

    def _mark_hits(self) -> None:
        if self._index is not None:
            keys = {self.folding.shown_as(node.name) for node in self.search.found}
            for view in self.sides.views:
                for box in view.boxes.values():
                    box.found = box.unit.key in keys
                view.redraw()
