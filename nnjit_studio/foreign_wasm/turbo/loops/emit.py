"""From a value graph and an order of its values to the bytes of a loop's body."""

from __future__ import annotations

from collections.abc import Iterable

from nnjit_studio.foreign_wasm.turbo.loops.graph import LoopGraph
from nnjit_studio.foreign_wasm.turbo.loops.operators import BR_IF, LOCAL_GET, LOCAL_SET, LOCAL_TEE
from nnjit_studio.wasm_file import leb


class FreshLocals:
    """Locals that a function gets in addition; its loops share them.

    Attributes
    ----------
    first
        Index of the first of them.
    types
        Value type of each, in their order.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self._taken: dict[int, int] = {}
        self.types: list[int] = []

    def next_loop(self) -> None:
        """No value of another loop is wanted any more."""
        self._taken = {}

    def take(self, kind: int) -> int:
        """Index of a local of that type that this loop does not use yet."""
        skipped = self._taken.get(kind, 0)
        self._taken[kind] = skipped + 1
        same = [n for n, t in enumerate(self.types) if t == kind]
        if skipped < len(same):
            return self.first + same[skipped]
        self.types.append(kind)
        return self.first + len(self.types) - 1

    def groups(self) -> list[bytes]:
        """Encoded groups of the declaration of locals."""
        groups: list[list[int]] = []
        for kind in self.types:
            if groups and groups[-1][1] == kind:
                groups[-1][0] += 1
            else:
                groups.append([1, kind])
        return [leb.unsigned(count) + bytes((kind,)) for count, kind in groups]


def emit(graph: LoopGraph, steps: Iterable[int], fresh: FreshLocals) -> bytes:
    """The loop's body with its ``br_if 0``.

    Locals keep their values of before until every new one is on the stack, so that no value is
    read too late.
    """
    writer = _Writer(graph, fresh)
    for number in steps:
        writer.compute(number)
        writer.keep(number)
    writer.push(graph.condition)
    for number in graph.finals.values():
        writer.push(number)
    for local in reversed(graph.finals):
        writer.out += bytes((LOCAL_SET,)) + leb.unsigned(local)
    return bytes(writer.out) + bytes((BR_IF, 0))


class _Writer:
    def __init__(self, graph: LoopGraph, fresh: FreshLocals) -> None:
        self.out = bytearray()
        self._graph, self._fresh = graph, fresh
        self._uses = graph.uses()
        self._held: dict[int, int] = {}

    def compute(self, number: int) -> None:
        node = self._graph.nodes[number]
        for arg in node.args:
            self.push(arg)
        self.out += node.text

    def keep(self, number: int) -> None:
        """Take the value from the stack into a local of its own."""
        self._hold(number, LOCAL_SET)

    def push(self, number: int) -> None:
        if number in self._held:
            self.out += bytes((LOCAL_GET,)) + leb.unsigned(self._held[number])
            return
        self.compute(number)
        if self._uses[number] > 1 and not self._graph.nodes[number].given:
            self._hold(number, LOCAL_TEE)

    def _hold(self, number: int, code: int) -> None:
        local = self._held[number] = self._fresh.take(self._graph.nodes[number].type)
        self.out += bytes((code,)) + leb.unsigned(local)
