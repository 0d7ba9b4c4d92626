"""The binary writer: one builder for each section of the module (core spec, 5.5)."""

from __future__ import annotations

import struct
from itertools import groupby

from nnjit_studio.compiler.wasm.instructions import MEMORY, OPCODES, VALUE_TYPES
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
from nnjit_studio.wasm_file.leb import signed, unsigned
from nnjit_studio.wasm_file.sections import function_type, module_of, sized, text, vector

_I32 = VALUE_TYPES["i32"]


def encode_module(function: Function) -> bytes:
    """A module that imports ``env.memory`` and exports the function as ``run``."""
    memory = b"\x02\x00" + unsigned(1)  # a memory, unshared, at least one page, no maximum
    return module_of(
        {
            "type": [function_type(_I32 * len(function.params), b"")],
            "import": [text("env") + text("memory") + memory],
            "function": [unsigned(0)],
            "export": [text("run") + b"\x00" + unsigned(0)],
            "code": [sized(encode_body(function))],
        }
    )


def encode_body(function: Function) -> bytes:
    """Locals and code, without the size in front (core spec, 5.5.13)."""
    runs = [(len(list(group)), type) for type, group in groupby(function.locals)]
    out = bytearray(vector([unsigned(count) + VALUE_TYPES[type] for count, type in runs]))
    for node in function.body:
        _emit(node, out)
    out.append(0x0B)
    return bytes(out)


def _emit(node: Node, out: bytearray) -> None:
    kind = type(node)
    if kind is LocalGet:
        out += b"\x20" + unsigned(node.local)  # type: ignore[union-attr]
    elif isinstance(node, Op):
        for arg in node.args:
            _emit(arg, out)
        out += OPCODES[node.name]
        if node.lane >= 0:
            out.append(node.lane)
    elif isinstance(node, LocalSet):
        _emit(node.value, out)
        out += b"\x21" + unsigned(node.local)
    elif isinstance(node, LocalTee):
        _emit(node.value, out)
        out += b"\x22" + unsigned(node.local)
    elif isinstance(node, Load):
        _emit(node.address, out)
        if node.vector is not None:
            _emit(node.vector, out)
        opcode, align = MEMORY[node.op]
        out += opcode + unsigned(align) + unsigned(node.offset)
        if node.vector is not None:
            out.append(node.lane)
    elif isinstance(node, Store):
        _emit(node.address, out)
        _emit(node.value, out)
        opcode, align = MEMORY[node.op]
        out += opcode + unsigned(align) + unsigned(node.offset)
        if node.lane >= 0:
            out.append(node.lane)
    elif isinstance(node, Const):
        out += _constant(node)
    elif isinstance(node, Call):
        for arg in node.args:
            _emit(arg, out)
        out += b"\x10" + unsigned(node.function)
    elif isinstance(node, IfElse):
        _emit(node.condition, out)
        out += b"\x04" + (VALUE_TYPES[node.type] if node.type else b"\x40")
        for child in node.then:
            _emit(child, out)
        if node.otherwise:
            out.append(0x05)
            for child in node.otherwise:
                _emit(child, out)
        out.append(0x0B)
    else:
        assert isinstance(node, Loop)
        out += b"\x03\x40"
        for child in node.body:
            _emit(child, out)
        _emit(node.condition, out)
        out += b"\x0d\x00\x0b"


def _constant(node: Const) -> bytes:
    if isinstance(node.value, bytes):
        return b"\xfd\x0c" + node.value
    if node.type == "f32":
        return b"\x43" + struct.pack("<f", node.value)
    return (b"\x41" if node.type == "i32" else b"\x42") + signed(int(node.value))
