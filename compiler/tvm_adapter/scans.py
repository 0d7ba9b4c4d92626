"""Programs for the operators that TVM leaves to library calls: running sums, products, top k."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Program,
    Stage,
    Statement,
    Store,
    Var,
)

_ALONG = "k"


def _lines(shape: Sequence[int], axis: int) -> tuple[Axis, ...]:
    """The axes of a tensor but one."""
    return tuple(Axis(f"i{d}", e) for d, e in enumerate(shape) if d != axis and e > 1)


def _index(shape: Sequence[int], axis: int, along: Expr) -> Expr:
    """Row-major index of a point, with ``along`` on one axis."""
    step, total = 1, int32(0)
    result: Expr = total
    for d in reversed(range(len(shape))):
        at = along if d == axis else Var(f"i{d}") if shape[d] > 1 else None
        if at is not None:
            term = at if step == 1 else at * step
            result = term if result == total else term + result
        step *= shape[d]
    return result


def cumsum(
    shape: Sequence[int], dtype: str, axis: int, exclusive: bool, op: str = "add"
) -> Program:
    """Running sum along an axis, or product where ``op`` is ``mul``; ``exclusive`` leaves each
    element out of its own."""
    axis %= len(shape)
    extent = shape[axis]

    def at(buffer: str, along: Expr) -> Load:
        return Load(buffer, _index(shape, axis, along))

    none = Const(0 if op == "add" else 1, dtype)
    first = Store(
        "out0",
        _index(shape, axis, int32(0)),
        none if exclusive else at("in0", int32(0)),
    )
    here, after = Var(_ALONG), Var(_ALONG) + 1
    total = Binary(op, at("out0", here), at("in0", here if exclusive else after))
    rest = Loop(_ALONG, extent - 1, (Store("out0", _index(shape, axis, after), total),))
    steps: tuple[Statement, ...] = (first, rest) if extent > 1 else (first,)
    buffers = (
        Buffer("in0", dtype, tuple(shape), "input"),
        Buffer("out0", dtype, tuple(shape), "output"),
    )
    name = "cumsum" if op == "add" else "cumprod"
    return Program(name, buffers, (Stage(name, _lines(shape, axis), steps=steps),))


def top_k(
    shape: Sequence[int], dtype: str, axis: int, k: int, largest: bool, index_dtype: str
) -> Program:
    """The k best of each line in order, equal ones by position, by insertion into k places."""
    axis %= len(shape)
    extent = shape[axis]
    result_shape = tuple(k if d == axis else e for d, e in enumerate(shape))

    def place(buffer: str, j: Expr | int) -> Load:
        along = int32(j) if isinstance(j, int) else j
        return Load(buffer, _index(result_shape, axis, along))

    def put(j: Expr | int, value: Expr, position: Expr) -> tuple[Store, ...]:
        index = place("out0", j).index
        return Store("out0", index, value), Store("out1", index, position)

    i = Var(_ALONG)
    new = Load("in0", _index(shape, axis, i))

    def better(j: Expr | int) -> Expr:
        return Binary("gt" if largest else "lt", new, place("out0", j))

    # Places k-1, k-2, ..., 1: take over the left neighbour while the new one beats it.
    left = int32(k - 2) - Var("j")
    right = int32(k - 1) - Var("j")
    reached = Binary("le", right, i)
    moves = Binary("and", reached, better(left))
    last = Binary("or", Binary("eq", right, i), Binary("eq", right, int32(k - 1)))
    shift = put(right, place("out0", left), place("out1", left))
    settle = If(Binary("and", reached, Binary("or", last, better(right))), put(right, new, i))
    insert: tuple[Statement, ...] = (
        *((Loop("j", k - 1, (If(moves, shift, (settle,)),)),) if k > 1 else ()),
        If(Binary("or", Binary("eq", i, int32(0)), better(0)), put(0, new, i)),
    )
    enters = Binary("or", Binary("lt", i, int32(k)), better(k - 1))
    empty = Loop("z", k, put(Var("z"), Const(0, dtype), int32(0)))
    steps = (empty, Loop(_ALONG, extent, (If(enters, insert),)))
    buffers = (
        Buffer("in0", dtype, tuple(shape), "input"),
        Buffer("out0", dtype, result_shape, "output"),
        Buffer("out1", index_dtype, result_shape, "output"),
    )
    return Program("topk", buffers, (Stage("topk", _lines(shape, axis), steps=steps),))
