"""The reference agrees with NumPy, and reads nothing that a condition excludes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from byte_products import byte_product
from matmul_programs import dense, plus, times

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.oracle import reference
from nnjit_studio.compiler.oracle.reference import evaluate, evaluate_with_bound
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.errors import BugError


def pointwise(value: Expr, dtype: str, size: int, kind: str = "f32") -> Program:
    buffers = (Buffer("x", kind, (size,), "input"), Buffer("y", dtype, (size,), "output"))
    return Program("p", buffers, (Stage("s", (Axis("i", size),), (Store("y", Var("i"), value),)),))


@pytest.mark.parametrize("tail", ["none", "bias", "gelu", "heads"])
def test_matmul_with_each_epilogue(tail: str) -> None:
    rng = np.random.default_rng(1)
    a, w, bias = (rng.standard_normal(s).astype(np.float32) for s in ((5, 7), (7, 8), (8,)))
    expected = a.astype(np.float64) @ w.astype(np.float64)
    if tail != "none":
        expected = expected + bias
    if tail == "gelu":
        root = float(np.float32(2**0.5))
        expected = 0.5 * expected * (1 + np.vectorize(math.erf)(expected / root))
    if tail == "heads":
        expected = expected.reshape(5, 2, 4).transpose(1, 0, 2)
    got = evaluate(dense(5, 7, 8, tail), {"a": a, "w": w, "bias": bias})["out"]
    np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-12, atol=1e-13)


_Bounded = dict[str, tuple[np.ndarray, np.ndarray]]


def both_ways(
    monkeypatch: pytest.MonkeyPatch, program: Program, inputs: dict[str, np.ndarray]
) -> tuple[_Bounded, _Bounded]:
    """Results with sums of products as matmuls, and one by one."""
    taken: list[bool] = []
    product = reference._Machine._as_matmul

    def seen(*arguments: Any) -> bool:
        taken.append(product(*arguments))
        return taken[-1]

    monkeypatch.setattr(reference._Machine, "_as_matmul", seen)
    at_once = evaluate_with_bound(program, inputs)
    assert taken and taken[0] and taken[-1]
    monkeypatch.setattr(reference._Machine, "_as_matmul", lambda *_: False)
    return at_once, evaluate_with_bound(program, inputs)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_products_of_bytes_at_once_are_exact(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    rng = np.random.default_rng(2)
    low, high = (0, 256) if dtype == "u8" else (-128, 128)
    inputs = {"a": rng.integers(low, high, (7, 36)), "b": rng.integers(-128, 128, (10, 5, 4))}
    at_once, one_by_one = both_ways(monkeypatch, byte_product(7, 36, 5, dtype), inputs)
    np.testing.assert_array_equal(at_once["y"][0], one_by_one["y"][0])
    assert at_once["y"][0].dtype == np.int32 and not at_once["y"][1].any()


def test_products_of_computed_factors_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A border of zeros, and weights that are decoded first."""
    n, k = Var("n"), Var("k")
    inside = Binary("ge", k, Const(2, "i32"))
    a = Select(inside, Load("a", times("m", 4) + k - 2), Const(0.0, "f32"))
    b = Load("b", times("k", 3) + n) * Load("scale", n)
    place = times("m", 3) + n
    stage = Stage(
        "sum",
        (Axis("m", 5), Axis("n", 3), Axis("k", 6, "reduce")),
        (Store("y", place, Load("y", place) + a * b),),
        (Store("y", place, Const(0.0, "f32")),),
    )
    shapes = {"a": (5, 4), "b": (6, 3), "scale": (3,)}
    buffers = [Buffer(name, "f32", shape, "input") for name, shape in shapes.items()]
    program = Program("p", (*buffers, Buffer("y", "f32", (5, 3), "output")), (stage,))
    rng = np.random.default_rng(3)
    inputs = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    at_once, one_by_one = both_ways(monkeypatch, program, inputs)
    np.testing.assert_allclose(at_once["y"][0], one_by_one["y"][0], rtol=1e-12)
    np.testing.assert_allclose(at_once["y"][1], one_by_one["y"][1], rtol=1e-3)


@pytest.mark.parametrize("peak", [1.0, 5000.0])
def test_products_of_inexact_values_at_once_are_as_far_off_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, peak: float
) -> None:
    """The second product of attention: weights that an exponential has made inexact.

    Where queries and keys have peaks, a weight has no bound at all.
    """
    program, rng = attention(2, 13, 21, 32, guarded=True), np.random.default_rng(5)
    inputs = {b.name: rng.standard_normal(b.shape) for b in program.buffers if b.role == "input"}
    for name in ("in0", "in1"):
        inputs[name][:, 1::2, 3] *= peak
    at_once, one_by_one = both_ways(monkeypatch, program, inputs)
    for name, (value, bound) in at_once.items():
        np.testing.assert_allclose(value, one_by_one[name][0], rtol=1e-12)
        np.testing.assert_allclose(bound, one_by_one[name][1], rtol=1e-3)
        assert (bound > 0).all()
        assert np.isfinite(bound).all() == (peak == 1.0)


