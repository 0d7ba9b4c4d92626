"""Substitution in tensor IR expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.ir.affine import linear_expr, linear_form, rewrite
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Stage,
    Statement,
    Store,
    Var,
)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Variables replaced by expressions."""
    return rewrite(expr, lambda e: values.get(e.name) if isinstance(e, Var) else None)


def substitute_store(store: Store, values: Mapping[str, Expr]) -> Store:
    return Store(store.buffer, substitute(store.index, values), substitute(store.value, values))


def map_stores(stage: Stage, change: Callable[[Store], Store]) -> Stage:
    """The stage with every store of its body and its start changed."""
    return replace(stage, body=tuple(map(change, stage.body)), init=tuple(map(change, stage.init)))


def replace_loads(expr: Expr, values: Mapping[tuple[str, Expr], Expr]) -> Expr:
    """Loads of given elements replaced by expressions."""
    return rewrite(expr, lambda e: values.get((e.buffer, e.index)) if isinstance(e, Load) else None)


def resolve(store: Store, extents: Mapping[str, int]) -> Store:
    """The store with every index as a plain sum where its divisions can be resolved."""
    index = _resolved_index(store.index, extents)
    return Store(store.buffer, index, resolve_value(store.value, extents))


def resolve_value(value: Expr, extents: Mapping[str, int]) -> Expr:
    """As :func:`resolve`, for the indices inside a value."""

    def visit(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load):
            return None
        return Load(expr.buffer, _resolved_index(expr.index, extents))

    return rewrite(value, visit)


def _resolved_index(expr: Expr, extents: Mapping[str, int]) -> Expr:
    form = linear_form(expr, extents)
    return resolve_value(expr, extents) if form is None else linear_expr(form)


def map_steps(
    steps: Sequence[Statement],
    store: Callable[[Store, Mapping[str, int]], Store],
    value: Callable[[Expr, Mapping[str, int]], Expr],
    extents: Mapping[str, int],
) -> tuple[Statement, ...]:
    """Statements with every store and condition changed; both see the extents around them."""
    result: list[Statement] = []
    for step in steps:
        if isinstance(step, Store):
            result.append(store(step, extents))
        elif isinstance(step, Loop):
            inner = {**extents, step.var: step.extent}
            result.append(Loop(step.var, step.extent, map_steps(step.body, store, value, inner)))
        else:
            then, otherwise = (
                map_steps(part, store, value, extents) for part in (step.then, step.otherwise)
            )
            result.append(If(value(step.condition, extents), then, otherwise))
    return tuple(result)


def loops_in(steps: Iterable[Statement]) -> Iterator[Loop]:
    """All loops inside statements."""
    for step in steps:
        if isinstance(step, Loop):
            yield step
            yield from loops_in(step.body)
        elif isinstance(step, If):
            yield from loops_in((*step.then, *step.otherwise))


def int32(value: int) -> Const:
    return Const(value, "i32")


def plus(a: Expr, b: int) -> Expr:
    return a + b if b else a


def times(a: Expr, b: int) -> Expr:
    return a if b == 1 else a * b


def unflatten(axes: Sequence[Axis], flat: Expr) -> list[tuple[Axis, Expr]]:
    """Each axis with its value at a row-major position among all of them."""
    result: list[tuple[Axis, Expr]] = []
    inner = math.prod(axis.extent for axis in axes)
    for i, axis in enumerate(axes):
        inner //= axis.extent
        value = flat
        if inner > 1:
            value = value // inner
        if i > 0:
            value = value % axis.extent
        result.append((axis, value))
    return result
