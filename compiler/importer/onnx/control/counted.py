"""Ranges over sizes: what follows from them at one size is another constant at the next."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

import onnx

_READS = ("Gather", "GatherElements", "GatherND")


@dataclass
class Counted:
    """What a walk finds of them."""

    kept: bool = False
    """Whether each is a computation, and what follows from it, and not a constant."""
    ends: list[int] = field(default_factory=list)
    """Where each ends."""
    from_sizes: set[str] = field(default_factory=set)
    """Values that hang on the size of a tensor."""
    sources: dict[str, frozenset[int]] = field(default_factory=dict)
    """Numbers of the kept ranges that a value follows from."""
    tables: list[tuple[int, ...]] = field(default_factory=list)
    """Of each read of weights at places that follow from kept ranges, where these end."""

    def follow(self, node: onnx.NodeProto, constants: Container[str]) -> None:
        """Note what the results of a node follow from."""
        names = [n for n in node.output if n]
        if not self.from_sizes.isdisjoint(node.input):
            self.from_sizes.update(names)
        sources = frozenset().union(*(self.sources.get(n, ()) for n in node.input))
        if sources:
            self.sources.update(dict.fromkeys(names, sources))
            if node.op_type in _READS and node.input[0] in constants:
                self.tables.append(tuple(self.ends[i] for i in sorted(sources)))
