"""The schedule of any program: parallel outside, four lanes inside, sums in locals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

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
    When,
    has_turns,
)
from nnjit_studio.compiler.ir.numbers_in_front import numbers_in_front
from nnjit_studio.compiler.ir.rewrite import (
    int32,
    plus,
    replace_loads,
    substitute,
    times,
    unflatten,
)
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Const,
    Expr,
    Loop,
    Program,
    Store,
    Var,
)
from nnjit_studio.compiler.ir.tensor_ir import Statement as Step
from nnjit_studio.compiler.schedule.default_plan import NEUTRAL, StagePlan, plans_of, reduction
from nnjit_studio.compiler.schedule.padding import padded

PARALLEL = "$p"
BLOCK = 1024
"""Elements of a one-dimensional stage that one parallel step covers."""
_ACCUMULATORS = 4  # independent sums that hide the latency of an addition
_EXTREMES = {"min": "pmin", "max": "pmax"}


def schedule_default(program: Program) -> Scheduled:
    """Loops for any program.

    Raises
    ------
    CompileError
        When a reduction's result moves with its reduce axes.
    """
    count = min(numbers_in_front(program), len(program.stages) - 1)
    if count:
        # Once a call of the kernel, so on every thread: all of them write the same.
        numbers, rest = (
            replace(program, stages=s) for s in (program.stages[:count], program.stages[count:])
        )
        scheduled = schedule_default(rest)
        ahead = in_order(numbers, len(rest.stages))
        return Scheduled([*ahead, *scheduled.body], scheduled.parallel_extent)
    plans, shared = plans_of(program)
    if not shared:
        if len(plans) == 1 and plans[0].spatial:
            return _blocked(plans[0])
        return Scheduled([For(PARALLEL, Var(BEGIN), Var(END), 1, in_order(program))], 1)
    extent = math.prod(axis.extent for axis in plans[0].spatial[:shared])
    body: list[Statement] = []
    for plan in plans:
        inner = _nest(plan, plan.spatial[shared:])
        for axis, value in reversed(unflatten(plan.spatial[:shared], Var(PARALLEL))):
            inner = [Let(axis.var, value, inner)]
        body += inner
    return Scheduled([For(PARALLEL, Var(BEGIN), Var(END), 1, body)], extent)


def in_order(program: Program, first: int = 0) -> list[Statement]:
    """All stages of a program one after the other, none of them in parallel.

    ``first`` is the number of the first one, which names its locals.
    """
    plans = (replace(plan, number=first + plan.number) for plan in plans_of(program)[0])
    return [s for plan in plans for s in _nest(plan, plan.spatial)]


def _blocked(plan: StagePlan) -> Scheduled:
    """A stage whose only spatial axis runs on lanes: blocks of it are the parallel loop."""
    (axis,) = plan.spatial
    begin = times(Var(PARALLEL), BLOCK)
    end = Binary("min", plus(begin, BLOCK), int32(axis.extent))
    whole = times(Var("$end_of_block") // LANES, LANES)
    body: list[Statement] = [For(axis.var, begin, Var("$whole"), LANES, _point(plan, axis.var))]
    if axis.extent % LANES:
        body.append(For(axis.var, Var("$whole"), Var("$end_of_block"), 1, _point(plan, "")))
    body = [Let("$end_of_block", end, [Let("$whole", whole, body)])]
    count = -(-axis.extent // BLOCK)
    return Scheduled([For(PARALLEL, Var(BEGIN), Var(END), 1, body)], count)


def _nest(plan: StagePlan, axes: Sequence[Axis]) -> list[Statement]:
    """Loops over spatial axes around a point of the stage."""
    if plan.padding:
        return padded(plan.padding, axes, plan.lanes)
    if not axes:
        return _point(plan, "")
    axis, *rest = axes
    if axis.var == plan.lanes:
        whole = axis.extent // LANES * LANES
        return [
            *_loop(axis.var, 0, whole, LANES, _point(plan, axis.var)),
            *_loop(axis.var, whole, axis.extent, 1, _point(plan, "")),
        ]
    return [For(axis.var, int32(0), int32(axis.extent), 1, _nest(plan, rest))]


def _point(plan: StagePlan, along: str) -> list[Statement]:
    """One spatial point, or four of them."""
    if plan.steps:
        return _serial(plan.steps)
    if not plan.init:
        return _loops(plan.reduce, [Put(plan.body, along)])
    if plan.reduce and plan.lanes == plan.reduce[-1].var:
        return _reduction_on_lanes(plan)
    names = [f"acc{plan.number}_{i}{'v' if along else 's'}" for i in range(len(plan.body))]
    read: dict[tuple[str, Expr], Expr] = {
        (s.buffer, s.index): Var(name) for s, name in zip(plan.body, names, strict=True)
    }
    locals = _locals(plan, names)
    step = Assign(locals, tuple(replace_loads(s.value, read) for s in plan.body), along)
    results = tuple(
        Store(s.buffer, s.index, Var(name)) for s, name in zip(plan.body, names, strict=True)
    )
    start = Assign(locals, _initial(plan), along)
    return [start, *_loops(plan.reduce, [step]), Put(results, along)]


def _serial(steps: Sequence[Step]) -> list[Statement]:
    result: list[Statement] = []
    for step in steps:
        if isinstance(step, Store):
            result.append(Put((step,)))
        elif isinstance(step, Loop):
            result.append(For(step.var, int32(0), int32(step.extent), 1, _serial(step.body)))
        else:
            result.append(When(step.condition, _serial(step.then), _serial(step.otherwise)))
    return result


def _loop(var: str, begin: int, end: int, step: int, body: list[Statement]) -> list[Statement]:
    return [For(var, int32(begin), int32(end), step, body)] if has_turns(begin, end) else []


def _loops(axes: Sequence[Axis], body: list[Statement]) -> list[Statement]:
    for axis in reversed(axes):
        body = [For(axis.var, int32(0), int32(axis.extent), 1, body)]
    return body


def _locals(plan: StagePlan, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, plan.dtypes[i]) for i, name in enumerate(names))


def _initial(plan: StagePlan) -> tuple[Expr, ...]:
    values = {s.buffer: s.value for s in plan.init}
    return tuple(values[s.buffer] for s in plan.body)


def _reduction_on_lanes(plan: StagePlan) -> list[Statement]:
    """Several vector sums along the last reduce axis, combined at the end."""
    parts = [found for s in plan.body if (found := reduction(s, plan.body)) is not None]
    names = [f"acc{plan.number}_{i}s" for i in range(len(parts))]
    start = list(zip(names, _initial(plan), strict=True))
    body = _in_chains(plan, parts, start)
    (op, value), *more = parts
    if op in _EXTREMES and not more and plan.reduce[-1].extent >= _ACCUMULATORS * LANES:
        # One instruction where the right one is seven, but it loses a NaN; a sum keeps it.
        total, zero = f"acc{plan.number}_sum", Const(0.0, "f32")
        quick = [(_EXTREMES[op], value), ("add", value)]
        lost = Binary("ne", Var(total), Var(total))
        body = [*_in_chains(plan, quick, [*start, (total, zero)]), When(lost, body, [])]
    stores = (Store(s.buffer, s.index, Var(name)) for s, name in zip(plan.body, names, strict=True))
    return [*body, Put(tuple(stores))]


def _in_chains(
    plan: StagePlan, parts: Sequence[tuple[str, Expr]], start: Sequence[tuple[str, Expr]]
) -> list[Statement]:
    """``name = op(name, value)`` of each part over the reduce axes, from its first value on."""
    axis, dtype = plan.reduce[-1], plan.dtypes[0]
    count = _ACCUMULATORS if axis.extent >= _ACCUMULATORS * LANES else 1
    names = [name for name, _ in start]
    exact = [op.removeprefix("p") for op, _ in parts]
    chains = [[f"{name[:-1]}v{u}" for u in range(count)] for name in names]

    def step(unroll: int) -> list[Statement]:
        result: list[Statement] = []
        for u in range(unroll):
            shifted = {axis.var: plus(Var(axis.var), LANES * u)}
            known: dict[Expr, str] = {}
            for chain, (op, value) in zip(chains, parts, strict=True):
                if value not in known and len(parts) > len({v for _, v in parts}):
                    known[value] = f"value{plan.number}_{u}"
                    new = substitute(value, shifted)
                    result.append(Assign(((known[value], dtype),), (new,), axis.var))
                term = Var(known[value]) if value in known else substitute(value, shifted)
                total = Binary(op, Var(chain[u]), term)
                result.append(Assign(((chain[u], dtype),), (total,), axis.var))
        return result

    wide = axis.extent // (LANES * count) * LANES * count
    whole = axis.extent // LANES * LANES
    tail: list[Statement] = [
        Assign(((name, dtype),), (Binary(op, Var(name), value),))
        for name, op, (_, value) in zip(names, exact, parts, strict=True)
    ]
    inner: list[Statement] = [
        *_loop(axis.var, 0, wide, LANES * count, step(count)),
        *_loop(axis.var, wide, whole, LANES, step(1)),
        *_loop(axis.var, whole, axis.extent, 1, tail),
    ]
    locals = tuple((name, dtype) for name in names)
    result: list[Statement] = [Assign(locals, tuple(value for _, value in start))]
    for chain, op in zip(chains, exact, strict=True):
        neutral = Const(NEUTRAL[op], dtype)
        result += [Assign(((name, dtype),), (neutral,), axis.var) for name in chain]
    result += _loops(plan.reduce[:-1], inner)
    for name, (first, *rest), (op, _), last in zip(names, chains, parts, exact, strict=True):
        for other in rest:
            total = Binary(op, Var(first), Var(other))
            result.append(Assign(((first, dtype),), (total,), axis.var))
        result.append(Reduce(name, last, first))
    return result
