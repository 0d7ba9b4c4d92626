"""Pass ``hoist_constants``: vector constants of an innermost loop are made once before it.

An engine builds a 16-byte constant with two or three instructions wherever it
stands, and a polynomial has a dozen; in a local, at worst on the stack, each
use is one load at most.

Kernels of bytes have short sums and long ends of them, so all of their
constants are made once in a call: up to 1.6 times as fast (measured in V8).
"""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.wasm.ir import (
    Const,
    Function,
    IfElse,
    LocalGet,
    LocalSet,
    Loop,
    Node,
    rebuild,
)


def hoist_constants(function: Function, whole: bool = False) -> None:
    """Move every v128 constant out of the innermost loop around it, or of the whole function."""
    body = _block(function, function.body)
    if whole:
        before, body = _hoisted(function, body)
        body = [*before, *body]
    function.body = body


def _block(function: Function, nodes: Sequence[Node]) -> list[Node]:
    out: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            body = _block(function, node.body)
            if any(_has_loop(inner) for inner in body):
                out.append(Loop(body, node.condition))
            else:
                before, loop = _hoisted(function, [Loop(body, node.condition)])
                out += [*before, *loop]
        elif isinstance(node, IfElse):
            then, otherwise = (_block(function, side) for side in (node.then, node.otherwise))
            out.append(IfElse(node.condition, then, otherwise, node.type))
        else:
            out.append(node)
    return out


def _has_loop(node: Node) -> bool:
    if isinstance(node, IfElse):
        return any(_has_loop(inner) for inner in (*node.then, *node.otherwise))
    return isinstance(node, Loop)


def _hoisted(function: Function, nodes: list[Node]) -> tuple[list[Node], list[Node]]:
    locals: dict[object, LocalGet] = {}
    before: list[Node] = []

    def visit(node: Node) -> Node:
        if type(node) is LocalGet:
            return node
        if not isinstance(node, Const):
            return rebuild(node, visit)
        if node.type != "v128":
            return node
        found = locals.get(node.value)
        if found is None:
            found = locals[node.value] = LocalGet(function.new_local("v128"))
            before.append(LocalSet(found.local, node))
        return found

    moved = [visit(node) for node in nodes]
    return (before, moved) if before else ([], nodes)
