"""Substitution in tensor IR expressions."""

from __future__ import annotations

from collections.abc import Mapping

from nnjit_studio.compiler.affine import linear_expr, linear_form, rewrite
from nnjit_studio.compiler.tensor_ir import (
    Binary,
    Const,
    Expr,
    Load,
    Store,
    Var,
)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Variables replaced by expressions."""
    return rewrite(expr, lambda e: values.get(e.name) if isinstance(e, Var) else None)


def substitute_store(store: Store, values: Mapping[str, Expr]) -> Store:
    return Store(store.buffer, substitute(store.index, values), substitute(store.value, values))


def replace_loads(expr: Expr, values: Mapping[tuple[str, Expr], Expr]) -> Expr:
    """Loads of given elements replaced by expressions."""
    return rewrite(expr, lambda e: values.get((e.buffer, e.index)) if isinstance(e, Load) else None)


def resolve(store: Store, extents: Mapping[str, int]) -> Store:
    """The store with every index as a plain sum where its divisions can be resolved."""

    def index(expr: Expr) -> Expr:
        form = linear_form(expr, extents)
        return rewrite(expr, visit) if form is None else linear_expr(form)

    def visit(expr: Expr) -> Expr | None:
        return Load(expr.buffer, index(expr.index)) if isinstance(expr, Load) else None

    return Store(store.buffer, index(store.index), rewrite(store.value, visit))


def int32(value: int) -> Const:
    return Const(value, "i32")


def plus(a: Expr, b: int) -> Expr:
    return Binary("add", a, int32(b)) if b else a


def times(a: Expr, b: int) -> Expr:
    return a if b == 1 else Binary("mul", a, int32(b))
