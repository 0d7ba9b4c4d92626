"""Affine indices: linear forms, bounds and strides of index expressions.

Two forms, for two questions. :func:`linear_form` proves that an expression is a
constant plus coefficients of variables, or says no; recognition builds on it.
:func:`affine` always answers: what is not linear stays as an atom of the sum;
the lowering makes addresses of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from nnjit_studio.compiler.ir.tensor_ir import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Var,
    whole,
)

LinearForm = tuple[int, dict[str, int]]
INTEGERS = ("i64", "i32", "i8", "u8")
LANES = 4
Bounds = Mapping[str, tuple[int, int]]
"""Smallest and largest value of each variable."""

_UNKNOWN = (-(2**62), 2**62)


class Affine(NamedTuple):
    """``sum(coefficient * atom) + constant``, in elements; an atom is a variable's name
    or an expression that is not linear."""

    terms: tuple[tuple[str | Expr, int], ...]
    constant: int


def linear_form(expr: Expr, extents: Mapping[str, int] | None = None) -> LinearForm | None:
    """Write an integer expression as ``const + sum(coefficient * var)``.

    Parameters
    ----------
    extents
        Extent of each loop variable (``0 <= var < extent``). Only with it are
        divisions and remainders by constants resolved, and only where the
        result is exact for every value of the variables.

    Returns
    -------
    tuple or None
        The constant and the non-zero coefficients by variable; None when the
        expression is not such a sum, or cannot be proven to be one.
    """
    known = extents or {}
    if isinstance(expr, Const):
        return None if isinstance(expr.value, float) else (expr.value, {})
    if isinstance(expr, Var):
        return (0, {}) if known.get(expr.name) == 1 else (0, {expr.name: 1})
    if isinstance(expr, Cast) and expr.dtype in INTEGERS:
        # A narrowing cast is the identity only where the range is known to fit.
        form = linear_form(expr.value, known)
        if form is None or expr.dtype in ("i64", "i32"):
            return form
        bits = 7 if expr.dtype == "i8" else 8
        low = -(2**bits) if expr.dtype == "i8" else 0
        reach = value_range(form, known)
        return form if reach and low <= reach[0] and reach[1] < 2**bits else None
    if not isinstance(expr, Binary):
        return None
    a, b = linear_form(expr.a, known), linear_form(expr.b, known)
    if a is None or b is None:
        return None
    if expr.op == "add":
        return _scaled_sum(a, b, 1)
    if expr.op == "sub":
        return _scaled_sum(a, b, -1)
    if expr.op == "mul":
        if a[1] and b[1]:
            return None
        form, factor = (a, b[0]) if not b[1] else (b, a[0])
        return _scaled_sum((0, {}), form, factor)
    if expr.op in ("floordiv", "floormod", "truncdiv", "truncmod") and not b[1] and b[0] > 0:
        reach = value_range(a, known)
        if expr.op.startswith("trunc") and (reach is None or reach[0] < 0):
            return None
        split = _split(a, b[0], known)
        return None if split is None else split[0 if expr.op.endswith("div") else 1]
    return None


def value_range(form: LinearForm, extents: Mapping[str, int]) -> tuple[int, int] | None:
    """Smallest and largest value (inclusive); None when an extent is not known."""
    low = high = form[0]
    for var, coefficient in form[1].items():
        if var not in extents:
            return None
        reach = coefficient * (extents[var] - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def linear_expr(form: LinearForm) -> Expr:
    """The inverse of :func:`linear_form`, largest coefficient first."""
    terms: list[Expr] = [
        Var(v) if c == 1 else Var(v) * c
        for v, c in sorted(form[1].items(), key=lambda item: (-item[1], item[0]))
    ]
    if form[0] or not terms:
        terms.append(Const(form[0], "i32"))
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions, a load's index among them."""
    if isinstance(expr, Load):
        return (expr.index,)
    if isinstance(expr, Binary):
        return (expr.a, expr.b)
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Select):
        return (expr.condition, expr.then, expr.otherwise)
    if isinstance(expr, Cast):
        return (expr.value,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything in it, outside in."""
    todo = [expr]
    while todo:
        found = todo.pop()
        yield found
        if isinstance(found, Binary):  # most are one of these four
            todo += (found.b, found.a)
        elif isinstance(found, Load):
            todo.append(found.index)
        elif not isinstance(found, (Var, Const)):
            todo.extend(reversed(children(found)))


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace, outside in, each subexpression for which ``change`` gives another."""
    new = change(expr)
    if new is not None:
        return new
    if isinstance(expr, (Var, Const)):
        return expr
    if isinstance(expr, Binary):
        a, b = rewrite(expr.a, change), rewrite(expr.b, change)
        return expr if a is expr.a and b is expr.b else Binary(expr.op, a, b)
    if isinstance(expr, Load):
        index = rewrite(expr.index, change)
        return expr if index is expr.index else Load(expr.buffer, index)
    if isinstance(expr, Cast):
        value = rewrite(expr.value, change)
        return expr if value is expr.value else Cast(value, expr.dtype)
    parts = children(expr)
    changed = tuple([rewrite(part, change) for part in parts])
    if all(map(operator.is_, parts, changed)):
        return expr
    return Call(expr.fn, changed) if isinstance(expr, Call) else Select(*changed)


def _scaled_sum(a: LinearForm, b: LinearForm, factor: int) -> LinearForm:
    terms = dict(a[1])
    for var, coefficient in b[1].items():
        terms[var] = terms.get(var, 0) + factor * coefficient
    return a[0] + factor * b[0], {v: c for v, c in terms.items() if c}


def _split(
    form: LinearForm, divisor: int, extents: Mapping[str, int]
) -> tuple[LinearForm, LinearForm] | None:
    # form = divisor * quotient + rest is a floor division when 0 <= rest < divisor always.
    quotient = {v: c // divisor for v, c in form[1].items() if c % divisor == 0}
    rest = {v: c for v, c in form[1].items() if c % divisor}
    remainder = (form[0] % divisor, rest)
    reach = value_range(remainder, extents)
    if reach is None or reach[0] < 0 or reach[1] >= divisor:
        return None
    return (form[0] // divisor, quotient), remainder


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
        return factor * whole(expr.value)
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
        return expr.dtype in INTEGERS
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
        return whole(expr.value), whole(expr.value)
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
        if aligned and whole(expr.b.value) % LANES == 0:
            return int(expr.op == "floormod")
    return None