def test_casts_truncate_and_saturate() -> None:
    x = np.array([2.9, -2.9, 1e20, -1e20, np.nan, 3e9], np.float32)
    program = pointwise(Cast(Load("x", Var("i")), "i32"), "i32", 6)
    assert evaluate(program, {"x": x})["y"].tolist() == [2, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("floordiv", [-4, 3]),
        ("truncdiv", [-3, 3]),
        ("floormod", [1, 1]),
        ("truncmod", [-1, 1]),
    ],
)
def test_integer_divisions(op: str, expected: list[int]) -> None:
    value = Binary(op, Load("x", Var("i")), Const(2, "i32"))
    program = pointwise(value, "i32", 2, "i32")
    assert evaluate(program, {"x": np.array([-7, 7], np.int32)})["y"].tolist() == expected


def shifted(guarded: bool) -> Program:
    load = Load("x", Var("i") - 1)
    condition = Binary("gt", Var("i"), Const(0, "i32"))
    return pointwise(Select(condition, load, Const(9.0, "f32")) if guarded else load, "f32", 3)


def test_a_condition_guards_a_load() -> None:
    x = np.array([1, 2, 3], np.float32)
    assert evaluate(shifted(True), {"x": x})["y"].tolist() == [9, 1, 2]
    with pytest.raises(BugError, match="outside x"):
        evaluate(shifted(False), {"x": x})


def test_an_arg_reduction_runs_in_order() -> None:
    here = Load("x", plus(times("i", 4), Var("k")))
    better = Binary("gt", here, Load("best", Var("i")))
    body = (
        Store("y", Var("i"), Select(better, Var("k"), Load("y", Var("i")))),
        Store("best", Var("i"), Select(better, here, Load("best", Var("i")))),
    )
    init = (
        Store("y", Var("i"), Const(0, "i32")),
        Store("best", Var("i"), Const(-math.inf, "f32")),
    )
    axes = (Axis("i", 3), Axis("k", 4, "reduce"))
    buffers = (
        Buffer("x", "f32", (3, 4), "input"),
        Buffer("y", "i32", (3,), "output"),
        Buffer("best", "f32", (3,), "workspace"),
    )
    x = np.array([[1, 5, 5, 2], [9, 1, 1, 1], [0, 1, 2, 3]], np.float32)
    got = evaluate(Program("argmax", buffers, (Stage("s", axes, body, init),)), {"x": x})
    assert got["y"].tolist() == [1, 0, 3]


def test_a_missing_input_is_named() -> None:
    with pytest.raises(BugError, match="for w"):
        evaluate(dense(2, 3, 4), {"a": np.zeros((2, 3), np.float32)})


def test_large_factors_go_through_matmul_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and columns are cut where an operand is larger than what is computed at once."""
    rng = np.random.default_rng(3)
    shapes = {"a": (37, 24), "w": (24, 50), "bias": (50,)}
    inputs = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    program = dense(37, 24, 50, "none")
    whole = evaluate_with_bound(program, inputs)["out"]
    for limit in ("OPERAND_POINTS", "COMPUTED_POINTS", "PART_POINTS"):
        monkeypatch.setattr(reference, limit, 24 * 7)
    at_once, one_by_one = both_ways(monkeypatch, program, inputs)
    for found in (at_once["out"], one_by_one["out"]):
        np.testing.assert_allclose(found[0], whole[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(at_once["out"][1], whole[1], rtol=1e-9)


def test_a_part_that_is_not_finite_leaves_sums_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts before it were added already, and are not added twice."""
    n, k = Var("n"), Var("k")
    weight = Binary("div", Load("w", times("k", 6) + n), Load("scale", n))
    place = times("m", 6) + n
    stage = Stage(
        "sum",
        (Axis("m", 2), Axis("n", 6), Axis("k", 3, "reduce")),
        (Store("y", place, Load("y", place) + Load("a", times("m", 3) + k) * weight),),
        (Store("y", place, Const(0.0, "f32")),),
    )
    buffers = [
        Buffer(i, "f32", s, "input") for i, s in (("a", (2, 3)), ("w", (3, 6)), ("scale", (6,)))
    ]
    program = Program("p", (*buffers, Buffer("y", "f32", (2, 6), "output")), (stage,))
    inputs = {"a": np.ones((2, 3)), "w": np.ones((3, 6)), "scale": np.array([1, 2, 4, 8, 0, 1.0])}
    monkeypatch.setattr(reference, "COMPUTED_POINTS", 6)
    monkeypatch.setattr(reference, "PART_POINTS", 6)
    found = evaluate_with_bound(program, inputs)["y"][0]
    np.testing.assert_array_equal(found, [[3, 1.5, 0.75, 0.375, np.inf, 3]] * 2)
