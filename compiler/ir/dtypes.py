"""Dtypes of tensor IR expressions, as they are computed: f16 counts as f32."""

from __future__ import annotations

from collections.abc import Mapping

from nnjit_studio.compiler.ir.tensor_ir import (
    COMPARISONS,
    GIVES,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Var,
)

BYTES = ("i8", "u8")
_RANK = ("bool", "u8", "i8", "i32", "i64", "f32")


def dtype_of(expr: Expr, buffers: Mapping[str, str], locals: Mapping[str, str]) -> str:
    """Dtype of a value; variables that ``locals`` does not name are loop variables, i32."""
    if isinstance(expr, (Const, Cast)):
        return computed(expr.dtype)
    if isinstance(expr, Var):
        return locals.get(expr.name, "i32")
    if isinstance(expr, Load):
        return computed(buffers[expr.buffer])
    if isinstance(expr, Call):
        return GIVES.get(expr.fn) or dtype_of(expr.args[0], buffers, locals)
    if isinstance(expr, Select):
        return promote(
            dtype_of(expr.then, buffers, locals), dtype_of(expr.otherwise, buffers, locals)
        )
    assert isinstance(expr, Binary)
    if expr.op in COMPARISONS:
        return "bool"
    return promote(dtype_of(expr.a, buffers, locals), dtype_of(expr.b, buffers, locals))


def computed(dtype: str) -> str:
    """The dtype that values of a stored dtype are computed in."""
    return "f32" if dtype == "f16" else dtype


def promote(a: str, b: str) -> str:
    """The wider of two dtypes; loop variables (i32) meet i64 constants in indices."""
    return a if a == b else max(a, b, key=_RANK.index)
