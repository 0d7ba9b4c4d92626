"""Wasm functions that differ in constants alone, made into one with parameters."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

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
    rebuild,
)

Constant = tuple[str, int | float]
"""Its type and its value; ``v128`` stands for four equal lanes of 32 bits."""


def parts(function: Function) -> tuple[tuple[object, ...], list[Constant]]:
    """What remains of a function without its constants, and these in order of evaluation."""
    rest: list[object] = [len(function.params), *function.locals]
    constants: list[Constant] = []
    for node in function.body:
        _read(node, rest, constants)
    return tuple(rest), constants


def _read(node: Node, rest: list[object], constants: list[Constant]) -> None:
    if isinstance(node, Const):
        if isinstance(node.value, bytes):
            lanes = struct.unpack("<4i", node.value)
            if len(set(lanes)) > 1:
                rest.append(node.value)
                return
            constants.append(("v128", lanes[0]))
        else:
            constants.append((node.type, node.value))
        rest.append(node.type)
        return
    rest.append(type(node).__name__)
    for child in _told(node, rest):
        _read(child, rest, constants)


def _told(node: Node, rest: list[object]) -> Sequence[Node]:
    """Tells what a node is, and returns its children in the order of :func:`rebuild`."""
    if isinstance(node, Op):
        rest += [node.name, node.lane, len(node.args)]
        return node.args
    if isinstance(node, LocalGet):
        rest.append(node.local)
        return ()
    if isinstance(node, (LocalSet, LocalTee)):
        rest.append(node.local)
        return (node.value,)
    if isinstance(node, Load):
        rest += [node.op, node.offset, node.buffer, node.lane]
        return (node.address, node.vector) if node.vector else (node.address,)
    if isinstance(node, Store):
        rest += [node.op, node.offset, node.buffer, node.lane]
        return (node.address, node.value)
    if isinstance(node, IfElse):
        rest += [len(node.then), len(node.otherwise), node.type]
        return (node.condition, *node.then, *node.otherwise)
    if isinstance(node, Loop):
        rest.append(len(node.body))
        return (*node.body, node.condition)
    assert isinstance(node, Call)
    return node.args


def with_parameters(
    function: Function, pointers: int, places: Sequence[int | None], count: int
) -> Function:
    """The function with some constants as i32 parameters between its pointers and its range.

    Parameters
    ----------
    places
        For each constant, in order, the number of its parameter, or None; a float is passed as
        its bits.
    count
        Of parameters.
    """
    upcoming = iter(places)

    def moved(local: int) -> int:
        return local + count if local >= pointers else local

    def visit(node: Node) -> Node:
        if isinstance(node, Const):
            uniform = not isinstance(node.value, bytes) or len(set(_lanes(node.value))) == 1
            place = next(upcoming) if uniform else None
            return node if place is None else _given(node.type, LocalGet(pointers + place))
        if isinstance(node, LocalGet):
            return LocalGet(moved(node.local))
        node = rebuild(node, visit)
        if isinstance(node, (LocalSet, LocalTee)):
            return type(node)(moved(node.local), node.value)
        return node

    names = [f"size{i}" for i in range(count)]
    params = [*function.params[:pointers], *names, *function.params[pointers:]]
    texts = {moved(local): name for local, name in function.names.items()}
    return Function(params, list(function.locals), texts, [visit(n) for n in function.body])


def _lanes(value: bytes) -> tuple[int, ...]:
    return struct.unpack("<4i", value)


def _given(kind: str, parameter: Node) -> Node:
    made: dict[str, Callable[[], Node]] = {
        "i32": lambda: parameter,
        "i64": lambda: Op("i64.extend_i32_s", (parameter,)),
        "f32": lambda: Op("f32.reinterpret_i32", (parameter,)),
        "v128": lambda: Op("i32x4.splat", (parameter,)),
    }
    return made[kind]()


def bits_of(constant: Constant) -> int:
    """A whole number as it is; of a float its bits."""
    kind, value = constant
    if kind == "f32":
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    return int(value)


def float_of(bits: int) -> float:
    """The float of these bits."""
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])
