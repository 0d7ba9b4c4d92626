"""The text form of scheduled loops, for dumps and the kernel inspector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnjit_studio.compiler.ir.affine import Affine
from nnjit_studio.compiler.ir.loops import (
    Add,
    Apply,
    Assign,
    AssignVector,
    ByteDot,
    Dot,
    EveryOther,
    For,
    Let,
    MultiplyAdd,
    PairSums,
    Put,
    Reduce,
    Scheduled,
    Statement,
    StoreVector,
    VectorValue,
    Widened,
)
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Cast, Const, Expr, Load, Select, Var

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


def schedule_text(scheduled: Scheduled) -> str:
    """One line for each statement, indented by loop."""
    head = f"parallel_extent {scheduled.parallel_extent}"
    panels = "".join(f", argument {i} in panels of {w}" for i, w in scheduled.panels)
    return "\n".join([head + panels, *_block(scheduled.body, 0)]) + "\n"


def expr_text(expr: Expr) -> str:
    """An expression in infix notation."""
    if isinstance(expr, Const):
        return str(expr.value)
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Load):
        return f"{expr.buffer}[{expr_text(expr.index)}]"
    if isinstance(expr, Binary):
        a, b = expr_text(expr.a), expr_text(expr.b)
        sign = _SIGNS.get(expr.op)
        return f"({a} {sign} {b})" if sign else f"{expr.op}({a}, {b})"
    if isinstance(expr, Call):
        return f"{expr.fn}({', '.join(map(expr_text, expr.args))})"
    if isinstance(expr, Select):
        parts = (expr.condition, expr.then, expr.otherwise)
        return f"select({', '.join(map(expr_text, parts))})"
    assert isinstance(expr, Cast)
    return f"{expr.dtype}({expr_text(expr.value)})"


def _affine(index: Affine) -> str:
    terms = [
        (atom if isinstance(atom, str) else expr_text(atom)) + (f"*{c}" if c != 1 else "")
        for atom, c in index.terms
    ]
    if index.constant or not terms:
        terms.append(str(index.constant))
    return " + ".join(terms)


def _lanes(along: str) -> str:
    return f"  # 4 lanes along {along}" if along else ""


def _block(statements: Sequence[Statement], depth: int) -> Iterator[str]:
    for statement in statements:
        yield from _statement(statement, depth)


def _statement(statement: Statement, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(statement, For):
        bounds = f"{expr_text(statement.begin)}, {expr_text(statement.end)}, {statement.step}"
        yield f"{pad}for {statement.var} in range({bounds}):"
        yield from _block(statement.body, depth + 1)
    elif isinstance(statement, Let):
        yield f"{pad}{statement.var} := {expr_text(statement.value)}"
        yield from _block(statement.body, depth)
    elif isinstance(statement, Put):
        for store in statement.stores:
            target = f"{store.buffer}[{expr_text(store.index)}]"
            yield f"{pad}{target} = {expr_text(store.value)}{_lanes(statement.along)}"
    elif isinstance(statement, Assign):
        names = ", ".join(name for name, _ in statement.locals)
        values = ", ".join(map(expr_text, statement.values))
        yield f"{pad}{names} = {values}{_lanes(statement.along)}"
    elif isinstance(statement, Reduce):
        yield f"{pad}{statement.local} = {statement.op}({statement.local}, *{statement.vector})"
    elif isinstance(statement, AssignVector):
        yield f"{pad}{statement.local} = {_vector(statement.value)}"
    elif isinstance(statement, StoreVector):
        which = f"lane {statement.lane}" if statement.lane >= 0 else f"{statement.lanes} lanes"
        yield f"{pad}{statement.buffer}[{_affine(statement.index)}] = {statement.local}  # {which}"
    else:
        yield f"{pad}if {expr_text(statement.condition)}:"
        yield from _block(statement.then, depth + 1)
        if statement.otherwise:
            yield f"{pad}else:"
            yield from _block(statement.otherwise, depth + 1)


def _vector(value: VectorValue | None) -> str:
    if value is None:
        return "0"
    if isinstance(value, Add):
        return f"{value.a} + {value.b}"
    if isinstance(value, MultiplyAdd):
        return f"{value.a} * {value.b} + {value.c}"
    if isinstance(value, Apply):
        return f"{value.op}({', '.join(value.args)})"
    if isinstance(value, ByteDot):
        return f"byte_dot({value.a}, {value.b}) + {value.c}"
    if isinstance(value, Dot):
        return f"dot({value.a}, {value.b}) + {value.c}"
    if isinstance(value, PairSums):
        return f"pair_sums({value.low}, {value.high})"
    if isinstance(value, EveryOther):
        return f"{'odd' if value.odd else 'even'}({value.low}, {value.high})"
    if isinstance(value, Widened):
        what = "4 bytes twice" if value.splat else "8 bytes"
        return f"{value.buffer}[{_affine(value.index)}]  # {what} as i16"
    kind = f"{value.lanes} lanes" if value.lanes else "splat"
    return f"{value.buffer}[{_affine(value.index)}]  # {kind}"
