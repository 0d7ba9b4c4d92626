"""Sums of products in a program, with the pointwise stages behind them over one set of axes.

The axes are the digits of the flat position in the accumulator, cut wherever any stage cuts it."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from nnjit_studio.compiler.ir.affine import LinearForm, linear_expr, linear_form, rewrite, walk
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR


@dataclass(frozen=True)
class View:
    """A buffer at an affine index; bytes count from ``zero`` on."""

    buffer: str
    form: LinearForm
    zero: float = 0.0


@dataclass(frozen=True)
class SumOfProducts:
    """A stage that is ``target += a * b * scale``."""

    stage: Stage
    target: View
    a: View
    b: View
    scale: tuple[Const, ...]

    @property
    def reduce(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.stage.axes if a.kind == "reduce" and a.extent > 1)


@dataclass(frozen=True)
class Fused:
    """Operands and stores over the digits of the accumulator's position."""

    axes: dict[str, int]
    a: View
    b: View
    stores: tuple[Store, ...]


def extents_of(axes: Iterable[Axis]) -> dict[str, int]:
    return {a.var: a.extent for a in axes}


def _plain(expr: Expr) -> Expr:
    # A cast to f32 of an f32 value changes nothing; operands are checked to be f32.
    return _plain(expr.value) if isinstance(expr, Cast) and expr.dtype == "f32" else expr


def _factors(expr: Expr) -> list[Expr]:
    expr = _plain(expr)
    if isinstance(expr, Binary) and expr.op == "mul":
        return _factors(expr.a) + _factors(expr.b)
    return [expr]


def _less_zero(expr: Expr) -> tuple[Expr, float]:
    """Bytes, and the number that is taken off each of them."""
    if isinstance(expr, Binary) and expr.op == "sub" and isinstance(expr.b, Const):
        return _plain(expr.a), float(expr.b.value)
    return expr, 0.0


def sum_of_products(
    program: Program, stage: Stage, stored: Container[str] = ("f16",)
) -> SumOfProducts | None:
    """Read a stage as a sum of products of two inputs that are computed in f32, if it is one.

    Constant inputs may be ``stored`` in these dtypes, too, and a decoder's cache in f16.
    """
    extents = stage.extents
    if len(stage.body) != 1 or len(stage.init) != 1:
        return None
    store, init = stage.body[0], stage.init[0]
    form = linear_form(store.index, extents)
    if form is None or init.buffer != store.buffer or linear_form(init.index, extents) != form:
        return None
    if not isinstance(init.value, Const) or init.value.value != 0:
        return None
    if any(a.var in form[1] for a in stage.axes if a.kind == "reduce"):
        return None
    value = _plain(store.value)
    if not isinstance(value, Binary) or value.op != "add":
        return None

    def is_target(expr: Expr) -> bool:
        expr = _plain(expr)
        return (
            isinstance(expr, Load)
            and expr.buffer == store.buffer
            and linear_form(expr.index, extents) == form
        )

    if not is_target(value.a) and not is_target(value.b):
        return None
    factors = _factors(value.b if is_target(value.a) else value.a)
    pairs = [_less_zero(f) for f in factors]
    loads = [(f, zero) for f, zero in pairs if isinstance(f, Load)]
    scale = tuple(f for f in factors if isinstance(f, Const))
    if len(loads) != 2 or len(loads) + len(scale) != len(factors):
        return None
    views = []
    for load, zero in loads:
        index, buffer = linear_form(load.index, extents), program.buffer(load.buffer)
        if index is None or buffer.role != "input" or (zero and buffer.dtype not in BYTES):
            return None
        views.append(View(load.buffer, index, zero))
    target = View(store.buffer, form)
    buffers = [program.buffer(v.buffer) for v in (target, *views)]
    if any(b.dtype != "f32" and not _storable(b, stored) for b in buffers):
        return None
    return SumOfProducts(stage, target, views[0], views[1], scale)


def _storable(buffer: Buffer, stored: Container[str]) -> bool:
    return buffer.dtype in stored and (buffer.constant or buffer.dtype == "f16")


def _radix(form: LinearForm, extents: Mapping[str, int]) -> dict[str, int] | None:
    """Strides by variable when the form counts 0, 1, 2, ... without gaps, else None."""
    span = 1
    strides: dict[str, int] = {}
    for var, stride in sorted(form[1].items(), key=lambda item: item[1]):
        if stride != span:
            return None
        strides[var] = stride
        span *= extents[var]
    axes = {v for v, e in extents.items() if e > 1}
    return strides if form[0] == 0 and set(strides) == axes else None


