"""Finds the matmul in a program: one sum of products, and the pointwise stages behind it.

All spatial axes are first written over one set of axes: the digits of the flat
position in the accumulator, cut wherever any stage cuts it. Then axes are
classified (in A alone: m; in B alone: n; in both: batch) and merged again
where every index that uses them allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nnjit_studio.compiler.ir.affine import LinearForm, linear_expr, linear_form, rewrite, walk
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction, Operand
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.remembered import remembered


@remembered
def recognize(program: Program) -> Contraction | None:
    """Read a program as ``out = epilogue(sum_k A[b, m, k] * B[b, k, n])``, if it is one.

    The first stage must be the sum, of f32 inputs, or weights in f16, at affine indices; every
    other stage must be pointwise over its points, and is inlined into the
    epilogue. A workspace that held the sum, or a value between two such
    stages, is no longer needed: a kernel made from the contraction may leave
    it untouched (it stays a parameter).

    Batch axes are called ``b0``, ``b1``, ..., the others ``m`` and ``n``. The
    operands are swapped where that gives n, not m, stride 1 in the output.

    Returns
    -------
    Contraction or None
        None when the program is anything else: another reduction, a computed
        operand, an axis that neither merges nor can be a batch axis.
    """
    if not program.stages or any(stage.steps for stage in program.stages):
        return None
    total = sum_of_products(program, program.stages[0])
    if total is None:
        return None
    fused = fuse(program, total)
    if fused is None:
        return None
    return _classify(program, total, fused)


def recognize_columns(program: Program) -> Contraction | None:
    """A matmul whose B has neighbouring columns, or can be packed so."""
    found = recognize(program)
    return found if found is not None and found.has_columns else None


def recognize_dots(program: Program) -> Contraction | None:
    """A matmul whose operands both lie along the reduction."""
    found = recognize(program)
    return found if found is not None and found.along_k else None


@dataclass(frozen=True)
class View:
    """A buffer at an affine index."""

    buffer: str
    form: LinearForm


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


def _extents(axes: Iterable[Axis]) -> dict[str, int]:
    return {a.var: a.extent for a in axes}


def _plain(expr: Expr) -> Expr:
    # A cast to f32 of an f32 value changes nothing; operands are checked to be f32.
    return _plain(expr.value) if isinstance(expr, Cast) and expr.dtype == "f32" else expr


def _factors(expr: Expr) -> list[Expr]:
    expr = _plain(expr)
    if isinstance(expr, Binary) and expr.op == "mul":
        return _factors(expr.a) + _factors(expr.b)
    return [expr]


def sum_of_products(program: Program, stage: Stage) -> SumOfProducts | None:
    """Read a stage as a sum of products of two inputs that are computed in f32, if it is one."""
    extents = _extents(stage.axes)
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
    loads = [f for f in factors if isinstance(f, Load)]
    scale = tuple(f for f in factors if isinstance(f, Const))
    if len(loads) != 2 or len(loads) + len(scale) != len(factors):
        return None
    views = []
    for load in loads:
        index = linear_form(load.index, extents)
        if index is None or program.buffer(load.buffer).role != "input":
            return None
        views.append(View(load.buffer, index))
    target = View(store.buffer, form)
    buffers = [program.buffer(v.buffer) for v in (target, *views)]
    if any(b.dtype != "f32" and (b.dtype, b.constant) != ("f16", True) for b in buffers):
        return None
    return SumOfProducts(stage, target, views[0], views[1], scale)


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
    strides = _radix(total.target.form, _extents(spatial))
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
        extents = _extents(stage.axes)
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
        value = Binary("mul", value, Const(scale, "f32"))
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
    if not all(e.buffer in readable for s in stores for e in _loads(s)):
        return None
    a = View(total.a.buffer, _substitute(total.a.form, here))
    b = View(total.b.buffer, _substitute(total.b.form, here))
    return Fused(axes, a, b, tuple(stores))


def _digits_of_stage(stage: Stage, aligned: set[str], size: int) -> dict[str, int] | None:
    extents = _extents(stage.axes)
    points = 1
    for extent in extents.values():
        points *= extent
    if stage.init or points != size or any(a.kind == "reduce" for a in stage.axes):
        return None
    for store in stage.body:
        for load in _loads(store):
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
        for load in _loads(moved):
            if load.buffer in known and linear_form(load.index, axes) != flat:
                return None
        result.append(Store(moved.buffer, moved.index, rewrite(moved.value, inline)))
    return result


def _loads(store: Store) -> list[Load]:
    parts = (*walk(store.index), *walk(store.value))
    return [e for e in parts if isinstance(e, Load)]


def _substitute(form: LinearForm, positions: Mapping[str, LinearForm]) -> LinearForm:
    terms: dict[str, int] = {}
    for var, coefficient in form[1].items():
        for v, c in positions.get(var, (0, {var: 1}))[1].items():
            terms[v] = terms.get(v, 0) + coefficient * c
    return form[0], {v: c for v, c in terms.items() if c}


def _classify(program: Program, total: SumOfProducts, fused: Fused) -> Contraction | None:
    axes, a, b = fused.axes, fused.a, fused.b
    out = linear_form(fused.stores[0].index, axes)
    if out is None or set(out[1]) != set(axes):
        return None
    inner = next((v for v, c in out[1].items() if c == 1), None)
    if inner is None or (inner in a.form[1]) == (inner in b.form[1]):
        return None
    if inner in a.form[1]:
        a, b = b, a
    order = sorted(axes, key=lambda v: out[1][v])
    m_axes = [v for v in order if v in a.form[1] and v not in b.form[1]]
    n_axes = [v for v in order if v in b.form[1] and v not in a.form[1]]
    free, forms = _epilogue_indices(fused.stores, axes)
    everywhere = [a.form[1], b.form[1], *forms]
    m_merged, m = _merge(m_axes, axes, everywhere, free)
    n_merged, n = _merge(n_axes, axes, everywhere, free)
    reduce = _extents(total.reduce)
    k_axes = sorted(reduce, key=lambda v: a.form[1].get(v, 0))
    k_merged, k = _merge(k_axes, reduce, [a.form[1], b.form[1]], set())
    if len(k_merged) != len(k_axes):
        return None
    if any(v not in view.form[1] for v in k_axes for view in (a, b)):
        return None

    batch_vars = [v for v in reversed(order) if v not in (*m_merged, *n_merged)]
    names = {v: f"b{i}" for i, v in enumerate(batch_vars)}
    names |= {v: "m" for v in m_merged[:1]} | {v: "n" for v in n_merged[:1]}
    # The innermost axis of a merged group counts for all of it; the outer ones vanish.
    gone = {*m_merged[1:], *n_merged[1:]}

    def index(expr: Expr) -> Expr:
        form = linear_form(expr, axes)
        if form is not None:
            return linear_expr(
                (form[0], {names[v]: c for v, c in form[1].items() if v not in gone})
            )
        return rewrite(expr, change)

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            return Load(expr.buffer, index(expr.index))
        return Var(names[expr.name]) if isinstance(expr, Var) and expr.name in names else None

    epilogue = tuple(
        Store(s.buffer, index(s.index), rewrite(s.value, change)) for s in fused.stores
    )

    def operand(view: View, row: Sequence[str], column: Sequence[str]) -> Operand:
        constant, strides = view.form
        return Operand(
            view.buffer,
            constant,
            tuple(strides.get(v, 0) for v in batch_vars),
            strides[row[0]] if row else 0,
            strides[column[0]] if column else 0,
            program.buffer(view.buffer).dtype,
        )

    left, right = operand(a, m_merged, k_merged), operand(b, k_merged, n_merged)
    return Contraction(
        batch=tuple(Axis(names[v], axes[v]) for v in batch_vars),
        m=m,
        n=n,
        k=k,
        m_var="m",
        n_var="n",
        a=left,
        b=right,
        packable=_packable(program, left, right, epilogue, n, k),
        epilogue=epilogue,
        labels=epilogue_labels(epilogue[0].value, program, "m", "n"),
    )


def _epilogue_indices(
    stores: Iterable[Store], axes: Mapping[str, int]
) -> tuple[set[str], list[dict[str, int]]]:
    """Variables that must stay apart, and the coefficients of every linear index."""
    apart: set[str] = set()
    forms: list[dict[str, int]] = []

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            take(expr.index)
            return expr
        if isinstance(expr, Var):
            apart.add(expr.name)
        return None

    def take(index: Expr) -> None:
        form = linear_form(index, axes)
        if form is not None:
            forms.append(form[1])
        else:
            rewrite(index, visit)

    for store in stores:
        take(store.index)
        rewrite(store.value, visit)
    return apart, forms


def _merge(
    group: Sequence[str],
    extents: Mapping[str, int],
    forms: Sequence[Mapping[str, int]],
    apart: set[str],
) -> tuple[list[str], int]:
    """Innermost axis first: those that act as one, and their extent (1 if there are none)."""
    if not group:
        return [], 1
    merged, extent = [group[0]], extents[group[0]]
    for var in group[1:]:
        nested = all(f.get(var, 0) == f.get(merged[0], 0) * extent for f in forms)
        if not nested or apart & {var, merged[0]}:
            break
        merged.append(var)
        extent *= extents[var]
    return merged, extent


def _packable(
    program: Program, a: Operand, b: Operand, epilogue: Iterable[Store], n: int, k: int
) -> bool:
    buffer = program.buffer(b.buffer)
    elsewhere = {a.buffer, *(load.buffer for store in epilogue for load in _loads(store))}
    apart = len(b.batch) == 1 and b.batch[0] == n and b.row > n and b.row % n == 0
    dense = b.offset == 0 and b.column == 1 and (apart or (b.row == n and not any(b.batch)))
    size = math.prod(buffer.shape)
    return buffer.constant and dense and size == b.row * k and b.buffer not in elsewhere
