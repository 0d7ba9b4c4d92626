"""The vector polynomials: error in ulp against float64, limits, both paths alike."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import run_kernel

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.wasm import compile_program

X = Load("x", Var("i"))
LIMITS = np.array(
    [
        0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-39, -1e-39, 1.17549435e-38,
        88.72283, 88.7229, -87.3365, -103.9, -104.0, -150.0, 3.4e38, -3.4e38, 1.0, -1.0, 0.625,
        0.9999999, 1.0000001, 4.0, 9.1, 1e-7, -1e-7, 2.0**-126, 0.70710678, 1.41421356,
    ],
    np.float32,
)  # fmt: skip


def program_of(fn: str, argument: Expr, n: int) -> Program:
    return Program(
        fn,
        (Buffer("x", "f32", (n,), "input"), Buffer("y", "f32", (n,), "output")),
        (Stage(fn, (Axis("i", n),), (Store("y", Var("i"), Call(fn, (argument,))),)),),
    )


def evaluate(fn: str, x: np.ndarray, tier: str = "relaxed-simd", argument: Expr = X) -> np.ndarray:
    program = program_of(fn, argument, len(x))
    kernel = compile_program(program, None, tier)
    return run_kernel(program, kernel.data, kernel.parallel_extent, {"x": x})["y"]


def ulps(got: np.ndarray, expected: np.ndarray) -> float:
    """Largest error in units of the last place of the float32 result."""
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    both = np.isfinite(got) & np.isfinite(rounded)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    np.testing.assert_array_equal(got[~both], rounded[~both])
    spacing = np.spacing(np.abs(rounded[both])).astype(np.float64)
    return float(np.max(np.abs(got[both] - expected[both]) / spacing))


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float, float]] = {
    "exp": (np.exp, -104, 89, 2),
    "tanh": (np.tanh, -10, 10, 6),
    "erf": (np.vectorize(math.erf), -4.5, 4.5, 6),
    "log": (np.log, 0, 100, 2),
    "sigmoid": (sigmoid, -104, 104, 3),
    "sin": (np.sin, -1000, 1000, 2),
    "cos": (np.cos, -1000, 1000, 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-30, 1e3, 2),
    "sqrt": (np.sqrt, 0, 1e6, 0.51),
}


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_error_in_ulp(fn: str, tier: str) -> None:
    exact, low, high, accepted = FUNCTIONS[fn]
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [
            rng.uniform(low, high, 60000),
            rng.uniform(max(low, -2), min(high, 2), 60000),
            10.0 ** rng.uniform(-44, math.log10(high), 20000),
        ]
    ).astype(np.float32)
    got = evaluate(fn, x, tier)
    wide = x.astype(np.float64)
    expected = exact(wide)
    if fn in ("sin", "cos"):
        # Near a zero the reduction's absolute error counts.
        assert np.max(np.abs(got - expected)) < 1.5e-7
    else:
        assert ulps(got, expected) <= accepted


@pytest.mark.parametrize("fn", ["exp", "tanh", "erf", "sigmoid", "log"])
def test_limits(fn: str) -> None:
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[fn][0](LIMITS.astype(np.float64))
    assert ulps(evaluate(fn, LIMITS), expected) <= 3


@pytest.mark.parametrize("fn", ["tanh", "erf"])
@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_odd_and_at_most_one(fn: str, tier: str) -> None:
    x = np.linspace(2, 12, 20001, dtype=np.float32)
    got = evaluate(fn, x, tier)
    assert np.max(got) == 1 and got[-1] == 1
    np.testing.assert_array_equal(evaluate(fn, -x, tier), -got)


@pytest.mark.parametrize("argument", [X / 2**0.5, X * 0.5**0.5])
@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_a_gelus_root_is_part_of_its_error_function(argument: Expr, tier: str) -> None:
    rng = np.random.default_rng(2)
    near = [rng.uniform(-6.5, 6.5, 60000), rng.uniform(-2, 2, 60000), 10 ** rng.uniform(-44, 0, 9)]
    x = np.concatenate(near).astype(np.float32)
    expected = np.vectorize(math.erf)(x.astype(np.float64) * math.sqrt(0.5))
    assert ulps(evaluate("erf", x, tier, argument), expected) <= 6
    far = np.linspace(5.6, 20, 5001, dtype=np.float32)
    assert (evaluate("erf", far, tier, argument) == 1).all()
    np.testing.assert_array_equal(
        evaluate("erf", -x, tier, argument), -evaluate("erf", x, tier, argument)
    )
    text = compile_program(program_of("erf", argument, 8), None, tier, dump_after="lower").dump
    assert text and text.count("f32x4.div") == 1


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_powers_of_a_softmax_are_right_or_nothing(tier: str) -> None:
    rng = np.random.default_rng(3)
    edges = [0.0, -0.0, -86.9, -87.0, -87.3, -87.4, -88.0, -104.0, -3.4e38, -math.inf]
    x = np.concatenate([rng.uniform(-90, 0, 60000), rng.uniform(-2, 0, 60000), edges])
    x = x.astype(np.float32)
    got, expected = evaluate("exp_below", x, tier), np.exp(x.astype(np.float64))
    told = expected >= 1.7e-38
    assert ulps(got[told], expected[told]) <= 2
    normal = got[~told] >= 2.0**-126
    assert (normal | (got[~told] == 0)).all() and got[-1] == 0
    assert np.isnan(evaluate("exp_below", np.full(4, math.nan, np.float32), tier)).all()


@pytest.mark.parametrize("fn", ["exp", "tanh", "erf", "sigmoid", "log", "sin", "cos"])
def test_one_value_equals_four(fn: str) -> None:
    x = np.linspace(-3, 3, 8, dtype=np.float32)
    single = np.array([evaluate(fn, x[i : i + 1])[0] for i in range(8)])
    assert single.tobytes() == evaluate(fn, x).tobytes()


@pytest.mark.parametrize("fn", ["floor", "ceil", "trunc", "round", "abs", "neg"])
def test_roundings(fn: str) -> None:
    x = np.array([-2.5, -1.5, -0.5, -0.2, 0.5, 1.5, 2.5, 7.9, np.inf, -0.0, 1e9], np.float32)
    numpy = {"round": np.rint, "neg": np.negative}.get(fn) or getattr(np, fn)
    np.testing.assert_array_equal(evaluate(fn, x), numpy(x))


def test_power_of_negative_numbers() -> None:
    base = np.array([-2, -2, -2, 0, 0, -8, 3, -1.5], np.float32)
    exponent = np.array([3, 2, 0.5, 0, 2, -1, 0, 5], np.float32)
    n = len(base)
    value = Binary("pow", Load("x", Var("i")), Load("z", Var("i")))
    program = Program(
        "pow",
        tuple(Buffer(b, "f32", (n,), "output" if b == "y" else "input") for b in ("x", "z", "y")),
        (Stage("pow", (Axis("i", n),), (Store("y", Var("i"), value),)),),
    )
    kernel = compile_program(program, None, "simd128")
    got = run_kernel(program, kernel.data, kernel.parallel_extent, {"x": base, "z": exponent})
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got["y"], base.astype(np.float64) ** exponent, rtol=1e-6)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("limit", [0.0, -0.0, 6.0, -1.5, math.inf, math.nan])
@pytest.mark.parametrize("first", [False, True])
def test_min_and_max_with_a_number(op: str, limit: float, first: bool) -> None:
    """NaN comes out of either side; of two zeros the one that is less, or greater, by its sign."""
    x, number = Load("x", Var("i")), Const(limit, "f32")
    n = len(LIMITS)
    buffers = (Buffer("x", "f32", (n,), "input"), Buffer("y", "f32", (n,), "output"))
    value = Binary(op, number, x) if first else Binary(op, x, number)
    program = Program(op, buffers, (Stage(op, (Axis("i", n),), (Store("y", Var("i"), value),)),))
    kernel = compile_program(program, None, "simd128")
    got = run_kernel(program, kernel.data, kernel.parallel_extent, {"x": LIMITS})["y"]
    expected = (np.minimum if op == "min" else np.maximum)(LIMITS, np.float32(limit))
    zeros = (LIMITS == 0) & (limit == 0)
    np.testing.assert_array_equal(got, expected)
    negative = np.signbit(LIMITS[zeros])
    signs = negative | np.signbit(limit) if op == "min" else negative & np.signbit(limit)
    np.testing.assert_array_equal(np.signbit(got[zeros]), signs)
