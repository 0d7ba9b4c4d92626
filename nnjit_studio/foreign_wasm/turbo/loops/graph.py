"""Value graphs: what a loop body computes, without the order in which it does.

A node is an instruction and the nodes that it takes. Nodes are hash-consed: two computations are
the same values exactly when they are the same node of one graph, which makes the comparison of an
old body with a new one a comparison of numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nnjit_studio.foreign_wasm.turbo.loops.operators import CONSTANTS, LOADS, LOCAL_GET, V128
from nnjit_studio.wasm_file import leb


@dataclass(frozen=True)
class Node:
    """An instruction with its bytes, the nodes of its operands in order, and its value type.

    What a local holds when the iteration begins is a node ``local.get`` without operands.
    """

    code: int
    text: bytes
    args: tuple[int, ...]
    type: int

    @property
    def given(self) -> bool:
        """Whether it costs nothing to have it again: a local of before, or a constant."""
        return self.code == LOCAL_GET or self.code in CONSTANTS


class Nodes:
    """All nodes that are compared with one another; operands have lower numbers than users."""

    def __init__(self) -> None:
        self._list: list[Node] = []
        self._number: dict[Node, int] = {}

    def __getitem__(self, number: int) -> Node:
        return self._list[number]

    def add(self, node: Node) -> int:
        number = self._number.setdefault(node, len(self._list))
        if number == len(self._list):
            self._list.append(node)
        return number


def given(local: int, kind: int) -> Node:
    """What a local holds when the iteration begins."""
    return Node(LOCAL_GET, bytes((LOCAL_GET,)) + leb.unsigned(local), (), kind)


@dataclass(frozen=True)
class LoopGraph:
    """One iteration of a loop.

    Attributes
    ----------
    finals
        Node of each local that has another value after the iteration.
    condition
        Node that says whether the loop goes on.
    order
        Nodes that are needed, operands before users.
    loads
        Every load that the body makes, needed or not.
    """

    nodes: Nodes
    finals: dict[int, int]
    condition: int
    order: tuple[int, ...]
    loads: frozenset[int]

    @property
    def roots(self) -> tuple[int, ...]:
        return (*self.finals.values(), self.condition)

    @property
    def replaced(self) -> frozenset[int]:
        """Nodes of what locals hold before the iteration that gives them another value."""
        texts = {given(local, V128).text for local in self.finals}
        return frozenset(n for n in self.order if self.nodes[n].text in texts)

    def reachable(self) -> tuple[int, ...]:
        """Nodes that the roots need, operands before users."""
        return reachable(self.nodes, self.roots)

    def uses(self) -> Counter[int]:
        """How often each node is taken, by nodes that the roots need and by the roots."""
        taken = Counter(self.roots)
        for number in self.reachable():
            taken.update(self.nodes[number].args)
        return taken

    def is_vector(self, number: int) -> bool:
        return self.nodes[number].type == V128


def reachable(nodes: Nodes, roots: Iterable[int]) -> tuple[int, ...]:
    """The nodes below some roots, in ascending order: operands before users."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        number = stack.pop()
        if number not in seen:
            seen.add(number)
            stack.extend(nodes[number].args)
    return tuple(sorted(seen))


Rule = Callable[[Node, Node], "Node | None"]
"""Another node for a value, or None: of the node with rewritten operands, and of the original."""


def rewritten(graph: LoopGraph, rule: Rule) -> LoopGraph:
    """The graph with a rule applied once to every node, operands first."""
    nodes = graph.nodes
    new: dict[int, int] = {}
    for number in graph.reachable():
        old = nodes[number]
        node = Node(old.code, old.text, tuple(new[a] for a in old.args), old.type)
        new[number] = nodes.add(rule(node, old) or node)
    finals = {local: new[n] for local, n in graph.finals.items()}
    return of_roots(nodes, finals, new[graph.condition])


def of_roots(nodes: Nodes, finals: dict[int, int], condition: int) -> LoopGraph:
    """The graph of these results, in the order of the nodes' numbers."""
    order = reachable(nodes, (*finals.values(), condition))
    loads = frozenset(n for n in order if nodes[n].code in LOADS)
    return LoopGraph(nodes, finals, condition, order, loads)


def reach(graph: LoopGraph) -> dict[int, int]:
    """One past the last byte that loads read from each address node.

    A load traps exactly when its last byte lies outside of memory, so bodies with the same reach
    trap in the same iterations.
    """
    ends: dict[int, int] = {}
    for number in graph.loads:
        node = graph.nodes[number]
        offset, size = memory_offset(node.text), LOADS[node.code][1]
        (address,) = node.args
        ends[address] = max(ends.get(address, 0), offset + size)
    return ends


def memory_offset(text: bytes) -> int:
    """Offset of a load: after the opcode and the alignment."""
    _, after = leb.read_unsigned(text, 2 if text[0] == 0xFD else 1)
    return leb.read_unsigned(text, after)[0]
