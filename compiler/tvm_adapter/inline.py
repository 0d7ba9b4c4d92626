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
        reused = any(_points(c) > size for c in consumers)
        twice = len(consumers) > 1 and any(c.init is not None for c in consumers)
        work = _work(node)
        if (reused and work) or (twice and work & _EXPENSIVE):
            continue
        with contextlib.suppress(s_tir.ScheduleError):
            schedule.compute_inline(block)


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
