"""Half precision: every half exactly to f32, and f32 rounded as NumPy rounds."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import flat, run_kernel
from test_wasm_math import evaluate, ulps

from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Load, Program, Stage, Store, Var
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.wasm.vector_inverse import FUNCTIONS


def copied(x: np.ndarray, source: str, target: str, lanes: bool) -> np.ndarray:
    n = len(x)
    axes = (Axis("i", n),) if lanes else (Axis("i", n // 2), Axis("j", 2))
    index = Var("i") if lanes else flat((n // 2, 2), "i", "j")
    program = Program(
        "copy",
        (Buffer("x", source, (n,), "input"), Buffer("y", target, (n,), "output")),
        (Stage("copy", axes, (Store("y", index, Load("x", index)),)),),
    )
    kernel = compile_program(program, None, "simd128")
    return run_kernel(program, kernel.data, kernel.parallel_extent, {"x": x})["y"]


@pytest.mark.parametrize("lanes", [True, False])
def test_every_half_becomes_its_float(lanes: bool) -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(copied(every, "f16", "f32", lanes), every.astype(np.float32))


@pytest.mark.parametrize("lanes", [True, False])
def test_floats_round_to_the_nearest_even_half(lanes: bool) -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 40_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)
    near = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, np.float32(np.inf))])
    limits = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65519.996, 65520, 1e-45], np.float32)
    x = np.concatenate([bits, near, -near, limits])
    x = x[: len(x) // 2 * 2]
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    got = copied(x, "f32", "f16", lanes)
    same = (got.view(np.uint16) == expected.view(np.uint16)) | (np.isnan(got) & np.isnan(x))
    assert same.all()


RANGES = {
    "tan": (-100, 100, 4), "asin": (-1, 1, 3), "acos": (-1, 1, 3), "atan": (-50, 50, 3),
    "sinh": (-89, 89, 3), "cosh": (-89, 89, 3), "asinh": (-1e4, 1e4, 4), "acosh": (1, 1e4, 4),
    "atanh": (-1, 1, 4),
}  # fmt: skip


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_error_in_ulp(fn: str) -> None:
    low, high, accepted = RANGES[fn]
    rng = np.random.default_rng(1)
    spread = rng.uniform(low, high, 20_000)
    small = low + np.geomspace(1e-30, 1, 2_000) if low >= 0 else np.geomspace(1e-30, 0.9, 2_000)
    x = np.concatenate([spread, small]).astype(np.float32)
    names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    names |= {f"a{h}": f"arc{h}" for h in ("sinh", "cosh", "tanh")}
    with np.errstate(all="ignore"):
        expected = getattr(np, names.get(fn, fn))(x.astype(np.float64))
    assert ulps(evaluate(fn, x), expected) <= accepted
