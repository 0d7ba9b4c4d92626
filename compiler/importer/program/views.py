"""Calls that only move elements, as maps from index to index.

A view is ``target[to] = scale * source[from]``, both indices sums over the same
variables and ``to`` one-to-one: a transpose, a slice, a broadcast, with a
constant factor or without. Whoever reads the target can read the source. What widens f16 is one
that moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import LinearForm, linear_expr, linear_form, rewrite, walk
from nnjit_studio.compiler.ir.rewrite import map_stores, substitute_store
from nnjit_studio.compiler.ir.tensor_ir import (
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
from nnjit_studio.compiler.tvm_adapter import ProgramCall

Move = Callable[[LinearForm, Mapping[str, int]], Expr | None]
"""An index into one layout as an index into another, over variables of known extents."""


def behind(root: Mapping[str, str]) -> Callable[[str], str]:
    """The name of what a view is a view of, and that of any other value."""
    return lambda name: root.get(name, name)


@dataclass(frozen=True)
class View:
    """``target[to] = scale * source[origin]`` over variables of the given extents.

    ``whole``: the source has no more elements than the target. ``widens``: it is f16, and
    the target f32.
    """

    extents: Mapping[str, int]
    origin: LinearForm
    to: LinearForm
    scale: Const | None = None
    whole: bool = True
    widens: bool = False

    @property
    def permutes(self) -> bool:
        """Whether it is a bijection without a factor, so that its inverse is a view too."""
        plain = self.whole and self.scale is None and not self.widens
        return plain and one_to_one(self.origin, self.extents)

    @property
    def moves(self) -> bool:
        """Whether it moves anything: a reshape is free in any case."""
        return not self.permutes or self.to != self.origin

    def inward(self, form: LinearForm, known: Mapping[str, int]) -> Expr | None:
        """An index into the target as one into the source."""
        return _moved(form, self.to, self.origin, self.extents, known)

    def outward(self, form: LinearForm, known: Mapping[str, int]) -> Expr | None:
        """An index into the source as one into the target, of a view that permutes."""
        return _moved(form, self.origin, self.to, self.extents, known)


def view_of(call: ProgramCall) -> View | None:
    """The view that a call is, if it is one."""
    program = call.program
    if len(program.buffers) != 2 or len(program.stages) != 1 or call.inputs[0].constant is not None:
        return None
    stage = _cut(program.stages[0])
    source, target = program.buffers
    widens = (source.dtype, target.dtype) == ("f16", "f32")
    if stage.init or stage.steps or len(stage.body) != 1:
        return None
    (store,) = stage.body
    value, scale = store.value, None
    if widens:
        value = value.value if isinstance(value, Cast) else value
    elif source.dtype != target.dtype:
        return None
    if isinstance(value, Binary) and value.op == "mul" and source.dtype == "f32":
        factors = (value.a, value.b)
        scale = next((f for f in factors if isinstance(f, Const)), None)
        if scale is not None:  # else it is x * f(x), such as a GELU: no view
            value = next((f for f in factors if f is not scale), value)
    if not isinstance(value, Load):
        return None
    extents = stage.extents
    to, origin = linear_form(store.index, extents), linear_form(value.index, extents)
    if to is None or origin is None:
        return None
    size = math.prod(target.shape)
    if size != math.prod(extents.values()) or not one_to_one(to, extents):
        return None
    return View(extents, origin, to, scale, size == math.prod(source.shape), widens)


def in_parts(call: ProgramCall) -> tuple[ProgramCall, ...]:
    """One call for each output of a program whose stages share nothing, such as a split."""
    program = call.program
    outputs = [b for b in program.buffers if b.role == "output"]
    written = [s.buffer for stage in program.stages for s in stage.body]
    plain = all(not s.init and not s.steps for s in program.stages)
    if len(outputs) < 2 or not plain or sorted(written) != sorted(b.name for b in outputs):
        return (call,)
    given = dict(zip((b.name for b in program.buffers), (*call.inputs, *call.outputs), strict=True))
    parts = []
    for i, output in enumerate(outputs):
        (stage,) = (s for s in program.stages if s.body[0].buffer == output.name)
        read = {e.buffer for s in stage.body for e in walk(s.value) if isinstance(e, Load)}
        if len(stage.body) != 1 or read & set(written):
            return (call,)
        buffers = tuple(b for b in program.buffers if b.name in read or b is output)
        tensors = call.origin.tensors[i : i + 1]
        parts.append(
            ProgramCall(
                replace(program, buffers=buffers, stages=(stage,)),
                tuple(given[b.name] for b in buffers if b.role == "input"),
                (given[output.name],),
                replace(call.origin, tensors=tensors),
            )
        )
    return tuple(parts)


def _cut(stage: Stage) -> Stage:
    """Axes that an index divides become two each, so that divisions resolve."""
    for axis in stage.axes:
        parts = {
            int(e.b.value)
            for s in stage.body
            for e in (*walk(s.index), *walk(s.value))
            if isinstance(e, Binary)
            and e.op in ("floordiv", "floormod")
            and e.a == Var(axis.var)
            and isinstance(e.b, Const)
        }
        size = min(parts, default=0)
        if size < 2 or axis.extent % size or axis.extent == size:
            continue
        high, low = replace(axis, var=f"{axis.var}h", extent=axis.extent // size), f"{axis.var}l"
        joined = Var(high.var) * size + Var(low)
        values: dict[str, Expr] = {axis.var: joined}
        axes = tuple(
            part
            for a in stage.axes
            for part in ((high, replace(axis, var=low, extent=size)) if a is axis else (a,))
        )
        body = tuple(substitute_store(s, values) for s in stage.body)
        return _cut(replace(stage, axes=axes, body=body))
    return stage


def one_to_one(form: LinearForm, extents: Mapping[str, int]) -> bool:
    """Whether the form counts every position of a dense buffer once."""
    span = 1
    for var, step in sorted(form[1].items(), key=lambda item: item[1]):
        if step != span:
            return False
        span *= extents[var]
    return form[0] == 0 and span == math.prod(extents.values())


def _moved(form: LinearForm, before: LinearForm, after: LinearForm, extents: Mapping[str, int],
           known: Mapping[str, int]) -> Expr | None:  # fmt: skip
    """An index into the ``before`` side as one into the ``after`` side, if that is linear."""
    flat = linear_expr(form)
    total: Expr = Const(after[0], "i32")
    for var, step in before[1].items():
        digit = flat // step % extents[var]
        total = total + digit * after[1].get(var, 0)
    moved = linear_form(total, known)
    return None if moved is None else linear_expr(moved)


class _Unresolved(Exception):
    """An index that does not stay a plain sum."""


def with_buffer(
    program: Program, name: str, shape: Sequence[int], move: Move, scale: Const | None = None
) -> Program | None:
    """The program with another layout of one buffer; None where an index has no linear form.

    What is read from the buffer is multiplied by ``scale``.
    """

    def stage(old: Stage) -> Stage:
        if old.steps:
            raise _Unresolved
        known = old.extents

        def index(expr: Expr) -> Expr:
            form = linear_form(expr, known)
            moved = move(form, known) if form is not None else None
            if moved is None:
                raise _Unresolved
            return moved

        def change(expr: Expr) -> Expr | None:
            if isinstance(expr, Load) and expr.buffer == name:
                load = Load(name, index(expr.index))
                return load if scale is None else load * scale
            return None

        def moved(s: Store) -> Store:
            place = index(s.index) if s.buffer == name else rewrite(s.index, change)
            return Store(s.buffer, place, rewrite(s.value, change))

        return map_stores(old, moved)

    try:
        stages = tuple(stage(s) for s in program.stages)
    except _Unresolved:
        return None
    buffers = tuple(
        replace(b, shape=tuple(shape)) if b.name == name else b for b in program.buffers
    )
    return replace(program, buffers=buffers, stages=stages)


def stored_as(program: Program, name: str, dtype: str) -> Program:
    """The program with one buffer in another dtype, of which kernels compute with the same."""
    buffers = tuple(replace(b, dtype=dtype) if b.name == name else b for b in program.buffers)
    return replace(program, buffers=buffers)
