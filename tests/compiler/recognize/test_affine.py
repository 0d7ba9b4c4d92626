"""Linear forms agree with the expressions that they stand for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnjit_studio.compiler.ir.affine import linear_expr, linear_form, rewrite, walk
from nnjit_studio.compiler.ir.tensor_ir import Binary, Cast, Const, Expr, Load, Select, Var

EXTENTS = {"i": 4, "j": 6, "u": 1}


def c(value: int) -> Const:
    return Const(value, "i32")


def value_of(expr: Expr, env: dict[str, int]) -> int:
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Var):
        return env[expr.name]
    if isinstance(expr, Cast):
        return value_of(expr.value, env)
    assert isinstance(expr, Binary)
    a, b = value_of(expr.a, env), value_of(expr.b, env)
    return {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "floordiv": lambda: a // b,
        "floormod": lambda: a % b,
        "truncdiv": lambda: int(a / b),
        "truncmod": lambda: a - int(a / b) * b,
    }[expr.op]()


def constants() -> st.SearchStrategy[Expr]:
    return st.integers(-12, 12).map(c)


def expressions() -> st.SearchStrategy[Expr]:
    leaves: st.SearchStrategy[Expr] = st.sampled_from([Var(v) for v in EXTENTS]) | constants()

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        divisor = st.sampled_from([1, 2, 3, 6, 12]).map(c)
        sums = st.builds(Binary, st.sampled_from(["add", "sub", "mul"]), inner, inner)
        divisions = st.builds(
            Binary,
            st.sampled_from(["floordiv", "floormod", "truncdiv", "truncmod"]),
            inner,
            divisor,
        )
        return sums | divisions | st.builds(Cast, inner, st.just("i64"))

    return st.recursive(leaves, grow, max_leaves=8)


@given(expressions())
def test_a_form_has_the_value_of_its_expression_everywhere(expr: Expr) -> None:
    form = linear_form(expr, EXTENTS)
    if form is None:
        return
    rebuilt = linear_expr(form)
    for point in itertools.product(*(range(e) for e in EXTENTS.values())):
        env = dict(zip(EXTENTS, point, strict=True))
        expected = value_of(expr, env)
        assert form[0] + sum(k * env[v] for v, k in form[1].items()) == expected
        assert value_of(rebuilt, env) == expected


def flat() -> Expr:
    return Var("i") * c(6) + Var("j")


def test_row_and_column_of_a_flat_index() -> None:
    assert linear_form(flat()) == (0, {"i": 6, "j": 1})
    assert linear_form(flat() // c(6), EXTENTS) == (0, {"i": 1})
    assert linear_form(flat() % c(6), EXTENTS) == (0, {"j": 1})
    assert linear_form(flat() % c(24), EXTENTS) == (0, {"i": 6, "j": 1})


@pytest.mark.parametrize(
    "expr",
    [
        flat() // c(5),
        (flat() + c(1)) // c(6),
        Binary("truncdiv", flat() - c(6), c(6)),
        Var("i") * Var("j"),
        flat() // c(0),
        Var("unknown") // c(2),
        Cast(Var("i") * c(100), "u8"),
        Const(1.5, "f32"),
        Load("x", Var("i")),
    ],
)
def test_what_is_not_provably_linear_is_none(expr: Expr) -> None:
    assert linear_form(expr, EXTENTS) is None


def test_division_needs_extents() -> None:
    assert linear_form(flat() // c(6)) is None


def test_rewrite_reaches_every_part() -> None:
    expr = Select(Binary("lt", Var("i"), c(1)), Load("x", Var("i")), Cast(Var("i"), "f32"))
    changed = rewrite(expr, lambda e: Var("k") if e == Var("i") else None)
    assert [e.name for e in walk(changed) if isinstance(e, Var)] == ["k"] * 3
