"""8-bit integers: lanes give what one value at a time gives."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import NUMPY, flat, run_kernel

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Cast,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.wasm import compile_program

FLOATS = np.array(
    [0, -0.0, 0.5, 1.5, -0.5, -1.5, 127, 127.9, 128, -128, -128.9, -129, 255, 255.9, 256, 1e9,
     -1e9, 3e38, -3e38, np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip
INTEGERS = np.array([0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31 - 1, -(2**31), 77], np.int32)


def mapped(x: np.ndarray, source: str, target: str, of: str, lanes: bool) -> np.ndarray:
    """x as 8-bit values of dtype ``of``, stored as ``target`` after adding 1 where that is f32."""
    n = len(x)
    axes = (Axis("i", n),) if lanes else (Axis("i", n // 2), Axis("j", 2))
    index = Var("i") if lanes else flat((n // 2, 2), "i", "j")
    value: Expr = Cast(Load("x", index), of)
    if target == "f32":
        value = Cast(value, "f32") + 1.0
    program = Program(
        "cast",
        (Buffer("x", source, (n,), "input"), Buffer("y", target, (n,), "output")),
        (Stage("cast", axes, (Store("y", index, value),)),),
    )
    kernel = compile_program(program, None, "simd128", dump_after="lower")
    assert ("v128.store" in kernel.dump) == lanes
    return run_kernel(program, kernel.data, kernel.parallel_extent, {"x": x})["y"]


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("of", ["u8", "i8"])
@pytest.mark.parametrize("between", [True, False])
def test_floats_saturate_and_integers_wrap(of: str, between: bool, lanes: bool) -> None:
    limits = np.iinfo(NUMPY[of])
    target = "f32" if between else of
    cut = np.trunc(np.nan_to_num(FLOATS.astype(np.float64), nan=0)).clip(limits.min, limits.max)
    for x, source, wanted in (
        (FLOATS, "f32", cut.astype(NUMPY[of])),
        (INTEGERS, "i32", INTEGERS.astype(NUMPY[of])),
    ):
        got = mapped(x, source, target, of, lanes)
        expected = wanted.astype(np.float32) + 1 if between else wanted
        np.testing.assert_array_equal(got, expected)
