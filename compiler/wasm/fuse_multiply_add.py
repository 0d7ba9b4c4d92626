"""Pass ``fuse_multiply_add``: a product and a sum become one instruction (relaxed SIMD only).

An engine may round a relaxed multiply-add once or twice; every error bound of
the compiler holds for both.
"""

from __future__ import annotations

from nnjit_studio.compiler.wasm.ir import Const, Function, LocalGet, LocalSet, Node, Op, rebuild


def fuse_multiply_add(function: Function) -> None:
    """Replace ``a*b + c`` by ``relaxed_madd`` and ``c - a*b`` by ``relaxed_nmadd`` on f32x4."""
    function.body = [_fuse(node) for node in function.body]


def _fuse(node: Node) -> Node:
    kind = type(node)
    if kind is LocalGet or kind is Const:
        return node
    if isinstance(node, LocalSet) and _is(node.value, "f32x4.relaxed_madd"):
        return node  # most of a matmul: nothing left to do
    node = rebuild(node, _fuse)
    if not isinstance(node, Op):
        return node
    if node.name == "f32x4.add":
        a, b = node.args
        if product := _product(a):
            return Op("f32x4.relaxed_madd", (*product, b))
        # Values have no effects, so the order in which they are computed is free.
        if product := _product(b):
            return Op("f32x4.relaxed_madd", (*product, a))
    elif node.name == "f32x4.sub" and (product := _product(node.args[1])):
        return Op("f32x4.relaxed_nmadd", (*product, node.args[0]))
    return node


def _is(node: Node, name: str) -> bool:
    return isinstance(node, Op) and node.name == name


def _product(node: Node) -> tuple[Node, ...] | None:
    return node.args if isinstance(node, Op) and node.name == "f32x4.mul" else None
