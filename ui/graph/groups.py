"""Layers of a model by the names of its nodes, and the graph with some of them closed.

Knows no Qt. A group is a prefix of node names: ``encoder/layer.3`` holds
``/encoder/layer.3/attention/MatMul``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from nnjit_studio.model import Graph, Node
from nnjit_studio.model.readable import words_of
from nnjit_studio.model.scopes import scopes

OPEN_AT_FIRST = 150
"""Boxes that a graph opens with at most, where its groups allow."""


@dataclass(frozen=True)
class Unit:
    """The content of one box: nodes of a closed group, one node, or a port without any."""

    key: str
    title: str
    nodes: tuple[Node, ...] = ()
    group: str = ""
    tensor: str = ""

    @property
    def node(self) -> Node | None:
        return self.nodes[0] if self.nodes and not self.group else None


@dataclass(frozen=True)
class Folded:
    """The boxes in order of execution, and the edges between them.

    ``backward`` edges lead from a group into one that began earlier; the
    layering does not know them.
    """

    units: Mapping[str, Unit]
    edges: tuple[tuple[str, str], ...]
    backward: tuple[tuple[str, str], ...]


def _title(node: Node) -> str:
    return words_of(node.workload).title if node.workload else node.op


class Groups:
    """The groups of a graph; those with a single node, or with all of them, are none."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        every: dict[str, list[str]] = {}
        path = {node.name: scopes(node.name) for node in graph.nodes}
        for name, around in path.items():
            for group in around:
                every.setdefault(group, []).append(name)
        kept = {group for group, names in every.items() if 1 < len(names) < len(path)}
        self.members = {group: tuple(every[group]) for group in every if group in kept}
        self.path = {n: tuple(g for g in around if g in kept) for n, around in path.items()}

    @cached_property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """The groups around a group, the outermost first."""
        return {
            group: tuple(g for g in self.path[names[0]] if len(g) < len(group))
            for group, names in self.members.items()
        }

    def closed_at(self, depth: int) -> frozenset[str]:
        """All groups that have ``depth`` groups around them or more."""
        return frozenset(g for g, around in self.parents.items() if len(around) >= depth)

    def at_first(self) -> frozenset[str]:
        """What is closed when the graph appears: as little as keeps it below a number of boxes."""
        deepest = max((len(around) for around in self.parents.values()), default=-1) + 1
        for depth in range(deepest, -1, -1):
            closed = self.closed_at(depth)
            if len(self._units(closed)) <= OPEN_AT_FIRST:
                return closed
        return self.closed_at(0)

    def shown_as(self, node: str, closed: Collection[str]) -> str:
        """The key of the box that a node is in: its outermost closed group, or itself."""
        return next((f"group:{g}" for g in self.path[node] if g in closed), node)

    def fold(self, closed: Collection[str]) -> Folded:
        """The graph with these groups closed."""
        graph = self.graph
        units = {f"in:{name}": Unit(f"in:{name}", name, tensor=name) for name in graph.inputs}
        units |= self._units(closed)
        place = {node.name: self.shown_as(node.name, closed) for node in graph.nodes}
        maker = {name: f"in:{name}" for name in graph.inputs}
        maker |= {out: place[node.name] for node in graph.nodes for out in node.outputs}
        # A tensor that no node makes is a weight: weights are not drawn.
        pairs = [(maker[i], place[n.name]) for n in graph.nodes for i in n.inputs if i in maker]
        for name in graph.outputs:
            units[f"out:{name}"] = Unit(f"out:{name}", name, tensor=name)
            if name in maker:
                pairs.append((maker[name], f"out:{name}"))
        order = {key: i for i, key in enumerate(units)}
        unique = [(a, b) for a, b in dict.fromkeys(pairs) if a != b]
        return Folded(
            units,
            tuple(e for e in unique if order[e[0]] < order[e[1]]),
            tuple(e for e in unique if order[e[0]] > order[e[1]]),
        )

    def _units(self, closed: Collection[str]) -> dict[str, Unit]:
        inside: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            inside.setdefault(self.shown_as(node.name, closed), []).append(node)
        return {
            key: Unit(key, key[6:], tuple(nodes), key[6:])
            if key.startswith("group:")
            else Unit(key, _title(nodes[0]), tuple(nodes))
            for key, nodes in inside.items()
        }
