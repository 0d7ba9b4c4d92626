"""The text form of Wasm IR: folded WAT, for goldens, dumps and the kernel inspector."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from nnjit_studio.compiler.wasm.ir import (
    Call,
    Const,
    Function,
    IfElse,
    Load,
    LocalGet,
    LocalSet,
    LocalTee,
    Loop,
    Node,
    Op,
    Store,
)


def function_text(function: Function) -> str:
    """WAT of the whole function."""
    return "\n".join(_Printer(function).lines()) + "\n"


class _Printer:
    def __init__(self, function: Function) -> None:
        self._function = function

    def lines(self) -> Iterator[str]:
        function = self._function
        params = " ".join(f"(param {self._name(i)} i32)" for i in range(len(function.params)))
        yield f"(func $run {params}"
        for i, type in enumerate(function.locals):
            yield f"  (local {self._name(len(function.params) + i)} {type})"
        yield from self._block(function.body, 1)
        yield ")"

    def _name(self, local: int) -> str:
        params = self._function.params
        if local < len(params):
            return f"${params[local]}"
        name = self._function.names.get(local, "").lstrip("$")
        return f"${name}.{local}" if name else f"${local}"

    def _block(self, nodes: Sequence[Node], depth: int) -> Iterator[str]:
        for node in nodes:
            yield from self._statement(node, depth)

    def _statement(self, node: Node, depth: int) -> Iterator[str]:
        pad = "  " * depth
        if isinstance(node, Loop):
            yield f"{pad}(loop"
            yield from self._block(node.body, depth + 1)
            yield f"{pad}  (br_if 0 {self._inline(node.condition)}))"
        elif isinstance(node, IfElse):
            result = f" (result {node.type})" if node.type else ""
            yield f"{pad}(if{result} {self._inline(node.condition)}"
            yield f"{pad}  (then"
            yield from self._block(node.then, depth + 2)
            yield f"{pad}  )"
            if node.otherwise:
                yield f"{pad}  (else"
                yield from self._block(node.otherwise, depth + 2)
                yield f"{pad}  )"
            yield f"{pad})"
        elif isinstance(node, LocalSet) and isinstance(node.value, IfElse):
            yield f"{pad}(local.set {self._name(node.local)}"
            yield from self._statement(node.value, depth + 1)
            yield f"{pad})"
        else:
            yield pad + self._inline(node)

    def _inline(self, node: Node) -> str:
        if isinstance(node, LocalGet):
            return f"(local.get {self._name(node.local)})"
        if isinstance(node, LocalSet):
            return f"(local.set {self._name(node.local)} {self._inline(node.value)})"
        if isinstance(node, LocalTee):
            return f"(local.tee {self._name(node.local)} {self._inline(node.value)})"
        if isinstance(node, Const):
            if isinstance(node.value, bytes):
                words = " ".join(f"0x{w:08x}" for w in struct.unpack("<4I", node.value))
                return f"(v128.const i32x4 {words})"
            return f"({node.type}.const {node.value})"
        if isinstance(node, Load):
            lane = f" {node.lane}" if node.vector is not None else ""
            vector = f" {self._inline(node.vector)}" if node.vector is not None else ""
            return f"({node.op}{_at(node.offset)}{lane} {self._inline(node.address)}{vector})"
        if isinstance(node, Store):
            lane = f" {node.lane}" if node.lane >= 0 else ""
            operands = f"{self._inline(node.address)} {self._inline(node.value)}"
            return f"({node.op}{_at(node.offset)}{lane} {operands})"
        if isinstance(node, Call):
            return f"(call {node.function} {' '.join(self._inline(a) for a in node.args)})"
        if isinstance(node, Op):
            lane = f" {node.lane}" if node.lane >= 0 else ""
            return f"({node.name}{lane} {' '.join(self._inline(a) for a in node.args)})"
        return " ".join(line.strip() for line in self._statement(node, 0))


def _at(offset: int) -> str:
    return f" offset={offset}" if offset else ""
