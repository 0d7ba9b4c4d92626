"""Substitution in tensor IR expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnjit_studio.compiler.tensor_ir import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Store,
    Var,
)


def map_expr(expr: Expr, visit: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with every part that ``visit`` answers for replaced, from the top."""
    replaced = visit(expr)
    if replaced is not None:
        return replaced
    if isinstance(expr, Binary):
        return Binary(expr.op, map_expr(expr.a, visit), map_expr(expr.b, visit))
    if isinstance(expr, Load):
        return Load(expr.buffer, map_expr(expr.index, visit))
    if isinstance(expr, Call):
        return Call(expr.fn, tuple(map_expr(a, visit) for a in expr.args))
    if isinstance(expr, Select):
        return Select(
            map_expr(expr.condition, visit),
            map_expr(expr.then, visit),
            map_expr(expr.otherwise, visit),
        )
    if isinstance(expr, Cast):
        return Cast(map_expr(expr.value, visit), expr.dtype)
    return expr


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Variables replaced by expressions."""
    return map_expr(expr, lambda e: values.get(e.name) if isinstance(e, Var) else None)


def substitute_store(store: Store, values: Mapping[str, Expr]) -> Store:
    return Store(store.buffer, substitute(store.index, values), substitute(store.value, values))


def replace_loads(expr: Expr, values: Mapping[tuple[str, Expr], Expr]) -> Expr:
    """Loads of given elements replaced by expressions."""
    return map_expr(
        expr, lambda e: values.get((e.buffer, e.index)) if isinstance(e, Load) else None
    )


def int32(value: int) -> Const:
    return Const(value, "i32")


def plus(a: Expr, b: int) -> Expr:
    return Binary("add", a, int32(b)) if b else a


def times(a: Expr, b: int) -> Expr:
    return a if b == 1 else Binary("mul", a, int32(b))
