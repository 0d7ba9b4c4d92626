"""Wasm IR: expression trees, one node for each instruction (NNJIT paper, section 4.2).

Nodes are never changed after they are made, so trees may share parts. They
are not declared frozen because that makes them three times slower to build,
and a candidate is a few thousand nodes within milliseconds.

A statement is a node that leaves nothing on the stack. In an :class:`IfElse`
with a type the last node of each branch is its value.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.tensor_ir import whole


@dataclass(slots=True, eq=False)
class LocalGet:
    local: int


@dataclass(slots=True, eq=False)
class LocalSet:
    local: int
    value: Node


@dataclass(slots=True, eq=False)
class LocalTee:
    local: int
    value: Node


@dataclass(slots=True, eq=False)
class Const:
    """``value`` is bytes (16) for v128."""

    type: str
    value: int | float | bytes


@dataclass(slots=True, eq=False)
class Load:
    """``address + offset`` in bytes; ``buffer`` tells apart memory that cannot overlap.

    The lane loads replace lane ``lane`` of ``vector``.
    """

    op: str
    address: Node
    offset: int
    buffer: str
    vector: Node | None = None
    lane: int = 0


@dataclass(slots=True, eq=False)
class Store:
    op: str
    address: Node
    value: Node
    offset: int
    buffer: str
    lane: int = -1


@dataclass(slots=True, eq=False)
class Op:
    """Any other instruction; ``lane`` is its immediate, -1 for none."""

    name: str
    args: tuple[Node, ...]
    lane: int = -1


@dataclass(slots=True, eq=False)
class IfElse:
    condition: Node
    then: Sequence[Node]
    otherwise: Sequence[Node] = ()
    type: str = ""


@dataclass(slots=True, eq=False)
class Loop:
    """Runs ``body`` and again while ``condition`` (i32) holds."""

    body: Sequence[Node]
    condition: Node


@dataclass(slots=True, eq=False)
class Call:
    """Calls a function by its index in the module that the code is put into."""

    function: int
    args: tuple[Node, ...]


Node = LocalGet | LocalSet | LocalTee | Const | Load | Store | Op | IfElse | Loop | Call


@dataclass
class Function:
    """``params`` i32 parameters, then ``locals`` (types); names are for the text form."""

    params: list[str]
    locals: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    body: list[Node] = field(default_factory=list)

    def new_local(self, type: str, name: str = "") -> int:
        index = len(self.params) + len(self.locals)
        self.locals.append(type)
        if name:
            self.names[index] = name
        return index


def rebuild(node: Node, visit: Callable[[Node], Node]) -> Node:
    """The node with ``visit`` applied to its children, in order of evaluation.

    The node itself comes back when no child has changed.
    """
    kind = type(node)
    if kind is LocalGet or kind is Const:
        return node
    if isinstance(node, Op):
        args = tuple([visit(a) for a in node.args])
        same = all(map(operator.is_, args, node.args))
        return node if same else Op(node.name, args, node.lane)
    if isinstance(node, (LocalSet, LocalTee)):
        value = visit(node.value)
        return node if value is node.value else type(node)(node.local, value)
    if isinstance(node, Load):
        address = visit(node.address)
        vector = node.vector and visit(node.vector)
        if address is node.address and vector is node.vector:
            return node
        return Load(node.op, address, node.offset, node.buffer, vector, node.lane)
    if isinstance(node, Store):
        address, value = visit(node.address), visit(node.value)
        if address is node.address and value is node.value:
            return node
        return Store(node.op, address, value, node.offset, node.buffer, node.lane)
    if isinstance(node, Call):
        return Call(node.function, tuple([visit(a) for a in node.args]))
    if isinstance(node, IfElse):
        condition = visit(node.condition)
        then, otherwise = [visit(n) for n in node.then], [visit(n) for n in node.otherwise]
        return IfElse(condition, then, otherwise, node.type)
    assert isinstance(node, Loop)
    return Loop([visit(n) for n in node.body], visit(node.condition))


def round_f32(value: float) -> float:
    """The nearest float32, infinite beyond its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def i32(value: int) -> Const:
    return Const("i32", value)


def add(a: Node, b: Node) -> Node:
    """i32 sum, folded where an operand is zero or both are constants."""
    if isinstance(a, Const) and isinstance(b, Const):
        return i32(_wrap(whole(a.value) + whole(b.value)))
    if isinstance(a, Const) and a.value == 0:
        return b
    if isinstance(b, Const) and b.value == 0:
        return a
    return Op("i32.add", (a, b))


def scale(a: Node, factor: int) -> Node:
    """i32 product with a constant, as a shift where that is possible."""
    if isinstance(a, Const):
        return i32(_wrap(whole(a.value) * factor))
    if factor == 1:
        return a
    if factor > 0 and factor & (factor - 1) == 0:
        return Op("i32.shl", (a, i32(factor.bit_length() - 1)))
    return Op("i32.mul", (a, i32(_wrap(factor))))


def _wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
