"""A whole function on symbolic values: which loops lift, and why the others do not.

Values are followed through the function, so that a loop's counter that starts at a constant, and
an end pointer that is a constant behind its start, are known as such. Where ways join, locals that
were set on one of them become new symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise

from nnjit_studio.foreign_wasm.offload.lift.code import Code, literal_of, offset_of
from nnjit_studio.foreign_wasm.offload.lift.loops import EFFECTS, run_loop
from nnjit_studio.foreign_wasm.offload.lift.machine import MOST_STEPS, Machine
from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    F32,
    I32,
    V128,
    Atom,
    Const,
    Lanes,
    Linear,
    Load,
    Scalar,
    Unknown,
    Value,
    number,
    symbol,
)

Signature = Callable[[int], tuple[int, int]]
"""Values taken and given by the call of a function, or of a type."""


@dataclass(frozen=True)
class Lifted:
    """A loop nest that was run: the machine before its loop and behind it."""

    begin: int
    end: int
    before: tuple[Value, ...]
    after: Machine
    written: tuple[int, ...]


@dataclass
class Walk:
    """The walk over one function.

    Attributes
    ----------
    lifted
        The outermost loops that lift.
    refused
        The reason of each other loop, by its instruction.
    """

    code: Code
    function: Signature
    type: Signature
    locals: list[Value] = field(default_factory=list)
    stack: list[Value] = field(default_factory=list)
    lifted: list[Lifted] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    budget: list[int] = field(default_factory=lambda: [MOST_STEPS])
    _loaded: bool = False
    """Whether a local or the stack may hold what was loaded."""

    def run(self, parameters: int) -> None:
        """Walk the function from its entry."""
        self._fresh = count(1)
        for i, type_ in enumerate(self.code.types):
            self.locals.append(self._symbol(type_) if i < parameters else _zero(type_))
        self._block(0, len(self.code.instructions) - 1)

    def _symbol(self, type_: int) -> Value:
        return symbol(type_, lambda _: Atom("entry", next(self._fresh)))

    def _forget(self, begin: int, end: int) -> None:
        self._memory_changed()
        for x in self.code.written(begin, end):
            self.locals[x] = self._symbol(self.code.types[x])

    def _memory_changed(self) -> None:
        """What was loaded before need not be what memory holds now."""
        if self._loaded:
            for values in (self.locals, self.stack):
                for i, value in enumerate(values):
                    if _has_loads(value):
                        values[i] = self._symbol(V128 if isinstance(value, Lanes) else F32)
        self._loaded = False

    def _block(self, begin: int, end: int) -> None:
        """Instructions up to ``end``, or to the first behind which nothing runs."""
        i = begin
        while i < end:
            name = self.code.names[i]
            if name in ("br", "br_table", "return", "unreachable", "throw", "rethrow", "throw_ref"):
                return
            if name.startswith("return_call"):
                return
            if i in self.code.ends and name != "end":
                i = self._construct(i, name)
            else:
                self._instruction(i, name)
            i += 1

    def _construct(self, begin: int, name: str) -> int:
        """A block, loop or condition as a whole; the instruction of its end."""
        end = self.code.ends[begin]
        taken, given = self._arity(self.code.instructions[begin].immediates[0])
        if name == "if":
            self._pop()
        height = len(self.stack) - taken
        if name == "loop":
            self._loop(begin, end)
        elif name == "block":
            self._block(begin + 1, end)
            if begin in self.code.reached:
                self._forget(begin, end)
        else:
            self._ways(begin, end)
        if name != "block" or begin in self.code.reached or len(self.stack) != height + given:
            del self.stack[height:]
            self.stack += [Unknown("branch")] * given
        return end

    def _ways(self, begin: int, end: int) -> None:
        """The parts of a condition or of a handler, each from the same state."""
        parts = [begin, *self._parts(begin, end), end]
        state, stack = list(self.locals), list(self.stack)
        for first, last in pairwise(parts):
            self.locals, self.stack = list(state), list(stack)
            self._loaded = True
            if self.code.names[begin] != "if" and first != begin:
                self._forget(begin, first)
            self._block(first + 1, last)
        self.locals, self.stack = state, stack
        self._loaded = True
        self._forget(begin, end)

    def _parts(self, begin: int, end: int) -> list[int]:
        found, i = [], begin + 1
        while i < end:
            if i in self.code.ends:
                i = self.code.ends[i]
            elif self.code.names[i] in ("else", "catch", "catch_all"):
                found.append(i)
            i += 1
        return found

    def _loop(self, begin: int, end: int) -> None:
        written = self.code.written(begin, end)
        for x in range(len(self.locals)):
            if x not in written and _has_loads(self.locals[x]):
                self.locals[x] = self._symbol(self.code.types[x])
        before = tuple(self.locals)
        m = Machine(list(before), budget=self.budget)
        try:
            run_loop(self.code, begin, m)
        except Refused as refused:
            self.refused[begin] = refused.reason
            self._forget(begin, end)
            self._block(begin + 1, end)
            self._forget(begin, end)
            return
        self.lifted.append(Lifted(begin, end, before, m, tuple(written)))
        self._forget(begin, end)

    def _instruction(self, i: int, name: str) -> None:
        instruction = self.code.instructions[i]
        given = instruction.immediates
        if name == "local.get":
            self.stack.append(self.locals[given[0]])
        elif name in ("local.set", "local.tee"):
            value = self._pop()
            type_ = self.code.types[given[0]]
            self.locals[given[0]] = value = value if _settled(value) else self._symbol(type_)
            if name == "local.tee":
                self.stack.append(value)
        elif name == "call":
            self._call(*self.function(given[0]))
        elif name in ("call_indirect", "call_ref"):
            if name == "call_indirect":
                self._pop()
            self._call(*self.type(given[0]))
        elif name == "br_if":
            self._pop()
        elif name == "global.get":
            self.stack.append(Unknown("address"))
        elif name == "global.set":
            self._pop()
        elif name not in ("nop", "end"):
            m = Machine([], self.stack)
            offset = max(offset_of(instruction), 0)
            m.step(name, instruction.opcode, offset, literal_of(instruction))
            self._loaded |= ".load" in name
            if any(word in name for word in EFFECTS):
                self._memory_changed()

    def _call(self, taken: int, given: int) -> None:
        for _ in range(taken):
            self._pop()
        self.stack += [Unknown("call")] * given
        self._memory_changed()

    def _pop(self) -> Value:
        return self.stack.pop() if self.stack else Unknown("branch")

    def _arity(self, block_type: int) -> tuple[int, int]:
        if block_type >= 0:
            return self.type(block_type)
        return 0, int(block_type != -64)


def _settled(value: Value) -> bool:
    """Whether a value outside of nests is kept, not replaced by a symbol."""
    if isinstance(value, Lanes):
        return all(isinstance(lane, (Const, Scalar, Load, Linear)) for lane in value.lanes)
    return isinstance(value, (Linear, Const, Scalar, Load))


def _has_loads(value: Value) -> bool:
    if isinstance(value, Lanes):
        return any(isinstance(lane, Load) for lane in value.lanes)
    return isinstance(value, Load)


def _zero(type_: int) -> Value:
    if type_ == I32:
        return number(0)
    if type_ == F32:
        return Const(0.0)
    return Lanes((Const(0.0),) * 4) if type_ == V128 else Unknown("integer")
