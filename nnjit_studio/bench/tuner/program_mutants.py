"""Kernels that are wrong or slow on purpose, for tests of what is to notice them.

A mutant is a right schedule with one mistake in it, of the kinds that a
compiler makes: a bound, a stride, a tail, an accumulation. All passes after
the schedule then work on it as on any other.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnjit_studio.compiler.ir.affine import Affine
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    Add,
    Assign,
    AssignVector,
    Dot,
    Element,
    For,
    Let,
    MultiplyAdd,
    Put,
    Reduce,
    Scheduled,
    Statement,
    StoreVector,
    When,
    Widened,
)
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Const, Expr, Load, Program, Var
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import compile_program, schedule_program
from nnjit_studio.errors import CompileError, NnjitError
from nnjit_studio.records.candidate import Candidate

Mistake = tuple[str, Callable[[], None]]
"""Its kind, and what makes it in the schedule that it was found in."""
ATTEMPTS = 50


@dataclass(frozen=True)
class Mutant:
    """A kernel with a mistake of a kind, such as ``wrong tail``."""

    kind: str
    artifact: Artifact


def make_mutant(
    program: Program, candidate: Candidate | None, tier: str, rng: random.Random
) -> Mutant:
    """Compile a kernel with one mistake; equal seeds give equal kernels.

    Its bytes differ from the right kernel's. That it computes something else
    is likely, not certain: a dropped copy may be made good by a later one.

    Raises
    ------
    CompileError
        When no mistake was found that compiles.
    """
    scheduled = schedule_program(program, candidate, tier)
    right = compile_program(program, candidate, tier, scheduled=scheduled)
    for _ in range(ATTEMPTS):
        wrong, kind = _with_mistake(scheduled, rng)
        try:
            artifact = compile_program(program, candidate, tier, scheduled=wrong)
        except (NnjitError, ArithmeticError, LookupError, AssertionError, ValueError, TypeError):
            continue  # the lowering refuses some nonsense
        if artifact.data != right.data:
            return Mutant(kind, artifact)
    raise CompileError(f"No mistake was found for {program.name} {candidate}.")


def make_slower(program: Program, candidate: Candidate | None, tier: str, turns: int) -> Artifact:
    """The kernel with a loop of nothing in front: ``turns`` turns for each iteration of its
    outermost loop. It is right, and slower by a share that does not depend on the range.
    """
    scheduled = schedule_program(program, candidate, tier)
    iterations = Var(END) - Var(BEGIN)
    end = iterations * turns
    nothing = Assign((("$idle", "i32"),), (Const(0, "i32"),))
    idle = For("$turn", Const(0, "i32"), end, 1, [nothing])
    slower = replace(scheduled, body=[idle, *scheduled.body])
    return compile_program(program, candidate, tier, scheduled=slower)


def _with_mistake(scheduled: Scheduled, rng: random.Random) -> tuple[Scheduled, str]:
    """A copy with one mistake; every kind that applies is as likely as any other."""
    body = copy.deepcopy(scheduled.body)
    mistakes: dict[str, list[Callable[[], None]]] = {}
    for kind, make in _in_block(body):
        mistakes.setdefault(kind, []).append(make)
    kind = rng.choice(sorted(mistakes))
    rng.choice(mistakes[kind])()
    return replace(scheduled, body=body), kind


def _in_block(block: MutableSequence[Statement]) -> Iterator[Mistake]:
    for i, statement in enumerate(block):
        yield from _in_statement(statement)
        for inner in _blocks(statement):
            yield from _in_block(inner)
        if isinstance(statement, (For, Let, When)):
            for inner in _blocks(statement):
                if inner:
                    yield "skipped body", _emptied(inner)
        elif isinstance(statement, AssignVector) and statement.value is None:
            yield "missing initialisation", _removed(block, i)
        elif isinstance(statement, Reduce) or _accumulates(statement):
            yield "missing accumulate", _removed(block, i)
        elif isinstance(statement, (Put, StoreVector)):
            yield "missing store", _removed(block, i)


def _in_statement(statement: Statement) -> Iterator[Mistake]:
    if isinstance(statement, For):
        for bound in ("begin", "end"):
            for off in (-1, 1):
                moved = getattr(statement, bound) + off * statement.step
                yield "off-by-one tile", _set(statement, bound, moved)
        if statement.step > 1:
            yield "off-by-one tile", _set(statement, "step", statement.step + 1)
    elif isinstance(statement, AssignVector):
        yield from _in_vector(statement)
    elif isinstance(statement, StoreVector):
        yield from _in_index(statement)
        if statement.lane < 0:
            yield "wrong tail", _set(statement, "lanes", statement.lanes % 4 + 1)
        else:
            yield "wrong tail", _set(statement, "lane", (statement.lane + 1) % 4)
    elif isinstance(statement, Reduce):
        yield "wrong operator", _set(statement, "op", "max" if statement.op == "add" else "add")
    elif isinstance(statement, Assign):
        for i, value in enumerate(statement.values):
            for kind, other in _other_values(value):
                changed = (*statement.values[:i], other, *statement.values[i + 1 :])
                yield kind, _set(statement, "values", changed)
    elif isinstance(statement, Put):
        for i, store in enumerate(statement.stores):
            others = [(kind, replace(store, value=v)) for kind, v in _other_values(store.value)]
            others += [("swapped stride", replace(store, index=e)) for e in _strides(store.index)]
            for kind, changed_store in others:
                changed_stores = (*statement.stores[:i], changed_store, *statement.stores[i + 1 :])
                yield kind, _set(statement, "stores", changed_stores)
    elif isinstance(statement, Let):
        for value in _strides(statement.value):
            yield "swapped stride", _set(statement, "value", value)
    elif isinstance(statement, When):
        swapped = (statement.otherwise, statement.then)
        yield "wrong tail", _set_both(statement, *swapped)


def _in_vector(statement: AssignVector) -> Iterator[Mistake]:
    value = statement.value
    if isinstance(value, (Element, Widened)):
        yield from _in_index(value)
        if isinstance(value, Element):
            yield (
                "wrong tail",
                _set(value, "lanes", 4 if value.lanes in (0, 1) else value.lanes - 1),
            )
    elif isinstance(value, (MultiplyAdd, Dot)):
        yield "missing accumulate", _set(value, "a", value.c)
        yield "wrong operand", _set(value, "a", value.b)
        yield "wrong operand", _set(value, "b", value.a)
    elif isinstance(value, Add):
        yield "missing accumulate", _set(value, "a", value.b)
        yield "missing accumulate", _set(value, "b", value.a)


def _in_index(holder: Element | Widened | StoreVector) -> Iterator[Mistake]:
    terms, constant = holder.index
    for off in (-4, -1, 1, 4):
        yield "wrong offset", _set(holder, "index", Affine(terms, constant + off))
    for i, (atom, coefficient) in enumerate(terms):
        for j in range(i):
            other_atom, other = terms[j]
            if other != coefficient:
                swapped = list(terms)
                swapped[i], swapped[j] = (atom, other), (other_atom, coefficient)
                yield "swapped stride", _set(holder, "index", Affine(tuple(swapped), constant))
        nearby = (*terms[:i], (atom, coefficient + 1), *terms[i + 1 :])
        yield "swapped stride", _set(holder, "index", Affine(nearby, constant))


def _other_values(value: Expr) -> Iterator[tuple[str, Expr]]:
    """The expression with one mistake."""
    if isinstance(value, Binary):
        kind = "missing accumulate" if value.op == "add" else "missing operand"
        if value.op in ("add", "sub", "mul", "div"):
            yield kind, value.a
            yield kind, value.b
        if value.op in ("max", "min"):
            yield "wrong operator", replace(value, op="min" if value.op == "max" else "max")
        for inner_kind, inner in _other_values(value.a):
            yield inner_kind, replace(value, a=inner)
        for inner_kind, inner in _other_values(value.b):
            yield inner_kind, replace(value, b=inner)
    elif isinstance(value, Call):
        yield "missing operation", value.args[0]
        for inner_kind, inner in _other_values(value.args[0]):
            yield inner_kind, replace(value, args=(inner, *value.args[1:]))
    elif isinstance(value, Load):
        for index in _strides(value.index):
            yield "swapped stride", replace(value, index=index)
    elif isinstance(value, Const) and value.dtype == "f32" and abs(value.value) < 1e6:
        yield "wrong constant", Const(value.value * 1.25 + 0.25, "f32")


def _strides(index: Expr) -> Iterator[Expr]:
    """The index with another stride, a term less, or one place further."""
    yield index + 1
    if isinstance(index, Binary):
        if index.op == "add":
            yield index.a
            yield index.b
        for left in _sides(index.a):
            yield replace(index, a=left)
        for right in _sides(index.b):
            yield replace(index, b=right)


def _sides(side: Expr) -> Iterator[Expr]:
    if isinstance(side, Const):
        yield Const(int(side.value) + 1, side.dtype)
    elif isinstance(side, Binary):
        yield from _strides(side)


def _accumulates(statement: Statement) -> bool:
    if isinstance(statement, AssignVector):
        value = statement.value
        return isinstance(value, (MultiplyAdd, Dot)) and value.c == statement.local
    if isinstance(statement, Assign):
        names = {name for name, _ in statement.locals}
        return any(_reads(value, names) for value in statement.values)
    return False


def _reads(value: Expr, names: set[str]) -> bool:
    if isinstance(value, Var):
        return value.name in names
    parts = (value.a, value.b) if isinstance(value, Binary) else getattr(value, "args", ())
    return any(_reads(part, names) for part in parts)


def _blocks(statement: Statement) -> Sequence[list[Statement]]:
    if isinstance(statement, (For, Let)):
        return (statement.body,)
    return (statement.then, statement.otherwise) if isinstance(statement, When) else ()


def _set(holder: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(holder, name, value)


def _set_both(when: When, then: list[Statement], otherwise: list[Statement]) -> Callable[[], None]:
    def make() -> None:
        when.then, when.otherwise = then, otherwise

    return make


def _removed(block: MutableSequence[Statement], i: int) -> Callable[[], None]:
    return lambda: block.__delitem__(i)


def _emptied(block: MutableSequence[Statement]) -> Callable[[], None]:
    return lambda: block.clear()
