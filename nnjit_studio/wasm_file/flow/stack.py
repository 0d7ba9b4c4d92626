"""The operand stack of a function, followed symbolically for its vectors."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file.flow.graph import BR, BR_TABLE, STOPS
from nnjit_studio.wasm_file.flow.liveness import GET, SET, TEE
from nnjit_studio.wasm_file.instructions import NAMES, Body, Instruction
from nnjit_studio.wasm_file.module import Module
from nnjit_studio.wasm_file.opcodes import SIGNATURES

V128 = 0x7B
EMPTY = 0x40 - 128
NEVER_GOES_ON = STOPS | {BR, BR_TABLE}

# Taken from the stack, and whether a vector results, for each opcode of a fixed type.
_EFFECTS = {
    code: (len(taken), tuple(letter == "v" for letter in given))
    for code, (taken, given) in SIGNATURES.items()
}


class Range(NamedTuple):
    """Where a vector is first there and last used, counted from the start of its block.

    ``local`` is the local that holds it when the block begins, -1 without one.
    """

    first: int
    last: int
    local: int


class Stack:
    """Values of the stack and of vector locals, as numbers; 0 is anything but a vector.

    Use it block by block in the order of the code: :meth:`enter`, a
    :meth:`step` for each instruction, :meth:`leave`.
    """

    def __init__(self, module: Module, body: Body, vectors: Set[int]) -> None:
        self._module = module
        self._vectors = vectors
        self._stack: list[int] = []
        # Of each open block: height of the stack below it, types for its start and its end.
        self._frames: list[tuple[int, bytes, bytes]] = [(0, b"", b"")]
        self._fresh = 0
        self.enter()

    def enter(self) -> None:
        """Begin a basic block: what is on the stack lives from its start."""
        self._at = 0
        self._locals: dict[int, int] = {}
        self._first = {value: 0 for value in self._stack if value}
        self._last: dict[int, int] = {}
        self._entered: dict[int, int] = {}

    def leave(self, live_out: Iterable[int]) -> list[Range]:
        """End a basic block: the range of each value that is used."""
        end = self._at + 2
        for local in live_out:
            self._last[self._local(local)] = end
        for value in self._stack:
            if value:
                self._last[value] = end
        return [
            Range(self._first[value], last, self._entered.get(value, -1))
            for value, last in self._last.items()
        ]

    def step(self, instruction: Instruction) -> None:
        """Follow one instruction."""
        self._at += 1
        opcode, immediates, *_ = instruction
        if effect := _EFFECTS.get(opcode):
            taken, given = effect
            for _ in range(taken):
                self._pop()
            for vector in given:
                self._stack.append(self._new() if vector else 0)
        elif opcode == GET:
            local = immediates[0]
            self._stack.append(self._local(local) if local in self._vectors else 0)
        elif opcode in (SET, TEE):
            value = self._pop(use=False)
            if immediates[0] in self._vectors:
                self._locals[immediates[0]] = value or self._new()
            if opcode == TEE:
                self._stack.append(value)
        else:
            self._rare(NAMES[opcode], immediates)
            if opcode in NEVER_GOES_ON:
                del self._stack[self._frames[-1][0] :]

    def _new(self) -> int:
        self._fresh += 1
        self._first[self._fresh] = self._at
        return self._fresh

    def _local(self, local: int) -> int:
        value = self._locals.get(local)
        if value is None:
            self._fresh += 1
            value = self._locals[local] = self._fresh
            self._first[value] = 0
            self._entered[value] = local
        return value

    def _pop(self, use: bool = True) -> int:
        # Code that is never reached may take more than there is.
        value = self._stack.pop() if len(self._stack) > self._frames[-1][0] else 0
        if value and use:
            self._last[value] = self._at
        return value

    def _take(self, count: int) -> None:
        for _ in range(count):
            self._pop()

    def _give(self, types: bytes) -> None:
        self._stack += (self._new() if type_ == V128 else 0 for type_ in types)

    def _rare(self, name: str, immediates: tuple[int, ...]) -> None:
        """Instructions whose types depend on their place."""
        if name in ("block", "loop", "if", "try", "try_table"):
            self._open(name, immediates)
        elif name in ("else", "catch", "catch_all"):
            self._arm(name, immediates)
        elif name in ("end", "delegate"):
            self._close()
        elif name in ("select", "select_typed"):
            self._pop()
            first, second = self._pop(), self._pop()
            self._stack.append(self._new() if first or second else 0)
        elif "call" in name:
            self._call(name, immediates)
        elif name == "global.get":
            self._give(self._module.globals[immediates[0]].type[:1])
        elif name in ("drop", "global.set", "br_if", "br_table", "br_on_non_null"):
            self._pop()
        elif name not in ("br", "return", "unreachable", "throw", "rethrow", "br_on_null"):
            raise WasmError(f"The types of {name} are not followed.")

    def _open(self, name: str, immediates: tuple[int, ...]) -> None:
        if name == "if":
            self._pop()
        kind = immediates[0]
        if kind >= 0:
            type_ = self._module.types[kind] if kind < len(self._module.types) else None
            if type_ is None:
                raise WasmError(f"A block has the type {kind}, which is no function type.")
            before, after = type_
        else:
            before, after = b"", b"" if kind == EMPTY else bytes([kind + 128])
        self._frames.append((max(0, len(self._stack) - len(before)), before, after))

    def _arm(self, name: str, immediates: tuple[int, ...]) -> None:
        height, before, _ = self._frames[-1]
        del self._stack[height:]
        if name == "else":
            self._give(before)
        elif name == "catch":
            type_ = self._module.types[self._module.tags[immediates[0]]]
            self._give(type_.params if type_ else b"")

    def _close(self) -> None:
        height, _, after = self._frames[-1]
        if len(self._frames) > 1:
            self._frames.pop()
        while len(self._stack) > height:
            if value := self._stack.pop():
                self._last[value] = self._at
        self._give(after)

    def _call(self, name: str, immediates: tuple[int, ...]) -> None:
        if name in ("call", "return_call"):
            type_ = self._module.type_of(immediates[0])
        else:
            found = self._module.types[immediates[0]]
            if found is None:
                raise WasmError("A call names a type that is no function type.")
            type_ = found
            self._pop()
        self._take(len(type_.params))
        self._give(type_.results)
