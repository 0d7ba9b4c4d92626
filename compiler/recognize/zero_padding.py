"""Recogniser of zero padding: a copy into the middle of a workspace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LinearForm, linear_form
from nnjit_studio.compiler.ir.tensor_ir import Binary, Const, Expr, Load, Program, Select


@dataclass(frozen=True)
class Padding:
    target: str
    data: str
    top: int
    left: int


def strides_of(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def padding_of(program: Program) -> Padding | None:
    """The first stage as a copy with zeros around it."""
    stage = program.stages[0]
    if stage.init or len(stage.body) != 1 or not isinstance(stage.body[0].value, Select):
        return None
    store, extents = stage.body[0], stage.extents
    value = store.value
    assert isinstance(value, Select)
    load, zero = value.then, value.otherwise
    if not isinstance(load, Load) or not isinstance(zero, Const) or zero.value != 0:
        return None
    target, data = program.buffer(store.buffer), program.buffer(load.buffer)
    shapes = (target.shape, data.shape)
    if target.role != "workspace" or data.role != "input" or {len(s) for s in shapes} != {4}:
        return None
    place, source = linear_form(store.index, extents), linear_form(load.index, extents)
    if place is None or source is None:
        return None
    variables = _variables(place, target.shape, extents)
    limits = limits_of(value.condition, extents)
    if variables is None or limits is None:
        return None
    before = []
    for var, whole, inner in zip(variables, target.shape, data.shape, strict=True):
        low, high = limits.pop(var, (0, whole)) if var else (0, whole)
        if high - low != inner:
            return None
        before.append(low)
    steps = strides_of(data.shape)
    wanted = {v: step for v, step in zip(variables, steps, strict=True) if v}
    offset = -sum(low * step for low, step in zip(before, steps, strict=True))
    if limits or any(before[:2]) or source != (offset, wanted):
        return None
    return Padding(store.buffer, load.buffer, before[2], before[3])


def _variables(
    form: LinearForm, shape: Sequence[int], extents: Mapping[str, int]
) -> list[str] | None:
    """The variable of each dimension, "" where the extent is 1, if the form is row-major."""
    left = dict(form[1])
    found = []
    for extent, step in zip(shape, strides_of(shape), strict=True):
        var = next((v for v, c in left.items() if c == step and extents[v] == extent), "")
        if extent > 1 and not var:
            return None
        found.append(var if extent > 1 else "")
        left.pop(found[-1], None)
    return found if not left and form[0] == 0 else None


def limits_of(condition: Expr, extents: Mapping[str, int]) -> dict[str, tuple[int, int]] | None:
    """Half-open range by variable of a conjunction of comparisons with constants."""
    limits: dict[str, tuple[int, int]] = {}

    def take(expr: Expr) -> bool:
        if not isinstance(expr, Binary):
            return False
        if expr.op == "and":
            return take(expr.a) and take(expr.b)
        a, b = (linear_form(e, extents) for e in (expr.a, expr.b))
        if a is None or b is None or expr.op not in ("lt", "le", "gt", "ge"):
            return False
        if expr.op in ("gt", "ge"):
            a, b = b, a
        # a < b or a <= b, one side a variable with factor 1, the other a constant.
        closed = int(expr.op in ("le", "ge"))
        if not a[1] and list(b[1].values()) == [1]:
            (var,) = b[1]
            low, high = limits.get(var, (0, extents[var]))
            limits[var] = max(low, a[0] - b[0] + 1 - closed), high
        elif not b[1] and list(a[1].values()) == [1]:
            (var,) = a[1]
            low, high = limits.get(var, (0, extents[var]))
            limits[var] = low, min(high, b[0] - a[0] + closed)
        else:
            return False
        return True

    return limits if take(condition) else None
