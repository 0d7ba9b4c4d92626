"""WGSL functions against float64, over the ranges that their docstring names."""

from __future__ import annotations

import numpy as np
import pytest
from wgsl_harness import run_program

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Call,
    Cast,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.oracle import rounding
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl

RANGES = {
    "exp": (-87, 88, 2), "tanh": (-10, 10, 6), "erf": (-5, 5, 6), "log": (1e-30, 1e30, 3),
    "sigmoid": (-80, 80, 4), "sin": (-1000, 1000, 2), "cos": (-1000, 1000, 2),
    "tan": (-100, 100, 4), "asin": (-1, 1, 5), "acos": (-1, 1, 5), "atan": (-1e4, 1e4, 5),
    "sinh": (-88, 88, 5), "cosh": (-88, 88, 5), "asinh": (-1e5, 1e5, 5), "acosh": (1, 1e5, 5),
    "atanh": (-1, 1, 5), "sqrt": (0, 1e30, 5), "rsqrt": (1e-30, 1e30, 5),
}  # fmt: skip
"""Smallest and largest argument, and ulps."""
EDGES = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2.5, 88.9, -104, 1e-30], np.float32
)


def on_gpu(value: Expr, x: np.ndarray, dtype: str = "f32", given: str = "f32") -> np.ndarray:
    """``y = value`` with ``x[i]`` for each element."""
    n = x.size
    buffers = (Buffer("x", given, (n,), "input"), Buffer("y", dtype, (n,), "output"))
    stage = Stage("y", (Axis("i", n),), (Store("y", Var("i"), value),))
    program = Program("elementwise", buffers, (stage,))
    return run_program(program, compile_wgsl(program, None, "wgsl").data, {"x": x})["y"]


def arguments(low: float, high: float) -> np.ndarray:
    """Evenly spread, and as many by magnitude."""
    rng = np.random.default_rng(3)
    signs = rng.choice([-1.0, 1.0] if low < 0 else [1.0], 5000)
    scaled = signs * np.exp(rng.uniform(np.log(1e-12), np.log(high), 5000))
    both = np.concatenate([rng.uniform(low, high, 5000), scaled, 1 + np.abs(scaled)])
    return both[(both >= low) & (both <= high)].astype(np.float32)


@pytest.mark.parametrize("fn", RANGES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_error_in_ulps(fn: str) -> None:
    low, high, ulps = RANGES[fn]
    x = arguments(low, high)
    got = on_gpu(Call(fn, (Load("x", Var("i")),)), x).astype(np.float64)
    expected = rounding._CALLS[fn](x.astype(np.float64))
    known = np.isfinite(expected) & (np.abs(expected) > 1.2e-38)
    assert known.sum() > 5000
    step = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    if fn in ("sin", "cos", "tan"):
        step = np.maximum(step, 2.0**-23)
    assert np.max((np.abs(got - expected) / step)[known]) <= ulps


@pytest.mark.parametrize("fn", [*RANGES, "floor", "ceil", "round", "trunc", "abs", "neg"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_limits(fn: str) -> None:
    got = on_gpu(Call(fn, (Load("x", Var("i")),)), EDGES)
    expected = rounding._CALLS[fn](EDGES.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-37)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_halves_round_as_numpy_does() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    halves = bits.view(np.float16)
    wide = on_gpu(Load("x", Var("i")), halves, "f32", "f16")
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    rng = np.random.default_rng(0)
    x = (rng.choice([-1, 1], 9999) * 2.0 ** rng.uniform(-26, 17, 9999)).astype(np.float32)
    ties = (np.arange(1, 99) * 2.0**-25).astype(np.float32)
    x = np.concatenate([x, EDGES, ties])
    np.testing.assert_array_equal(on_gpu(Load("x", Var("i")), x, "f16"), x.astype(np.float16))


def test_casts_saturate() -> None:
    x = np.array([3e9, -3e9, np.nan, 2147483520, -2.9, 300, -300, 0.9], np.float32)
    load = Load("x", Var("i"))
    assert on_gpu(Cast(load, "i32"), x, "i32").tolist() == [
        2147483647, -2147483648, 0, 2147483520, -2, 300, -300, 0,
    ]  # fmt: skip
    assert on_gpu(Cast(load, "u8"), x, "u8").tolist() == [255, 0, 0, 255, 0, 255, 0, 0]
    assert on_gpu(Cast(load, "i8"), x, "i8").tolist() == [127, -128, 0, 127, -2, 127, -128, 0]


def test_bits_of_floats_and_back() -> None:
    load = Load("x", Var("i"))
    bits = on_gpu(Call("bits", (load,)), EDGES, "i32")
    np.testing.assert_array_equal(bits, EDGES.view(np.int32))
    back = on_gpu(Call("from_bits", (load,)), bits, "f32", "i32")
    np.testing.assert_array_equal(back.view(np.int32), bits)
