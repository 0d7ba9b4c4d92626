"""Constants that repeat along open axes: stored once, read by indices that leave these axes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.ir.affine import linear_expr, linear_form, rewrite
from nnjit_studio.compiler.ir.rewrite import int32, map_steps, map_stores
from nnjit_studio.compiler.ir.tensor_ir import Binary, Expr, Load, Program, Stage, Store

Bases = Mapping[int, tuple[int, ...]]
"""By the position of a buffer, the shape of what it repeats: 1 along an axis that is left out."""


def reading_once(program: Program, bases: Bases) -> Program:
    """The program with inputs that are stored once, of the given shapes."""
    read = {program.buffers[i].name: (program.buffers[i].shape, base) for i, base in bases.items()}

    def value(expr: Expr, extents: Mapping[str, int]) -> Expr:
        def visit(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer not in read:
                return None
            index = _index(value(e.index, extents), *read[e.buffer])
            form = linear_form(index, extents)
            return Load(e.buffer, index if form is None else linear_expr(form))

        return rewrite(expr, visit)

    def store(old: Store, extents: Mapping[str, int]) -> Store:
        return Store(old.buffer, value(old.index, extents), value(old.value, extents))

    def stage(old: Stage) -> Stage:
        new = map_stores(old, lambda s: store(s, old.extents))
        return replace(new, steps=map_steps(old.steps, store, value, old.extents))

    buffers = tuple(replace(b, shape=read.get(b.name, (0, b.shape))[1]) for b in program.buffers)
    return replace(program, buffers=buffers, stages=tuple(map(stage, program.stages)))


def _index(index: Expr, shape: Sequence[int], base: Sequence[int]) -> Expr:
    """The place in the base of a place in the shape; both are row-major."""
    result: Expr = int32(0)
    for axis, n in enumerate(base):
        if n > 1:
            inner, beside = math.prod(shape[axis + 1 :]), math.prod(base[axis + 1 :])
            place = Binary("floordiv", index, int32(inner))
            if math.prod(shape[:axis]) > 1:
                place = Binary("floormod", place, int32(n))
            result = result + place * beside
    return result
