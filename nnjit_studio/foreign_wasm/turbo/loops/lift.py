"""From the body of an innermost loop to its value graph."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.foreign_wasm.turbo.loops.graph import LoopGraph, Node, Nodes, given, reachable
from nnjit_studio.foreign_wasm.turbo.loops.operators import (
    BR_IF,
    CONSTANTS,
    DROP,
    LOADS,
    LOCAL_GET,
    LOCAL_SET,
    LOCAL_TEE,
    NUMBERS,
    OPERATORS,
    SELECT,
)
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.instructions import Instruction

MOST_INSTRUCTIONS, MOST_DEPTH = 1500, 250
"""No kernel comes near; ordering takes a time that grows with the square of the length."""
_OTHER_MEMORY = 0x40
"""Bit of the alignment of a load that names its memory."""


class NotLiftable(Exception):
    """The body holds something that a value graph cannot; the message says what."""


def lift(nodes: Nodes, data: bytes, body: Sequence[Instruction], types: Sequence[int]) -> LoopGraph:
    """The value graph of a loop's body, which ends in ``br_if 0`` with nothing else on the stack.

    Parameters
    ----------
    nodes
        Where the nodes go: bodies that are to be compared share it.
    data
        Bytes of the function that the instructions' positions mean.
    types
        Value type of each local.

    Raises
    ------
    NotLiftable
        Stores, calls, atomics, traps of arithmetic, inner control flow, another memory; or
        more than :data:`MOST_INSTRUCTIONS`.
    """
    if len(body) > MOST_INSTRUCTIONS:
        raise NotLiftable(f"it has more than {MOST_INSTRUCTIONS} instructions")
    return _Lifting(nodes, data, types).run(body)


class _Lifting:
    def __init__(self, nodes: Nodes, data: bytes, types: Sequence[int]) -> None:
        self._nodes, self._data, self._types = nodes, data, types
        self._stack: list[int] = []
        self._locals: dict[int, int] = {}
        self._order: dict[int, None] = {}
        self._depth: dict[int, int] = {}

    def run(self, body: Sequence[Instruction]) -> LoopGraph:
        *inner, last = body
        for instruction in inner:
            self._step(instruction)
        if last.opcode != BR_IF or len(self._stack) != 1:
            raise NotLiftable("more than a condition is on the stack at its end")
        (condition,) = self._stack
        finals = {n: v for n, v in self._locals.items() if v != self._given(n)}
        order = tuple(self._order)
        live = set(reachable(self._nodes, (*finals.values(), condition)))
        loads = frozenset(n for n in order if self._nodes[n].code in LOADS)
        computed = tuple(n for n in order if n in live)
        return LoopGraph(self._nodes, finals, condition, computed, loads)

    def _step(self, instruction: Instruction) -> None:
        code = instruction.opcode
        text = self._data[instruction.start : instruction.end]
        if code in (LOCAL_GET, LOCAL_SET, LOCAL_TEE):
            self._local(code, leb.read_unsigned(text, 1)[0])
        elif code == DROP:
            self._pop()
        elif code in CONSTANTS:
            self._push(Node(code, text, (), CONSTANTS[code]))
        elif code in LOADS:
            if text[2 if text[0] == 0xFD else 1] & _OTHER_MEMORY:
                raise NotLiftable("it reads a memory that is not the first")
            self._push(Node(code, text, (self._pop(),), LOADS[code][0]))
        elif code == SELECT:
            *values, condition = self._take(3)
            kind = self._nodes[values[0]].type
            self._push(Node(code, text, (*values, condition), kind))
        elif code in OPERATORS:
            arity, result = OPERATORS[code]
            self._push(Node(code, text, self._take(arity), result))
        else:
            raise NotLiftable(f"it holds the instruction {text[:2].hex(' ')}")

    def _local(self, code: int, number: int) -> None:
        if code == LOCAL_GET:
            self._stack.append(self._locals.get(number, -1))
            if self._stack[-1] < 0:
                self._stack[-1] = self._given(number)
            return
        self._locals[number] = self._pop()
        if code == LOCAL_TEE:
            self._stack.append(self._locals[number])

    def _given(self, number: int) -> int:
        """The node of what a local holds when the iteration begins."""
        kind = self._types[number]
        if kind not in NUMBERS:
            raise NotLiftable("it uses references")
        node = self._nodes.add(given(number, kind))
        self._order.setdefault(node)
        return node

    def _push(self, node: Node) -> None:
        number = self._nodes.add(node)
        self._order.setdefault(number)
        self._depth[number] = 1 + max((self._depth.get(a, 0) for a in node.args), default=0)
        if self._depth[number] > MOST_DEPTH:
            raise NotLiftable(f"a value is more than {MOST_DEPTH} operations deep")
        self._stack.append(number)

    def _take(self, count: int) -> tuple[int, ...]:
        if len(self._stack) < count:
            raise NotLiftable("it takes values from outside of the loop")
        taken = tuple(self._stack[-count:])
        del self._stack[-count:]
        return taken

    def _pop(self) -> int:
        return self._take(1)[0]
