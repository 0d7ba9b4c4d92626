"""The schedule of any program: parallel outside, four lanes inside, sums in locals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import LANES, affine, bounds_of, loads, rewrite, variables
from nnjit_studio.compiler.ir.dtypes import computed
from nnjit_studio.compiler.ir.lanes import Lanes
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
)
from nnjit_studio.compiler.ir.rewrite import (
    int32,
    loops_in,
    map_steps,
    plus,
    replace_loads,
    resolve,
    resolve_value,
    substitute,
    substitute_store,
    times,
    unflatten,
)
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Const,
    Expr,
    Load,
    Loop,
    Program,
    Stage,
    Store,
    Var,
    stage_expressions,
    stores_in,
)
from nnjit_studio.compiler.ir.tensor_ir import Statement as Step
from nnjit_studio.compiler.schedule.padding import Padding, padded, padding_of
from nnjit_studio.errors import CompileError

PARALLEL = "$p"
_BLOCK = 1024  # elements of a one-dimensional stage that one parallel step covers
_ENOUGH = 64  # parallel steps that keep any number of threads busy
_SMALL_PART = 8  # stages of at most one part in so many of the work may lose their lanes
_ACCUMULATORS = 4  # independent sums that hide the latency of an addition
_NEUTRAL = {"add": 0.0, "mul": 1.0, "min": math.inf, "max": -math.inf}


@dataclass(frozen=True)
class _Plan:
    """A stage without axes of extent 1, and the axis that runs on lanes (or "")."""

    number: int
    spatial: tuple[Axis, ...]  # the lane axis last
    reduce: tuple[Axis, ...]  # the lane axis last
    body: tuple[Store, ...]
    init: tuple[Store, ...]
    dtypes: tuple[str, ...]  # of the buffers that the body stores to
    lanes: str
    steps: tuple[Step, ...] = ()  # instead of a body
    padding: Padding | None = None  # of a body whose lanes need it

    @property
    def points(self) -> int:
        """How often the body runs."""
        return math.prod(axis.extent for axis in (*self.spatial, *self.reduce))


def schedule_default(program: Program) -> Scheduled:
    """Loops for any program.

    Raises
    ------
    CompileError
        When a reduction's result moves with its reduce axes.
    """
    numbers, rest = _numbers(program)
    if numbers:
        # Once a call of the kernel, so on every thread: all of them write the same.
        ahead: list[Statement] = [Put(stage.body) for stage in numbers]
        scheduled = schedule_default(rest)
        return Scheduled([*ahead, *scheduled.body], scheduled.parallel_extent)
    plans, shared = _plans(program)
    if not shared:
        if len(plans) == 1 and plans[0].spatial:
            return _blocked(plans[0])
        once: list[Statement] = [s for plan in plans for s in _nest(plan, plan.spatial)]
        return Scheduled([For(PARALLEL, Var(BEGIN), Var(END), 1, once)], 1)
    extent = math.prod(axis.extent for axis in plans[0].spatial[:shared])
    body: list[Statement] = []
    for plan in plans:
        inner = _nest(plan, plan.spatial[shared:])
        for axis, value in reversed(unflatten(plan.spatial[:shared], Var(PARALLEL))):
            inner = [Let(axis.var, value, inner)]
        body += inner
    return Scheduled([For(PARALLEL, Var(BEGIN), Var(END), 1, body)], extent)


def _numbers(program: Program) -> tuple[tuple[Stage, ...], Program]:
    """The stages in front that compute one number each, of inputs alone, and the others."""
    count, stages = 0, program.stages
    inputs = {b.name for b in program.buffers if b.role == "input"}
    while count < len(stages) - 1 and not (stages[count].axes or stages[count].steps):
        read = {load.buffer for e in stage_expressions(stages[count]) for load in loads(e)}
        if not inputs.issuperset(read):
            break
        count += 1
    return stages[:count], replace(program, stages=stages[count:])


def _plans(program: Program) -> tuple[list[_Plan], int]:
    """A plan for each stage, and how many leading axes they share as the parallel loop.

    Several stages share axes when each point stays with itself. A small stage
    gives up its lanes for that, but not one that does a good part of the work.
    """
    free = [_plan(program, i, stage, 0) for i, stage in enumerate(program.stages)]
    if len(free) == 1:
        extent, count = 1, 0
        for axis in free[0].spatial:
            if extent >= _ENOUGH or axis.var == free[0].lanes:
                break
            extent, count = extent * axis.extent, count + 1
        return free, count
    for count in range(min(len(plan.spatial) for plan in free), 0, -1):
        plans = [_plan(program, i, stage, count) for i, stage in enumerate(program.stages)]
        extents = {tuple(a.extent for a in plan.spatial[:count]) for plan in plans}
        lost = sum(a.points for a, b in zip(free, plans, strict=True) if a.lanes != b.lanes)
        small = lost * _SMALL_PART <= sum(plan.points for plan in plans)
        if len(extents) == 1 and small and _stays(program, plans, count):
            return plans, count
    return free, 0


def _plan(program: Program, number: int, stage: Stage, reserved: int) -> _Plan:
    """Lanes for a stage, on another axis than the first ``reserved`` spatial ones."""
    ones: dict[str, Expr] = {a.var: int32(0) for a in stage.axes if a.extent == 1}
    spatial = [a for a in stage.axes if a.extent > 1 and a.kind == "spatial"]
    reduce = [a for a in stage.axes if a.extent > 1 and a.kind == "reduce"]
    extents = {a.var: a.extent for a in (*spatial, *reduce)}
    body = tuple(resolve(substitute_store(s, ones), extents) for s in stage.body)
    init = tuple(resolve(substitute_store(s, ones), extents) for s in stage.init)
    if init:
        body = _one_spelling(program, stage, body)
        moving = {axis.var for axis in reduce}
        if any(variables(store.index) & moving for store in body):
            raise CompileError(
                f"Stage {stage.name} of {program.name} writes to an index that moves with "
                "its reduction.",
                "Report the model: the importer should have split this stage.",
            )
    if stage.steps:
        steps = map_steps(
            stage.steps,
            lambda s, known: resolve(substitute_store(s, ones), known),
            lambda e, known: resolve_value(substitute(e, ones), known),
            extents,
        )
        return _Plan(number, tuple(spatial), (), (), (), (), "", steps)
    lanes = _lane_axis(program, spatial, reduce, body, init, reserved)
    padding = padding_of(body, extents) if not (lanes or init) and len(spatial) > 1 else None
    if padding:
        sides = (padding.inside, padding.outside)
        lanes = _lane_axis(program, spatial, reduce, sides, init, reserved)
    dtypes = tuple(computed(program.buffer(s.buffer).dtype) for s in body)
    spatial.sort(key=lambda axis: axis.var == lanes)
    reduce.sort(key=lambda axis: axis.var == lanes)
    padding = padding if lanes else None
    return _Plan(number, tuple(spatial), tuple(reduce), body, init, dtypes, lanes, (), padding)


def _one_spelling(program: Program, stage: Stage, body: Sequence[Store]) -> tuple[Store, ...]:
    """Reads of accumulators spelled like the stores, so that ``==`` finds them."""
    stored = {s.buffer: s.index for s in body}

    def visit(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in stored:
            return None
        index = stored[expr.buffer]
        mine, theirs = affine(expr.index), affine(index)
        if dict(mine.terms) != dict(theirs.terms) or mine.constant != theirs.constant:
            raise CompileError(
                f"Stage {stage.name} of {program.name} reads {expr.buffer} at another index "
                "than the one that it reduces into.",
                "Report the model: the importer should have split this stage.",
            )
        return Load(expr.buffer, index)

    return tuple(Store(s.buffer, s.index, rewrite(s.value, visit)) for s in body)


def _lane_axis(
    program: Program,
    spatial: Sequence[Axis],
    reduce: Sequence[Axis],
    body: Sequence[Store],
    init: Sequence[Store],
    reserved: int,
) -> str:
    """The axis whose lanes gather the fewest loads; spatial and inner axes win ties."""
    known = {a.var: (0, a.extent - 1) for a in (*spatial, *reduce)}
    lanes = Lanes(program, known)
    best: tuple[int, str] | None = None
    candidates = [
        *reversed(spatial[reserved:]),
        *(reversed(reduce) if _is_plain_reduction(body) else ()),
    ]
    for axis in candidates:
        if axis.extent < LANES:
            continue
        if axis.kind == "spatial":
            if not all(lanes.store(s, axis.var) for s in (*body, *init)):
                continue
        elif not init or not all(
            computed(program.buffer(s.buffer).dtype) == "f32"
            and lanes.dtype(s.value) == "f32"
            and lanes.value(s.value, axis.var)
            for s in body
        ):
            continue
        cost = sum(lanes.gathers(s.value, axis.var) for s in body)
        if best is None or cost < best[0]:
            best = cost, axis.var
    return best[1] if best else ""


def _is_plain_reduction(body: Sequence[Store]) -> bool:
    return all(_reduction(store, body) is not None for store in body)


def _reduction(store: Store, body: Sequence[Store]) -> tuple[str, Expr] | None:
    """``(op, f)`` of ``buf[i] = op(buf[i], f)`` where f reads no accumulator."""
    value = store.value
    if not isinstance(value, Binary) or value.op not in _NEUTRAL:
        return None
    itself = Load(store.buffer, store.index)
    written = {s.buffer for s in body}
    for accumulator, rest in ((value.a, value.b), (value.b, value.a)):
        if accumulator == itself and not any(x.buffer in written for x in loads(rest)):
            return value.op, rest
    return None


def _stays(program: Program, plans: Sequence[_Plan], count: int) -> bool:
    """Whether each point of the leading axes touches a part of its own of every result."""
    written = {s.buffer for plan in plans for s in (*plan.body, *stores_in(plan.steps))}
    steps: dict[str, tuple[int, ...]] = {}
    for plan in plans:
        outer = plan.spatial[:count]
        known = {a.var: (0, a.extent - 1) for a in (*plan.spatial, *plan.reduce)}
        known.update({loop.var: (0, loop.extent - 1) for loop in loops_in(plan.steps)})
        known.update({a.var: (0, 0) for a in outer})
        for buffer, index in _accesses(plan):
            if buffer not in written:
                continue
            linear = affine(index)
            factors = dict(linear.terms)
            mine = tuple(factors.get(a.var, 0) for a in outer)
            mixed = any(
                not isinstance(atom, str) and variables(atom) & {a.var for a in outer}
                for atom in factors
            )
            low, high = bounds_of(linear, known)
            if mixed or steps.setdefault(buffer, mine) != mine or low < 0 or high >= mine[-1]:
                return False
            for i in range(count - 1):
                if mine[i] < outer[i + 1].extent * mine[i + 1]:
                    return False
    return True


def _accesses(plan: _Plan) -> list[tuple[str, Expr]]:
    stage = Stage("", (), plan.body, plan.init, plan.steps)
    stores = (*plan.body, *plan.init, *stores_in(plan.steps))
    found = [(s.buffer, s.index) for s in stores]
    for expr in stage_expressions(stage):
        found += [(load.buffer, load.index) for load in loads(expr)]
    return found


def _blocked(plan: _Plan) -> Scheduled:
    """A stage whose only spatial axis runs on lanes: blocks of it are the parallel loop."""
    (axis,) = plan.spatial
    begin = times(Var(PARALLEL), _BLOCK)
    end = Binary("min", plus(begin, _BLOCK), int32(axis.extent))
    whole = times(Binary("floordiv", Var("$end_of_block"), int32(LANES)), LANES)
    body: list[Statement] = [For(axis.var, begin, Var("$whole"), LANES, _point(plan, axis.var))]
    if axis.extent % LANES:
        body.append(For(axis.var, Var("$whole"), Var("$end_of_block"), 1, _point(plan, "")))
    body = [Let("$end_of_block", end, [Let("$whole", whole, body)])]
    count = -(-axis.extent // _BLOCK)
    return Scheduled([For(PARALLEL, Var(BEGIN), Var(END), 1, body)], count)


def _nest(plan: _Plan, axes: Sequence[Axis]) -> list[Statement]:
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


def _point(plan: _Plan, along: str) -> list[Statement]:
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
    return [For(var, int32(begin), int32(end), step, body)] if begin < end else []


def _loops(axes: Sequence[Axis], body: list[Statement]) -> list[Statement]:
    for axis in reversed(axes):
        body = [For(axis.var, int32(0), int32(axis.extent), 1, body)]
    return body


def _locals(plan: _Plan, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, plan.dtypes[i]) for i, name in enumerate(names))


def _initial(plan: _Plan) -> tuple[Expr, ...]:
    values = {s.buffer: s.value for s in plan.init}
    return tuple(values[s.buffer] for s in plan.body)


def _reduction_on_lanes(plan: _Plan) -> list[Statement]:
    """Several vector sums along the last reduce axis, combined at the end."""
    axis = plan.reduce[-1]
    parts = [found for s in plan.body if (found := _reduction(s, plan.body)) is not None]
    count = _ACCUMULATORS if axis.extent >= _ACCUMULATORS * LANES else 1
    names = [f"acc{plan.number}_{i}s" for i in range(len(parts))]
    sums = [[f"acc{plan.number}_{i}v{u}" for u in range(count)] for i in range(len(parts))]

    def step(unroll: int) -> list[Statement]:
        result: list[Statement] = []
        for i, (op, value) in enumerate(parts):
            for u in range(unroll):
                shifted = substitute(value, {axis.var: plus(Var(axis.var), LANES * u)})
                total = Binary(op, Var(sums[i][u]), shifted)
                result.append(Assign(((sums[i][u], "f32"),), (total,), axis.var))
        return result

    wide = axis.extent // (LANES * count) * LANES * count
    whole = axis.extent // LANES * LANES
    tail: list[Statement] = [
        Assign(((name, "f32"),), (Binary(op, Var(name), value),))
        for name, (op, value) in zip(names, parts, strict=True)
    ]
    inner: list[Statement] = [
        *_loop(axis.var, 0, wide, LANES * count, step(count)),
        *_loop(axis.var, wide, whole, LANES, step(1)),
        *_loop(axis.var, whole, axis.extent, 1, tail),
    ]
    result: list[Statement] = [Assign(_locals(plan, names), _initial(plan))]
    for i, (op, _) in enumerate(parts):
        neutral = Const(_NEUTRAL[op], "f32")
        result += [Assign(((name, "f32"),), (neutral,), axis.var) for name in sums[i]]
    result += _loops(plan.reduce[:-1], inner)
    for i, (op, _) in enumerate(parts):
        first, *rest = sums[i]
        for other in rest:
            total = Binary(op, Var(first), Var(other))
            result.append(Assign(((first, "f32"),), (total,), axis.var))
        result.append(Reduce(names[i], op, first))
    stores = (Store(s.buffer, s.index, Var(name)) for s, name in zip(plan.body, names, strict=True))
    return [*result, Put(tuple(stores))]
