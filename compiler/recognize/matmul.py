"""Recogniser of matmuls: one sum of products, and the pointwise stages behind it.

All spatial axes are first written over one set of axes: the digits of the flat
position in the accumulator, cut wherever any stage cuts it. Then axes are
classified (in A alone: m; in B alone: n; in both: batch) and merged again
where every index that uses them allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from nnjit_studio.compiler.ir.affine import linear_expr, linear_form, rewrite
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.tensor_ir import Axis, Expr, Load, Program, Store, Var
from nnjit_studio.compiler.recognize.contraction import Contraction, Operand
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.subject import remembered
from nnjit_studio.compiler.recognize.sums import (
    Fused,
    SumOfProducts,
    View,
    extents_of,
    fuse,
    loads_of,
    sum_of_products,
)


@remembered
def recognize(program: Program) -> Contraction | None:
    """Read a program as ``out = epilogue(sum_k A[b, m, k] * B[b, k, n])``, if it is one.

    The first stage must be the sum, of f32 inputs, or weights in f16 or, along the reduction, in
    bytes, at affine indices; every other stage must be pointwise over its points, and is inlined
    into the epilogue. A workspace that held the sum, or a value between two such
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
    total = sum_of_products(program, program.stages[0], ("f16", *BYTES))
    if total is None:
        return None
    fused = fuse(program, total)
    found = _classify(program, total, fused) if fused is not None else None
    bytes_ = found is not None and {found.a.dtype, found.b.dtype} & {*BYTES}
    return None if found is not None and bytes_ and not found.along_bytes else found


def recognize_columns(program: Program) -> Contraction | None:
    """A matmul whose B has neighbouring columns, or can be packed so."""
    found = recognize(program)
    return found if found is not None and found.has_columns else None


def recognize_dots(program: Program) -> Contraction | None:
    """A matmul whose operands both lie along the reduction."""
    found = recognize(program)
    return found if found is not None and found.along_k else None


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
    reduce = extents_of(total.reduce)
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
            view.zero,
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
    elsewhere = {a.buffer, *(load.buffer for store in epilogue for load in loads_of(store))}
    apart = len(b.batch) == 1 and b.batch[0] == n and b.row > n and b.row % n == 0
    dense = b.offset == 0 and b.column == 1 and (apart or (b.row == n and not any(b.batch)))
    size = math.prod(buffer.shape)
    return buffer.constant and dense and size == b.row * k and b.buffer not in elsewhere
