"""The softmax template: when it applies, and what hostile rows give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_harness import at, f32, flat, run_kernel
from small_programs import softmax

from nnjit_studio.compiler.ir.tensor_ir import Binary, Program, Select, Store
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.softmax import recognize_softmax

TIERS = ("simd128", "relaxed-simd")


def run(program: Program, x: np.ndarray, tier: str) -> np.ndarray:
    kernel = compile_program(program, None, tier)
    extent = kernel.parallel_extent
    return run_kernel(program, kernel.data, extent, {"x": x}, (), min(extent, 2))["y"]


def exact(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def guarded(rows: int, columns: int) -> Program:
    """A NaN of the softmax becomes 0, as exporters write attention."""
    program, shape = softmax(rows, columns), (rows, columns)
    quotient = at("e", shape, "i", "j") / at("total", (rows,), "i")
    value = Select(Binary("ne", quotient, quotient), f32(0.0), quotient)
    last = replace(program.stages[3], body=(Store("y", flat(shape, "i", "j"), value),))
    return replace(program, stages=(*program.stages[:3], last))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("columns", [4, 7, 15, 16, 17, 35, 128])
@pytest.mark.parametrize("rows", [1, 3])
def test_all_lengths_of_a_row(rows: int, columns: int, tier: str) -> None:
    x = np.random.default_rng(columns).normal(0, 5, (rows, columns)).astype(np.float32)
    np.testing.assert_allclose(
        run(softmax(rows, columns), x, tier), exact(x), rtol=3e-6, atol=1e-37
    )


@pytest.mark.parametrize("tier", TIERS)
def test_hostile_rows(tier: str) -> None:
    x = np.random.default_rng(1).standard_normal((7, 21)).astype(np.float32)
    x[0, 3] = np.nan  # on lanes
    x[1, 20] = np.nan  # in the tail
    x[2, 5] = np.inf
    x[3, 1:] = -np.inf
    x[4] = -3.4e38
    x[5] = np.linspace(-3e38, 3e38, 21)
    x[6] = -np.inf
    got = run(softmax(*x.shape), x, tier)
    for row in (0, 1, 2, 6):
        assert np.isnan(got[row]).all(), row
    np.testing.assert_allclose(got[3:6], exact(x[3:6]), rtol=2e-6)


def test_a_guard_is_part_of_the_last_walk() -> None:
    x = np.random.default_rng(2).standard_normal((2, 18)).astype(np.float32)
    x[1] = -np.inf
    program = guarded(2, 18)
    assert recognize_softmax(program) is not None
    got = run(program, x, "relaxed-simd")
    np.testing.assert_allclose(got[0], exact(x[:1])[0], rtol=2e-6)
    np.testing.assert_array_equal(got[1], 0)


def test_other_programs_keep_the_schedule_of_any_program() -> None:
    program = softmax(4, 12)
    peak, raised, total, last = program.stages
    # Without the largest value taken off, exp may overflow: not what the template computes.
    plain = replace(raised, body=(replace(raised.body[0], value=at("x", (4, 12), "i", "j")),))
    assert recognize_softmax(replace(program, stages=(peak, plain, total, last))) is None
    assert recognize_softmax(replace(program, stages=program.stages[:3])) is None
    assert recognize_softmax(softmax(4, 3)) is None, "no whole vector in a row"
    # Somebody else reads the sums.
    seen = tuple(replace(b, role="output") if b.name == "total" else b for b in program.buffers)
    assert recognize_softmax(replace(program, buffers=seen)) is None
