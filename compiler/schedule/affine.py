"""What is known of index expressions: linear form, bounds, and the step between lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nnjit_studio.compiler.affine import walk
from nnjit_studio.compiler.tensor_ir import Binary, Cast, Const, Expr, Load, Select, Var

LANES = 4
Bounds = Mapping[str, tuple[int, int]]
"""Smallest and largest value of each variable."""

_INTEGERS = ("i64", "i32", "i8", "u8")
_UNKNOWN = (-(2**62), 2**62)


class Affine(NamedTuple):
    """``sum(coefficient * atom) + constant``, in elements; an atom is a variable's name
    or an expression that is not linear."""

    terms: tuple[tuple[str | Expr, int], ...]
    constant: int


def affine(expr: Expr) -> Affine:
    """The linear form of an integer expression."""
    terms: dict[str | Expr, int] = {}
    constant = _collect(expr, 1, terms)
    return Affine(tuple((atom, c) for atom, c in terms.items() if c), constant)


def _collect(expr: Expr, factor: int, terms: dict[str | Expr, int]) -> int:
    if isinstance(expr, Var):
        terms[expr.name] = terms.get(expr.name, 0) + factor
        return 0
    if isinstance(expr, Const):
        return factor * int(expr.value)
    if isinstance(expr, Cast) and expr.dtype in ("i32", "i64") and _is_index(expr.value):
        return _collect(expr.value, factor, terms)
    if isinstance(expr, Binary):
        if expr.op == "add":
            return _collect(expr.a, factor, terms) + _collect(expr.b, factor, terms)
        if expr.op == "sub":
            return _collect(expr.a, factor, terms) + _collect(expr.b, -factor, terms)
        if expr.op == "mul":
            for a, b in ((expr.a, expr.b), (expr.b, expr.a)):
                scalar = affine(b)
                if not scalar.terms:
                    return _collect(a, factor * scalar.constant, terms)
    terms[expr] = terms.get(expr, 0) + factor
    return 0


def _is_index(expr: Expr) -> bool:
    if isinstance(expr, Const):
        return expr.dtype in _INTEGERS
    if isinstance(expr, Var):
        return True
    if isinstance(expr, Binary):
        return expr.op in ("add", "sub", "mul", "floordiv", "floormod") and (
            _is_index(expr.a) and _is_index(expr.b)
        )
    return isinstance(expr, Cast) and expr.dtype in ("i32", "i64") and _is_index(expr.value)


def variables(expr: Expr) -> set[str]:
    """Names of the loop variables in an expression."""
    return {e.name for e in walk(expr) if isinstance(e, Var)}


def depends(expr: Expr, var: str) -> bool:
    return any(isinstance(e, Var) and e.name == var for e in walk(expr))


def loads(expr: Expr) -> list[Load]:
    return [e for e in walk(expr) if isinstance(e, Load)]


def bounds(expr: Expr, known: Bounds) -> tuple[int, int]:
    """Smallest and largest value of an integer expression, by interval arithmetic."""
    if isinstance(expr, Const):
        return int(expr.value), int(expr.value)
    if isinstance(expr, Var):
        return known.get(expr.name, _UNKNOWN)
    if isinstance(expr, Cast) and expr.dtype in ("i32", "i64") and _is_index(expr.value):
        return bounds(expr.value, known)
    if isinstance(expr, Select):
        (a, b), (c, d) = bounds(expr.then, known), bounds(expr.otherwise, known)
        return min(a, c), max(b, d)
    if not isinstance(expr, Binary):
        return _UNKNOWN
    (a, b), (c, d) = bounds(expr.a, known), bounds(expr.b, known)
    if expr.op == "add":
        low, high = a + c, b + d
    elif expr.op == "sub":
        low, high = a - d, b - c
    elif expr.op == "mul":
        products = (a * c, a * d, b * c, b * d)
        low, high = min(products), max(products)
    elif expr.op == "min":
        low, high = min(a, c), min(b, d)
    elif expr.op == "max":
        low, high = max(a, c), max(b, d)
    elif expr.op == "floordiv" and c > 0:
        low, high = min(a // c, a // d), max(b // c, b // d)
    elif expr.op == "floormod" and c > 0:
        low, high = (a, b) if a >= 0 and b < c else (0, d - 1)
    elif expr.op in ("truncdiv", "truncmod") and a >= 0 and c > 0:
        low, high = (a // d, b // c) if expr.op == "truncdiv" else (0, min(b, d - 1))
    else:
        return _UNKNOWN
    return max(low, _UNKNOWN[0]), min(high, _UNKNOWN[1])


def bounds_of(index: Affine, known: Bounds) -> tuple[int, int]:
    """Bounds of a linear form."""
    low = high = index.constant
    for atom, coefficient in index.terms:
        a, b = bounds(Var(atom) if isinstance(atom, str) else atom, known)
        low += min(a * coefficient, b * coefficient)
        high += max(a * coefficient, b * coefficient)
    return low, high


def stride(expr: Expr, var: str) -> int | None:
    """Difference between neighbouring lanes along ``var``, None if it is not constant.

    The four lanes start where ``var`` is a multiple of four, so a division by
    a multiple of four does not tear them apart.
    """
    if isinstance(expr, Var):
        return int(expr.name == var)
    if not depends(expr, var):
        return 0
    if isinstance(expr, Cast) and expr.dtype in ("i32", "i64"):
        return stride(expr.value, var)
    if isinstance(expr, Select) and not depends(expr.condition, var):
        a, b = stride(expr.then, var), stride(expr.otherwise, var)
        return a if a == b else None
    if not isinstance(expr, Binary):
        return None
    a, b = stride(expr.a, var), stride(expr.b, var)
    if a is None or b is None:
        return None
    if expr.op == "add":
        return a + b
    if expr.op == "sub":
        return a - b
    if expr.op == "mul":
        for this, other in ((a, expr.b), (b, expr.a)):
            factor = affine(other)
            if not factor.terms:
                return this * factor.constant
    if expr.op in ("floordiv", "floormod") and a == 1 and isinstance(expr.b, Const):
        lanes = affine(expr.a)
        aligned = lanes.constant % LANES == 0 and all(
            atom == var or coefficient % LANES == 0 for atom, coefficient in lanes.terms
        )
        if aligned and int(expr.b.value) % LANES == 0:
            return int(expr.op == "floormod")
    return None
