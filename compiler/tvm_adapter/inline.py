"""Inlining of a PrimFunc's pointwise blocks, by TVM's own schedule."""

from __future__ import annotations

import contextlib
from typing import Any

from tvm import IRModule, s_tir

from nnjit_studio.compiler.tvm_adapter.nodes import BINARY, CALLS, children

_EXPENSIVE = set(CALLS) - {"fabs", "floor", "ceil", "round", "nearbyint", "trunc"} | {"pow"}


def inlined(func: Any, name: str) -> Any:
    schedule = s_tir.Schedule(IRModule({"main": func}), error_render_level="none")
    with contextlib.suppress(s_tir.ScheduleError):
        _inline_blocks(schedule)
    return schedule.mod["main"]


def _inline_blocks(schedule: Any) -> None:
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        node = schedule.get(block)
        if node.init is not None:
            continue
        consumers = [schedule.get(c) for c in schedule.get_consumers(block)]
        if not consumers:
            continue
        size = _points(node)
        reused = any(_points(c) > size and not _pads(c, node) for c in consumers)
        twice = len(consumers) > 1 and any(c.init is not None for c in consumers)
        work = _work(node)
        if (reused and work) or (twice and work & _EXPENSIVE):
            continue
        with contextlib.suppress(s_tir.ScheduleError):
            schedule.compute_inline(block)


def _pads(block: Any, source: Any) -> bool:
    """Whether a block puts each element of another's result in one place, a number around them.

    Then nothing is computed twice; and two walks over different extents, which have no axis in
    common that threads could share, become one.
    """
    value: Any = getattr(block.body, "value", None)
    if type(value).__name__ != "Call" or not value.op.name.endswith("if_then_else"):
        return False
    _, inside, around = value.args
    result = source.body.buffer
    places = [x.indices for x in _leaves(inside) if result.same_as(_read(x))]
    moving = {v.var for v in block.iter_vars if int(v.dom.extent) > 1}
    apart = len(places) == 1 and moving <= {_unmoved(index) for index in places[0]}
    return apart and all(_is_number(leaf) for leaf in _leaves(around))


def _leaves(value: Any) -> list[Any]:
    """Loads, variables and constants that a value is computed from."""
    parts = children(value)
    return [leaf for part in parts for leaf in _leaves(part)] if parts else [value]


def _read(leaf: Any) -> Any:
    return leaf.source if type(leaf).__name__ == "TensorLoad" else None


def _unmoved(index: Any) -> Any:
    """``v`` of ``v + c`` and ``v - c``."""
    shifted = type(index).__name__ in ("Add", "Sub") and type(index.b).__name__ == "IntImm"
    return index.a if shifted else index


def _is_number(leaf: Any) -> bool:
    """Whether a leaf is one number for all points."""
    indices = leaf.indices if _read(leaf) is not None else ()
    return type(leaf).__name__ != "Var" and all(type(i).__name__ == "IntImm" for i in indices)


def _points(block: Any) -> int:
    points = 1
    for v in block.iter_vars:
        points *= int(v.dom.extent)
    return points


def _work(block: Any) -> set[str]:
    """Names of the arithmetic in a block's value: empty when it only moves data."""
    found: set[str] = set()

    def visit(expr: Any) -> None:
        kind = type(expr).__name__
        if kind == "TensorLoad":
            return
        if kind in BINARY or kind == "Div":
            found.add(BINARY.get(kind, "div"))
        if kind == "Call":
            found.add(expr.op.name.removeprefix("tirx.").removeprefix("prim."))
        for child in children(expr):
            visit(child)

    if type(block.body).__name__ == "BufferStore":
        visit(block.body.value)
    return found
