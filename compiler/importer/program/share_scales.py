"""One program for quantised steps that differ in their scales and zero points alone.

TVM writes numbers into programs. Every layer of a quantised model then has a kernel of its own,
to be compiled, tuned and shipped, though all do the same. Here such numbers become a weight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nnjit_studio.compiler.ir.affine import rewrite, walk
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.rewrite import map_stores
from nnjit_studio.compiler.ir.tensor_ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    stage_expressions,
)
from nnjit_studio.compiler.recognize.quantised import recognize_blocks
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value

_EXACT = 1 << 24
"""Whole numbers below it are exact in float32, which the weight holds."""


@dataclass(frozen=True)
class _Form:
    """A program with zeros for its numbers, and those numbers in order."""

    program: Program
    numbers: tuple[float | int, ...]


def share_scales(calls: ImportedCalls) -> ImportedCalls:
    """The same calls; numbers that differ between otherwise equal programs are inputs."""
    forms: dict[Program, _Form | None] = {}
    for call in calls.calls:
        if call.program not in forms:
            forms[call.program] = _form(call.program)
    numbers: dict[Program, set[tuple[float | int, ...]]] = defaultdict(set)
    for form in forms.values():
        if form is not None:
            numbers[form.program].add(form.numbers)
    changed = []
    for position, call in enumerate(calls.calls):
        form = forms[call.program]
        if form is not None and len(numbers[form.program]) > 1:
            columns = zip(*numbers[form.program], strict=True)
            places = [i for i, column in enumerate(columns) if len(set(column)) > 1]
            whole = {
                i for i in places if all(float(n[i]).is_integer() for n in numbers[form.program])
            }
            call = _with_weight(call, form, places, whole, f"scales of call {position}")
        changed.append(call)
    return replace(calls, calls=tuple(changed))


def _form(program: Program) -> _Form | None:
    """None of a program that neither reads nor makes bytes, of one with serial steps, and of a
    product that makes its row, whose template has to know the numbers."""
    casts = {
        e.dtype
        for stage in program.stages
        for expr in stage_expressions(stage)
        for e in walk(expr)
        if isinstance(e, Cast)
    }
    quantised = casts.intersection(BYTES) or any(b.dtype in BYTES for b in program.buffers)
    if not quantised or any(stage.steps for stage in program.stages):
        return None
    if (product := recognize_blocks(program)) is not None and product.row is not None:
        return None
    numbers: list[float | int] = []

    def note(number: Const) -> Expr:
        numbers.append(number.value)
        return replace(number, value=0)

    without = _mapped(program, note)
    return _Form(without, tuple(numbers))


def _with_weight(
    call: ProgramCall, form: _Form, places: list[int], whole: set[int], name: str
) -> ProgramCall:
    """The call with a weight of its numbers; what is whole is read so that kernels know it."""
    inputs = [b for b in call.program.buffers if b.role == "input"]
    others = [b for b in call.program.buffers if b.role != "input"]
    weight = Buffer(f"in{len(inputs)}", "f32", (len(places),), "input", True)
    found = iter(range(len(form.numbers)))

    def read(number: Const) -> Expr:
        place = next(found)
        if place not in places:
            return number
        held = Load(weight.name, Const(places.index(place), "i32"))
        integer = Cast(held, "i32") if place in whole or number.dtype == "i32" else held
        return Cast(integer, "f32") if place in whole and number.dtype == "f32" else integer

    program = _mapped(call.program, read)
    data = np.array([form.numbers[i] for i in places], np.float32)
    return replace(
        call,
        program=replace(program, buffers=(*inputs, weight, *others)),
        inputs=(*call.inputs, Value(name, data.shape, "f32", data)),
    )


def _mapped(program: Program, change: Callable[[Const], Expr]) -> Program:
    def store(s: Store) -> Store:
        return replace(s, value=_changed(s.value, change))

    def stage(s: Stage) -> Stage:
        return replace(map_stores(replace(s, init=()), store), init=s.init)

    return replace(program, stages=tuple(map(stage, program.stages)))


def _changed(expr: Expr, change: Callable[[Const], Expr]) -> Expr:
    """The value with its numbers changed; those of indices and conditions stay."""

    def changed(e: Expr) -> Expr | None:
        if isinstance(e, Const):
            liftable = e.dtype == "f32" or (e.dtype == "i32" and abs(e.value) < _EXACT)
            return change(e) if liftable else e
        if isinstance(e, Binary) and e.op == "sub" and isinstance(e.b, Const):
            # One spelling for zero points of either sign.
            return rewrite(Binary("add", e.a, replace(e.b, value=-e.b.value)), changed)
        if isinstance(e, Select):
            return replace(
                e, then=rewrite(e.then, changed), otherwise=rewrite(e.otherwise, changed)
            )
        return e if isinstance(e, Load) else None

    return rewrite(expr, changed)
