"""The graph with some of its groups closed, laid out in a thread where it is large."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from nnjit_studio.model import Graph, Node, Workload
from nnjit_studio.model.readable import words_of
from nnjit_studio.ui.graph.boxes import Sheet
from nnjit_studio.ui.graph.drawing import arrange
from nnjit_studio.ui.graph.facts import Copies, nbytes_of
from nnjit_studio.ui.graph.groups import Groups, Unit
from nnjit_studio.ui.state.jobs import reader
from nnjit_studio.ui.widgets import text


class Index:
    """Groups, bytes and searchable words of a graph's nodes."""

    def __init__(self, graph: Graph, workloads: Sequence[Workload]) -> None:
        self.graph = graph
        self.groups = Groups(graph)
        self.at_first = self.groups.at_first()
        self.nbytes = nbytes_of(graph, workloads)
        self._words = [(node, self._words_of(node)) for node in graph.nodes]

    def find(self, words: str) -> list[Node]:
        """The nodes whose op, shape, workload or names hold every word; none without words."""
        wanted = words.lower().split()
        return [n for n, held in self._words if wanted and all(word in held for word in wanted)]

    def line(self, unit: Unit) -> str:
        """The second line of a box."""
        if unit.group:
            return f"{len(unit.nodes)} nodes"
        if unit.tensor:
            spec = self.graph.tensors.get(unit.tensor)
            return f"{text.shape(spec.shape)} {spec.dtype}" if spec else ""
        return self._sizes(unit.nodes[0])

    def _sizes(self, node: Node) -> str:
        """Of a product or convolution all its sizes, of another node its output's shape."""
        words = words_of(node.workload)
        return words.sizes if " by " in words.sizes or "->" in words.sizes else self._shape(node)

    def _shape(self, node: Node) -> str:
        spec = self.graph.tensors.get(node.outputs[0]) if node.outputs else None
        return text.shape(spec.shape) if spec else ""

    def _words_of(self, node: Node) -> str:
        parts = (
            node.op, self._shape(node), node.workload, str(words_of(node.workload)),
            node.name, *node.source,
        )  # fmt: skip
        return " ".join(parts).lower()


AT_ONCE = 40
"""Nodes of a graph that is laid out without a thread: a few milliseconds."""


class Folding(QObject):
    """Opens and closes groups; of several layouts that are asked for, the last one counts.

    ``index`` is None until a graph is indexed; ``goal`` is the node to show with the next sheet.
    ``current`` gives the unit of the current box.
    """

    indexed = Signal()
    """A graph was opened; its first sheet follows."""
    arranged = Signal(object)
    """``Sheet``: The graph was laid out."""
    problem = Signal(object)
    """``JobProblem``: It could not be."""

    def __init__(self, parent: QObject, current: Callable[[], Unit | None]) -> None:
        super().__init__(parent)
        self._current = current
        self.index: Index | None = None
        self.closed: frozenset[str] = frozenset()
        self.goal = ""
        self._next: Callable[[], object] | None = None
        self._worker = reader(self, self._made, self.problem.emit)

    def open(self, graph: Graph, workloads: Sequence[Workload]) -> None:
        """Index and lay out another graph, its groups closed as far as its size asks for."""
        self.clear()
        self._work(lambda: Index(graph, workloads), len(graph.nodes))

    def clear(self) -> None:
        """Forget the graph."""
        self.index = None
        self.closed, self.goal = frozenset(), ""

    def hides(self, name: str) -> bool:
        """Whether a node is in a closed group."""
        return self.index is not None and not self.closed.isdisjoint(self.index.groups.path[name])

    def show(self, name: str) -> None:
        """Open the groups around a node and make it current."""
        if self.index is not None:
            self.goal = name
            self._lay_out(self.closed.difference(self.index.groups.path[name]))

    def show_group(self, group: str) -> bool:
        """Open what hides a group; False where nothing does."""
        hides = self.closed.intersection(self.index.groups.parents[group]) if self.index else ()
        if self.index is not None and hides:
            self.goal = self.index.groups.members[group][0]
            self._lay_out(self.closed.difference(hides))
        return bool(hides)

    def open_all(self) -> None:
        self._lay_out(frozenset())

    def close_all(self) -> None:
        if self.index is not None:
            self._lay_out(self.index.groups.closed_at(0))

    def open_group(self, group: str = "") -> None:
        """Open a group one level, or without a name the one that is current."""
        current = self._current()
        group = group or (current.group if current is not None else "")
        if group and self.index is not None:
            groups = self.index.groups
            inside = {g for g, around in groups.parents.items() if group in around}
            self.goal = groups.members[group][0]
            self._lay_out((self.closed - {group}) | inside)

    def close_group(self, group: str = "") -> None:
        """Close a group, or without a name the innermost open one around the current box."""
        current = self._current()
        if self.index is None or (current is None and not group):
            return
        if current is not None and current.nodes:
            self.goal = current.nodes[0].name
            group = group or self._innermost(current)
        if group:
            self.goal = self.goal or self.index.groups.members[group][0]
            self._lay_out(self.closed | {group})

    def shown_as(self, node: str) -> str:
        """The key of the box that a node is in."""
        assert self.index is not None
        return self.index.groups.shown_as(node, self.closed)

    def edges(self, copies: Copies) -> dict[tuple[str, str], int]:
        """Bytes by the boxes that they go between; what stays in a closed group is left out."""
        found: dict[tuple[str, str], int] = {}
        for (made, read), nbytes in copies.items():
            edge = self.shown_as(made), self.shown_as(read)
            if edge[0] != edge[1]:
                found[edge] = found.get(edge, 0) + nbytes
        return found

    def _lay_out(self, closed: frozenset[str]) -> None:
        index, current = self.index, self._current()
        if index is None:
            return
        self.closed = closed
        if current is not None and current.nodes:
            self.goal = self.goal or current.nodes[0].name
        self._work(lambda: Sheet(arrange(index.groups, closed), index.line), len(index.graph.nodes))

    def _innermost(self, current: Unit) -> str:
        assert self.index is not None
        path = self.index.groups.path[current.nodes[0].name]
        outer = [g for g in path if g not in self.closed and g != current.group]
        if current.group:
            outer = [g for g in outer if len(g) < len(current.group)]
        return outer[-1] if outer else ""

    def _work(self, work: Callable[[], object], nodes: int) -> None:
        """Run ``work``: for a large graph in a thread, after the work that runs there."""
        if nodes <= AT_ONCE:
            self._made(work())
        elif not self._worker.start("layout", lambda _: work()):
            self._next = work

    def _made(self, made: object) -> None:
        work, self._next = self._next, None
        if work is not None:
            self._worker.start("layout", lambda _: work())
        elif isinstance(made, Index):
            self.index = made
            self.indexed.emit()
            self._lay_out(made.at_first)
        elif isinstance(made, Sheet):
            self.arranged.emit(made)
