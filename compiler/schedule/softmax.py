"""The softmax template: three walks along each row, where its stages as written take four.

The first walk finds the largest value, the second raises, keeps and sums, the
third multiplies by one over the sum. What follows the division in the same
stage (a guard of NaN, a mask) is part of the third walk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, loads, rewrite
from nnjit_studio.compiler.ir.in_place import in_place
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
from nnjit_studio.compiler.ir.rewrite import (
    int32,
    plus,
    resolve,
    substitute,
    substitute_store,
    unflatten,
)
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Call,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.schedule.lanes import Lanes

_ROW, COLUMN = "$row", "$column"
QUOTIENT = "quotient"
_UNROLL = 4  # independent chains that hide the latency of a sum and of a polynomial


@dataclass(frozen=True)
class Softmax:
    """Rows of a softmax; expressions are of the row axes and of ``COLUMN``.

    Attributes
    ----------
    value
        What is raised, before the row's largest value is taken away.
    lowest
        Where the search for the largest begins.
    raised
        Keeps ``exp(value - largest)``; its own value is not used.
    result
        Reads ``QUOTIENT`` in place of the division.
    """

    rows: tuple[Axis, ...]
    columns: int
    value: Expr
    lowest: Expr
    raised: Store
    result: Store


def recognize_softmax(program: Program) -> Softmax | None:
    """The softmax that a program of four stages is, over the last axis of each; else None."""
    stages = [_normal(stage) for stage in program.stages]
    if len(stages) != 4 or any(stage is None for stage in stages):
        return None
    (peak, raised, total, result) = (stage for stage in stages if stage is not None)
    rows, columns = peak.axes[:-1], peak.axes[-1].extent
    kinds = [stage.axes[-1].kind for stage in (peak, raised, total, result)]
    if kinds != ["reduce", "spatial"] * 2 or columns < LANES:
        return None
    shapes = {tuple(a.extent for a in stage.axes) for stage in (peak, raised, total, result)}
    roles = {b.name: b.role for b in program.buffers}
    kept = [stage.body[0].buffer for stage in (peak, total)]
    if len(shapes) != 1 or any(roles[name] != "workspace" for name in kept):
        return None
    value = _added(peak, "max")
    exponent = raised.body[0].value
    largest = Load(peak.body[0].buffer, peak.body[0].index)
    element = Load(raised.body[0].buffer, raised.body[0].index)
    if value is None or exponent != Call("exp", (Binary("sub", value, largest),)):
        return None
    if _added(total, "add") != element or total.init[0].value != Const(0.0, "f32"):
        return None
    quotient = Binary("div", element, Load(total.body[0].buffer, total.body[0].index))
    end = result.body[0]
    end = Store(end.buffer, end.index, _replaced(end.value, quotient, Var(QUOTIENT)))
    written = {stage.body[0].buffer for stage in (peak, raised, total, result)}
    if any(load.buffer in written for e in (value, end.value) for load in loads(e)):
        return None
    found = Softmax(rows, columns, value, peak.init[0].value, raised.body[0], end)
    return found if _on_lanes(program, found) else None


def overwritten(program: Program) -> str | None:
    """The input that a softmax's output may lie over, where nobody reads it later.

    Each row is a walk's own: the first two read an element before the second writes its
    power, to the same place, and the third reads powers alone.
    """
    softmax = recognize_softmax(program)
    if softmax is None:
        return None
    output, raised, place = softmax.result.buffer, softmax.raised.buffer, softmax.result.index
    if softmax.raised.index != place or in_place(program).get(raised, raised) != output:
        return None
    later = {load.buffer for load in loads(softmax.result.value)}
    for buffer in program.buffers:
        places = [load.index for load in loads(softmax.value) if load.buffer == buffer.name]
        same = buffer.dtype == program.buffer(output).dtype
        same = same and math.prod(buffer.shape) == math.prod(program.buffer(output).shape)
        own = buffer.role == "input" and not buffer.constant and buffer.name not in later
        if own and same and places and all(index == place for index in places):
            return buffer.name
    return None


def _normal(stage: Stage) -> Stage | None:
    """The stage without axes of extent 1, its axes by position, its last one ``COLUMN``."""
    axes = [a for a in stage.axes if a.extent > 1]
    if stage.steps or len(stage.body) != 1 or len(stage.init) > 1 or not axes:
        return None
    kinds = ["spatial"] * (len(axes) - 1) + ["reduce" if stage.init else "spatial"]
    if [a.kind for a in axes] != kinds:
        return None
    names = [*(f"{_ROW}{i}" for i in range(len(axes) - 1)), COLUMN]
    values: dict[str, Expr] = {a.var: int32(0) for a in stage.axes if a.extent == 1}
    values |= {a.var: Var(name) for a, name in zip(axes, names, strict=True)}
    extents = {name: a.extent for a, name in zip(axes, names, strict=True)}

    def renamed(stores: Sequence[Store]) -> tuple[Store, ...]:
        return tuple(resolve(substitute_store(s, values), extents) for s in stores)

    new = tuple(Axis(name, a.extent, a.kind) for a, name in zip(axes, names, strict=True))
    return Stage(stage.name, new, renamed(stage.body), renamed(stage.init))


def _added(stage: Stage, op: str) -> Expr | None:
    """f of ``buf[i] = op(buf[i], f)``."""
    (store,) = stage.body
    itself = Load(store.buffer, store.index)
    if not isinstance(store.value, Binary) or store.value.op != op:
        return None
    a, b = store.value.a, store.value.b
    return b if a == itself else a if b == itself else None


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite(expr, lambda e: new if e == old else None)


def _on_lanes(program: Program, softmax: Softmax) -> bool:
    known = {a.var: (0, a.extent - 1) for a in softmax.rows}
    known[COLUMN] = (0, softmax.columns - 1)
    lanes = Lanes(program, known, {QUOTIENT: "f32"})
    raised = Store(softmax.raised.buffer, softmax.raised.index, softmax.value)
    return lanes.dtype(softmax.value) == "f32" and all(
        program.buffer(s.buffer).dtype == "f32" and lanes.store(s, COLUMN)
        for s in (raised, softmax.result)
    )


def schedule_softmax(softmax: Softmax) -> Scheduled:
    """The loops; rows are the parallel loop."""
    extent = 1
    for axis in softmax.rows:
        extent *= axis.extent
    body = [*_largest(softmax), *_raise(softmax), *_divide(softmax)]
    for axis, value in reversed(unflatten(softmax.rows, Var("$p"))):
        body = [Let(axis.var, value, body)]
    return Scheduled([For("$p", Var(BEGIN), Var(END), 1, body)], extent)


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
        return Call("exp_below", (Binary("sub", value, Var(peak)),))

    def step(u: int) -> list[Statement]:
        return [
            _set(f"power{u}", power("peaks", _at(softmax.value, u)), COLUMN),
            Put((Store(store.buffer, _at(store.index, u), Var(f"power{u}")),), COLUMN),
            _set(f"total{u}", Binary("add", Var(f"total{u}"), Var(f"power{u}")), COLUMN),
        ]

    last: list[Statement] = [
        _set("power", power("peak", softmax.value)),
        Put((Store(store.buffer, store.index, Var("power")),)),
        _set("total", Binary("add", Var("total"), Var("power"))),
    ]
    zero = Const(0.0, "f32")
    return [
        _set("total", zero),
        *(_set(f"total{u}", zero, COLUMN) for u in range(_chains(softmax))),
        *_walk(softmax, step, last),
        *_joined(softmax, "total", "add", "add"),
    ]


def _divide(softmax: Softmax) -> list[Statement]:
    raised, result = softmax.raised, softmax.result

    def step(u: int, scale: str = "scales", along: str = COLUMN) -> list[Statement]:
        name = f"{QUOTIENT}{u if along else ''}"
        value = _replaced(_at(result.value, u), Var(QUOTIENT), Var(name))
        power = Load(raised.buffer, _at(raised.index, u))
        return [
            _set(name, Binary("mul", power, Var(scale)), along),
            Put((Store(result.buffer, _at(result.index, u), value),), along),
        ]

    return [
        _set("scale", Binary("div", Const(1.0, "f32"), Var("total"))),
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