def fuse(program: Program, total: SumOfProducts) -> Fused | None:
    """The sum, which is the program's first stage, with all later stages inlined."""
    spatial = [a for a in total.stage.axes if a.kind != "reduce"]
    strides = _radix(total.target.form, extents_of(spatial))
    if strides is None:
        return None
    size = 1
    for axis in spatial:
        size *= axis.extent
    # Each later stage's variables as digits of the same flat position.
    aligned = {total.target.buffer}
    later: list[tuple[Stage, dict[str, int]]] = []
    for stage in program.stages[1:]:
        digits = _digits_of_stage(stage, aligned, size)
        if digits is None:
            return None
        later.append((stage, digits))
        extents = stage.extents
        for store in stage.body:
            form = linear_form(store.index, extents)
            if form is not None and form == (0, digits):
                aligned.add(store.buffer)
    cuts = sorted({1, size, *strides.values(), *(s for _, d in later for s in d.values())})
    if any(high % low for low, high in pairwise(cuts)):
        return None
    axes = {f"p{low}": high // low for low, high in reversed(list(pairwise(cuts)))}

    def digit(stride: int, extent: int) -> LinearForm:
        return 0, {f"p{c}": c // stride for c in cuts if stride <= c < stride * extent}

    def positions(stage_axes: Iterable[Axis], found: Mapping[str, int]) -> dict[str, LinearForm]:
        return {
            a.var: digit(found[a.var], a.extent) if a.var in found else (0, {})
            for a in stage_axes
            if a.kind != "reduce"
        }

    here = positions(spatial, strides)
    value: Expr = Var(ACCUMULATOR)
    if total.scale:
        scale = math.prod(float(constant.value) for constant in total.scale)
        value = value * Const(scale, "f32")
    flat: LinearForm = (0, {f"p{c}": c for c in cuts[:-1]})
    known = {total.target.buffer: value}
    stores: list[Store] = []
    if program.buffer(total.target.buffer).role == "output":
        stores.append(Store(total.target.buffer, linear_expr(flat), value))
    for stage, found in later:
        inlined = _inline(stage, positions(stage.axes, found), known, flat, axes)
        if inlined is None:
            return None
        for store in inlined:
            if linear_form(store.index, axes) == flat:
                known[store.buffer] = store.value
            if program.buffer(store.buffer).role == "output":
                stores.append(store)
    outputs = {b.name for b in program.buffers if b.role == "output"}
    if {s.buffer for s in stores} != outputs or len(stores) != len(outputs):
        return None
    readable = {b.name for b in program.buffers if b.role == "input"}
    if not all(e.buffer in readable for s in stores for e in loads_of(s)):
        return None
    a, b = (replace(v, form=_substitute(v.form, here)) for v in (total.a, total.b))
    return Fused(axes, a, b, tuple(stores))


def _digits_of_stage(stage: Stage, aligned: set[str], size: int) -> dict[str, int] | None:
    extents = stage.extents
    points = 1
    for extent in extents.values():
        points *= extent
    if stage.init or points != size or any(a.kind == "reduce" for a in stage.axes):
        return None
    for store in stage.body:
        for load in loads_of(store):
            if load.buffer in aligned:
                form = linear_form(load.index, extents)
                return None if form is None else _radix(form, extents)
    return None


def _inline(
    stage: Stage,
    positions: Mapping[str, LinearForm],
    known: Mapping[str, Expr],
    flat: LinearForm,
    axes: Mapping[str, int],
) -> list[Store] | None:
    def rename(expr: Expr) -> Expr | None:
        return linear_expr(positions[expr.name]) if isinstance(expr, Var) else None

    def inline(expr: Expr) -> Expr | None:
        return known[expr.buffer] if isinstance(expr, Load) and expr.buffer in known else None

    result = []
    for store in stage.body:
        moved = Store(store.buffer, rewrite(store.index, rename), rewrite(store.value, rename))
        for load in loads_of(moved):
            if load.buffer in known and linear_form(load.index, axes) != flat:
                return None
        result.append(Store(moved.buffer, moved.index, rewrite(moved.value, inline)))
    return result


def loads_of(store: Store) -> list[Load]:
    parts = (*walk(store.index), *walk(store.value))
    return [e for e in parts if isinstance(e, Load)]


def _substitute(form: LinearForm, positions: Mapping[str, LinearForm]) -> LinearForm:
    terms: dict[str, int] = {}
    for var, coefficient in form[1].items():
        for v, c in positions.get(var, (0, {var: 1}))[1].items():
            terms[v] = terms.get(v, 0) + coefficient * c
    return form[0], {v: c for v, c in terms.items() if c}
