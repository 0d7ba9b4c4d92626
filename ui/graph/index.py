"""What is made of a graph once, when it is opened. Knows no Qt, so any thread may do it."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.model import Graph, Node, Workload
from nnjit_studio.ui.graph.facts import nbytes_of
from nnjit_studio.ui.graph.groups import Groups, Unit
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
        return self._shape(unit.nodes[0])

    def _shape(self, node: Node) -> str:
        spec = self.graph.tensors.get(node.outputs[0]) if node.outputs else None
        return text.shape(spec.shape) if spec else ""

    def _words_of(self, node: Node) -> str:
        parts = (node.op, self._shape(node), node.workload, node.name, *node.source)
        return " ".join(parts).lower()
