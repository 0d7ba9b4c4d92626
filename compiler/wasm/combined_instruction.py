"""Pass ``combined_instruction``: a load and its splat become one (paper, 4.3 (2))."""

from __future__ import annotations

from nnjit_studio.compiler.wasm.ir import Const, Function, Load, LocalGet, Node, Op, rebuild

_COMBINED = {
    ("f32x4.splat", "f32.load"): "v128.load32_splat",
    ("i32x4.splat", "i32.load"): "v128.load32_splat",
    ("i64x2.splat", "i64.load"): "v128.load64_splat",
}


def combined_instruction(function: Function) -> None:
    """Replace ``splat(load)`` by ``v128.load32_splat`` or ``v128.load64_splat``."""
    function.body = [_combine(node) for node in function.body]


def _combine(node: Node) -> Node:
    if type(node) is LocalGet or type(node) is Const:
        return node
    node = rebuild(node, _combine)
    if isinstance(node, Op) and len(node.args) == 1:
        load = node.args[0]
        if isinstance(load, Load):
            combined = _COMBINED.get((node.name, load.op))
            if combined:
                return Load(combined, load.address, load.offset, load.buffer)
    return node
