"""The softmax template: three passes over each row, where its stages as written take four.

The first pass finds the largest value, the second computes, stores and sums the exponentials, the
third multiplies by the reciprocal of the sum. Operations after the division in the same stage (a
guard against NaN, a mask) are part of the third pass.
"""

from __future__ import annotations

from collections.abc import Callable

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    Assign,
    For,
    Let,
    Put,
    Reduce,
    Scheduled,
    Statement,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, substitute, unflatten
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Const, Expr, Load, Program, Store, Var
from nnjit_studio.compiler.recognize.softmax import COLUMN, QUOTIENT, Softmax, recognize_softmax

_UNROLL = 4  # independent chains that hide the latency of a sum and of a polynomial


def schedule_softmax(program: Program) -> Scheduled | None:
    """The loops, rows the parallel one; None for any other program."""
    softmax = recognize_softmax(program)
    if softmax is None:
        return None
    body = [*raised_row(softmax), *divided_row(softmax)]
    for axis, value in reversed(unflatten(softmax.rows, Var("$p"))):
        body = [Let(axis.var, value, body)]
    return Scheduled([For("$p", Var(BEGIN), Var(END), 1, body)], softmax.n_rows)


def raised_row(softmax: Softmax) -> list[Statement]:
    """A row's powers to their buffer, their sum in ``total``."""
    return [*_largest(softmax), *_raise(softmax)]


def _largest(softmax: Softmax) -> list[Statement]:
    """The row's largest value in ``peak``, in all lanes of ``peaks``.

    ``pmax`` is one instruction where ``max`` is seven; it may lose a NaN, which
    the exponential then finds again.
    """

    def step(u: int) -> list[Statement]:
        total = Binary("pmax", Var(f"peak{u}"), _at(softmax.value, u))
        return [Assign(((f"peak{u}", "f32"),), (total,), COLUMN)]

    last: Statement = Assign((("peak", "f32"),), (Binary("max", Var("peak"), softmax.value),))
    lanes = [_set(f"peak{u}", softmax.lowest, COLUMN) for u in range(_chains(softmax))]
    return [
        _set("peak", softmax.lowest),
        *lanes,
        *_walk(softmax, step, [last]),
        *_joined(softmax, "peak", "pmax", "max"),
        _set("peaks", Var("peak"), COLUMN),
    ]


def _raise(softmax: Softmax) -> list[Statement]:
    """Powers to their buffer, their sum in ``total``."""
    store = softmax.raised

    def power(peak: str, value: Expr) -> Expr:
        return Call("exp_below", (value - Var(peak),))

    def step(u: int) -> list[Statement]:
        return [
            _set(f"power{u}", power("peaks", _at(softmax.value, u)), COLUMN),
            Put((Store(store.buffer, _at(store.index, u), Var(f"power{u}")),), COLUMN),
            _set(f"total{u}", Var(f"total{u}") + Var(f"power{u}"), COLUMN),
        ]

    last: list[Statement] = [
        _set("power", power("peak", softmax.value)),
        Put((Store(store.buffer, store.index, Var("power")),)),
        _set("total", Var("total") + Var("power")),
    ]
    zero = Const(0.0, "f32")
    return [
        _set("total", zero),
        *(_set(f"total{u}", zero, COLUMN) for u in range(_chains(softmax))),
        *_walk(softmax, step, last),
        *_joined(softmax, "total", "add", "add"),
    ]


def divided_row(softmax: Softmax) -> list[Statement]:
    """Results from a row's powers and ``total``."""
    raised, result = softmax.raised, softmax.result

    def step(u: int, scale: str = "scales", along: str = COLUMN) -> list[Statement]:
        name = f"{QUOTIENT}{u if along else ''}"
        value = substitute(_at(result.value, u), {QUOTIENT: Var(name)})
        power = Load(raised.buffer, _at(raised.index, u))
        return [
            _set(name, power * Var(scale), along),
            Put((Store(result.buffer, _at(result.index, u), value),), along),
        ]

    return [
        _set("scale", Const(1.0, "f32") / Var("total")),
        _set("scales", Var("scale"), COLUMN),
        *_walk(softmax, step, step(0, "scale", "")),
    ]


def _set(name: str, value: Expr, along: str = "") -> Assign:
    return Assign(((name, "f32"),), (value,), along)


def _at(expr: Expr, unrolled: int) -> Expr:
    return substitute(expr, {COLUMN: plus(Var(COLUMN), LANES * unrolled)})


def _chains(softmax: Softmax) -> int:
    return _UNROLL if softmax.columns >= LANES * _UNROLL else 1


def _joined(softmax: Softmax, name: str, pairwise: str, across: str) -> list[Statement]:
    """All chains into the first, and its lanes into the scalar of that name."""
    first = f"{name}0"
    joined: list[Statement] = [
        _set(first, Binary(pairwise, Var(first), Var(f"{name}{u}")), COLUMN)
        for u in range(1, _chains(softmax))
    ]
    return [*joined, Reduce(name, across, first)]


def _walk(
    softmax: Softmax, step: Callable[[int], list[Statement]], last: list[Statement]
) -> list[Statement]:
    """A row: several vectors a turn, then single ones, then single elements."""
    whole = softmax.columns // LANES * LANES
    chains = _chains(softmax)
    wide = whole // (LANES * chains) * LANES * chains
    parts = (
        (0, wide, LANES * chains, [s for u in range(chains) for s in step(u)]),
        (wide, whole, LANES, step(0)),
        (whole, softmax.columns, 1, last),
    )
    return [
        For(COLUMN, int32(begin), int32(end), by, body)
        for begin, end, by, body in parts
        if begin < end
    ]
