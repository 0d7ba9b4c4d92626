"""Rows that a program makes before it multiplies them: element by element, up to a common factor.

Such as a root mean square norm, ``x / sqrt(mean(x * x) + e) * w``: what all elements are divided
by can wait until the product is known, for a product is linear; so whoever reads the elements
``x * w`` adds up ``x * x`` on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, linear_form, loads, rewrite, walk
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Var,
)

ELEMENT, TOTAL = "k", "whole"
"""Variables: the place in the row, and what was added up."""


@dataclass(frozen=True)
class MadeRow:
    """A row of f32; ``value`` and ``added`` are over :data:`ELEMENT`."""

    buffer: str
    """Where a kernel may store it."""
    length: int
    stages: tuple[Stage, ...]
    """What makes it there."""
    value: Expr
    """An element, without the factor."""
    added: Expr | None = None
    """What is added up of each element, where there is a factor."""
    factor: Expr | None = None
    """Of all elements, over :data:`TOTAL`."""


def made_row(program: Program, stages: Sequence[Stage]) -> MadeRow | None:
    """Read stages as those that make a row of whole vectors from inputs; None for all others."""
    rows: dict[str, Expr] = {}
    numbers: dict[str, Expr] = {}
    added: Expr | None = None
    lengths: set[int] = set()
    for stage in stages:
        if stage.steps or len(stage.body) != 1:
            return None
        (store,) = stage.body
        axes = [axis for axis in stage.axes if axis.extent > 1]
        lengths |= {axis.extent for axis in axes}
        value = _in_terms_of_inputs(store.value, stage, axes, rows, numbers)
        if not axes and not stage.init:
            numbers[store.buffer] = value
        elif len(axes) != 1:
            return None
        elif axes[0].kind == "reduce":
            term = _added(stage, value)
            if term is None or added is not None:
                return None
            added, numbers[store.buffer] = term, Var(TOTAL)
        elif linear_form(store.index, stage.extents) != (0, {axes[0].var: 1}):
            return None
        else:
            rows[store.buffer] = value
    buffer = stages[-1].body[0].buffer if stages else ""
    if buffer not in rows or len(lengths) != 1:
        return None
    value, factor = _apart(rows[buffer])
    given = {b.name: b for b in program.buffers if b.role == "input"}
    read = (value, *([added] if added is not None else []))
    if not all(_whole_vectors(e, given) for e in read) or (factor is None) != (added is None):
        return None
    if factor is not None and loads(factor):
        return None
    return MadeRow(buffer, lengths.pop(), tuple(stages), value, added, factor)


def _in_terms_of_inputs(
    value: Expr,
    stage: Stage,
    axes: Sequence[Axis],
    rows: Mapping[str, Expr],
    numbers: Mapping[str, Expr],
) -> Expr:
    """A value over :data:`ELEMENT`, earlier rows and numbers in the places where they are read."""
    var = axes[0].var if axes else ""

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Var):
            return Var(ELEMENT) if e.name == var else Const(0, "i32")
        if not isinstance(e, Load):
            return None
        if e.buffer in numbers:
            return numbers[e.buffer]
        if e.buffer in rows and linear_form(e.index, stage.extents) == (0, {var: 1}):
            return rows[e.buffer]
        return None

    return rewrite(value, change)


def _added(stage: Stage, value: Expr) -> Expr | None:
    """The term of a sum that begins at zero."""
    (store,), init = stage.body, stage.init
    if len(init) != 1 or init[0].value != Const(0.0, "f32"):
        return None
    if not isinstance(value, Binary) or value.op != "add":
        return None
    own = [isinstance(e, Load) and e.buffer == store.buffer for e in (value.a, value.b)]
    if own.count(True) != 1:
        return None
    term = value.b if own[0] else value.a
    return None if any(load.buffer == store.buffer for load in loads(term)) else term


def _apart(value: Expr) -> tuple[Expr, Expr | None]:
    """A product or quotient without the factor that is the same for all elements."""
    if isinstance(value, Binary) and value.op in ("mul", "div"):
        if _is_number(value.b):
            one = Const(1.0, "f32")
            return value.a, value.b if value.op == "mul" else one / value.b
        a, factor = _apart(value.a)
        if factor is not None:
            return Binary(value.op, a, value.b), factor
        if value.op == "mul":
            b, factor = _apart(value.b)
            return (a * b, factor) if factor is not None else (value, None)
    return value, None


def _is_number(value: Expr) -> bool:
    return Var(TOTAL) in walk(value) and Var(ELEMENT) not in walk(value)


def _whole_vectors(value: Expr, given: Mapping[str, Buffer]) -> bool:
    """Whether it reads inputs alone, four aligned neighbours at a time, and no common number."""

    def aligned(load: Load) -> bool:
        form = linear_form(load.index, {ELEMENT: 1 << 30})
        buffer = given.get(load.buffer)
        plain = form is not None and form[1] == {ELEMENT: 1} and form[0] % LANES == 0
        return plain and buffer is not None and buffer.dtype == "f32"

    return Var(TOTAL) not in walk(value) and all(map(aligned, loads(value)))
