"""Recogniser of softmax: four stages over the last axis of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, loads, rewrite
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.lanes import Lanes
from nnjit_studio.compiler.ir.rewrite import int32, resolve, substitute_store
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

_ROW, COLUMN = "$row", "$column"
QUOTIENT = "quotient"


@dataclass(frozen=True)
class Softmax:
    """Rows of a softmax; expressions are of the row axes and of ``COLUMN``."""

    rows: tuple[Axis, ...]
    columns: int
    value: Expr
    """What is raised, before the row's largest value is taken away."""
    lowest: Expr
    """Where the search for the largest begins."""
    raised: Store
    """Keeps ``exp(value - largest)``; its own value is not used."""
    result: Store
    """Reads ``QUOTIENT`` in place of the division."""

    @property
    def n_rows(self) -> int:
        return math.prod(axis.extent for axis in self.rows)


def recognize_softmax(program: Program) -> Softmax | None:
    """The softmax that a program of four stages is, over the last axis of each; else None."""
    if not sums_in_turns(program.stages):
        return None
    stages = [_normal(stage) for stage in program.stages]
    if any(stage is None for stage in stages):
        return None
    (peak, raised, total, result) = (stage for stage in stages if stage is not None)
    rows, columns = peak.axes[:-1], peak.axes[-1].extent
    if columns < LANES:
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
    if value is None or exponent != Call("exp", (value - largest,)):
        return None
    if _added(total, "add") != element or total.init[0].value != Const(0.0, "f32"):
        return None
    quotient = element / Load(total.body[0].buffer, total.body[0].index)
    end = result.body[0]
    end = Store(
        end.buffer,
        end.index,
        rewrite(end.value, lambda e: Var(QUOTIENT) if e == quotient else None),
    )
    written = {stage.body[0].buffer for stage in (peak, raised, total, result)}
    if any(load.buffer in written for e in (value, end.value) for load in loads(e)):
        return None
    found = Softmax(rows, columns, value, peak.init[0].value, raised.body[0], end)
    return found if _on_lanes(program, found) else None


def sums_in_turns(stages: Sequence[Stage]) -> bool:
    """Whether four stages reduce where a softmax's do: what is cheap to ask of any program."""
    return [bool(stage.init) for stage in stages] == [True, False, True, False]


def overwritten(program: Program) -> str | None:
    """The input that a softmax's output may overwrite, if nothing reads it later.

    Each row is processed alone: the first two passes read an element before the second writes its
    exponential to the same place, and the third reads exponentials only.
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


def _on_lanes(program: Program, softmax: Softmax) -> bool:
    known = {a.var: (0, a.extent - 1) for a in softmax.rows}
    known[COLUMN] = (0, softmax.columns - 1)
    lanes = Lanes(program, known, {QUOTIENT: "f32"})
    raised = Store(softmax.raised.buffer, softmax.raised.index, softmax.value)
    return lanes.dtype(softmax.value) == "f32" and all(
        program.buffer(s.buffer).dtype == "f32" and lanes.store(s, COLUMN)
        for s in (raised, softmax.result)
    )
