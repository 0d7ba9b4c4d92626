"""Planning of a default schedule: lanes of each stage, and the axes that all stages share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, affine, loads, rewrite, variables
from nnjit_studio.compiler.ir.apart import Walk, stay_apart
from nnjit_studio.compiler.ir.dtypes import computed
from nnjit_studio.compiler.ir.lanes import Lanes
from nnjit_studio.compiler.ir.rewrite import (
    int32,
    map_steps,
    resolve,
    resolve_value,
    substitute,
    substitute_store,
)
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    stage_expressions,
    stores_in,
)
from nnjit_studio.compiler.ir.tensor_ir import Statement as Step
from nnjit_studio.compiler.schedule.padding import Padding, padding_of
from nnjit_studio.errors import CompileError

_ENOUGH = 64  # parallel steps that keep any number of threads busy
_SMALL_PART = 8  # stages of at most one part in so many of the work may lose their lanes
NEUTRAL = {"add": 0.0, "mul": 1.0, "min": math.inf, "max": -math.inf}


@dataclass(frozen=True)
class StagePlan:
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


def plans_of(program: Program) -> tuple[list[StagePlan], int]:
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
        if len(extents) == 1 and small and _stay_apart(plans, count):
            return plans, count
    return free, 0


def _plan(program: Program, number: int, stage: Stage, reserved: int) -> StagePlan:
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
        return StagePlan(number, tuple(spatial), (), (), (), (), "", steps)
    lanes = _lane_axis(program, spatial, reduce, body, init, reserved)
    padding = padding_of(body, extents) if not (lanes or init) and len(spatial) > 1 else None
    if padding:
        sides = (padding.inside, padding.outside)
        lanes = _lane_axis(program, spatial, reduce, sides, init, reserved)
    dtypes = tuple(computed(program.buffer(s.buffer).dtype) for s in body)
    spatial.sort(key=lambda axis: axis.var == lanes)
    reduce.sort(key=lambda axis: axis.var == lanes)
    padding = padding if lanes else None
    return StagePlan(number, tuple(spatial), tuple(reduce), body, init, dtypes, lanes, (), padding)


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
        elif not (init and _joins_lanes(program, lanes, body)) or not all(
            lanes.value(s.value, axis.var) for s in body
        ):
            continue
        cost = sum(lanes.gathers(s.value, axis.var) for s in body)
        if best is None or cost < best[0]:
            best = cost, axis.var
    return best[1] if best else ""


def _joins_lanes(program: Program, lanes: Lanes, body: Sequence[Store]) -> bool:
    """Whether a reduction may run on lanes, joined at its end: of floats, and sums of integers."""
    dtypes = {computed(program.buffer(s.buffer).dtype) for s in body}
    dtypes |= {lanes.dtype(s.value) for s in body}
    sums = all(isinstance(s.value, Binary) and s.value.op == "add" for s in body)
    return dtypes == {"f32"} or (dtypes == {"i32"} and sums)


def _is_plain_reduction(body: Sequence[Store]) -> bool:
    return all(reduction(store, body) is not None for store in body)


def reduction(store: Store, body: Sequence[Store]) -> tuple[str, Expr] | None:
    """``(op, f)`` of ``buf[i] = op(buf[i], f)`` where f reads no accumulator."""
    value = store.value
    if not isinstance(value, Binary) or value.op not in NEUTRAL:
        return None
    itself = Load(store.buffer, store.index)
    written = {s.buffer for s in body}
    for accumulator, rest in ((value.a, value.b), (value.b, value.a)):
        if accumulator == itself and not any(x.buffer in written for x in loads(rest)):
            return value.op, rest
    return None


def _stay_apart(plans: Sequence[StagePlan], count: int) -> bool:
    written = {s.buffer for plan in plans for s in (*plan.body, *stores_in(plan.steps))}
    walks = (
        Walk(p.spatial[:count], (*p.spatial[count:], *p.reduce), p.steps, _accesses(p))
        for p in plans
    )
    return stay_apart(walks, written)


def _accesses(plan: StagePlan) -> list[tuple[str, Expr]]:
    stage = Stage("", (), plan.body, plan.init, plan.steps)
    stores = (*plan.body, *plan.init, *stores_in(plan.steps))
    found = [(s.buffer, s.index) for s in stores]
    for expr in stage_expressions(stage):
        found += [(load.buffer, load.index) for load in loads(expr)]
    return found
