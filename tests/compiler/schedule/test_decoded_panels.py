"""Panels of halves that are widened once for all rows of A."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import run_kernel
from matmul_programs import dense, in_bytes, in_halves, times

from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Const, Load, Program, Stage, Store, Var
from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.schedule.decoded_panels import PANELS
from nnjit_studio.compiler.templates import prepared
from nnjit_studio.records.candidate import Candidate


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize(("m", "k", "n"), [(13, 24, 30), (37, 19, 8), (9, 32, 250), (2, 6, 5)])
def test_products_with_halves(m: int, k: int, n: int, tier: str) -> None:
    program = prepared(in_halves(dense(m, k, n, "bias")))
    rng = np.random.default_rng(m)
    shapes = {b.name: b.shape for b in program.buffers if b.role == "input"}
    inputs = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    inputs["w"] = inputs["w"].astype(np.float16)
    expected = evaluate(program, inputs)["out"]
    # The last two decode in their tiles: rows are outermost, or panels too wide for the workspace.
    for x0, y0, r0, order in ((8, 6, 4, "nm"), (4, 1, 1, "nm"), (8, 3, 2, "mn"), (16, 2, 1, "nm")):
        candidate = Candidate(x0, y0, r0, x0, y0, k, order, True)
        if -(-n // x0) * x0 > -(-n // 16) * 16 or y0 > m:
            continue
        made = compile_program(program, candidate, tier)
        got = run_kernel(
            program,
            made.data,
            made.parallel_extent,
            inputs,
            made.panels,
            min(3, made.parallel_extent),
        )
        np.testing.assert_allclose(
            got["out"], expected, rtol=1e-5, atol=1e-5, err_msg=str(candidate)
        )
        once = order == "nm" and x0 <= 8 and y0 < m
        assert bool((got[PANELS].view(np.uint32) != 0xCDCDCDCD).any()) == once


def heads(batch: int, m: int, k: int, n: int) -> Program:
    """As Q, K and V are one product: each batch has ``n`` of the weight's columns."""
    out = times("h", m * n) + times("m", n) + Var("n")
    a = Load("a", times("m", k) + Var("k"))
    w = Load("w", times("k", batch * n) + times("h", n) + Var("n"))
    stage = Stage(
        "sum",
        (Axis("h", batch), Axis("m", m), Axis("n", n), Axis("k", k, "reduce")),
        (Store("out", out, Load("out", out) + a * w),),
        (Store("out", out, Const(0.0, "f32")),),
    )
    buffers = (
        Buffer("a", "f32", (m, k), "input"),
        Buffer("w", "f32", (k, batch * n), "input", True),
        Buffer("out", "f32", (batch, m, n), "output"),
    )
    return Program("heads", buffers, (stage,))


@pytest.mark.parametrize(("batch", "m", "k", "n"), [(3, 13, 24, 16), (30, 9, 10, 8)])
def test_ranges_of_columns(batch: int, m: int, k: int, n: int) -> None:
    program = prepared(in_halves(heads(batch, m, k, n)))
    rng = np.random.default_rng(m)
    inputs = {
        "a": rng.standard_normal((m, k)),
        "w": rng.standard_normal((k, batch * n)).astype(np.float16),
    }
    expected = evaluate(program, inputs)["out"]
    for x0, y0 in ((8, 6), (4, 2)):
        candidate = Candidate(x0, y0, 2, x0, y0, k, "nm", True)
        made = compile_program(program, candidate, "simd128")
        call = (program, made.data, made.parallel_extent, inputs, made.panels)
        got = run_kernel(*call, parts=3)
        np.testing.assert_allclose(got["out"], expected, rtol=1e-5, atol=1e-5)
        assert (got[PANELS].view(np.uint32) != 0xCDCDCDCD).any()


@pytest.mark.parametrize(("m", "k", "n"), [(9, 37, 30), (13, 16, 7), (4, 6, 5)])
def test_rows_of_halves(m: int, k: int, n: int) -> None:
    program = prepared(in_halves(rows(m, k, n)))
    rng = np.random.default_rng(m)
    inputs = {
        "a": rng.standard_normal((m, k)),
        "w": rng.standard_normal((n, k)).astype(np.float16),
    }
    expected = evaluate(program, inputs)["out"]
    for x0, y0, order in ((4, 2, "nm"), (6, 2, "nm"), (8, 1, "nm"), (4, 3, "mn")):
        candidate = Candidate(x0, y0, 2, x0, y0, k, order, False)
        for tier in ("simd128", "relaxed-simd"):
            made = compile_program(program, candidate, tier)
            call = (program, made.data, made.parallel_extent, inputs, made.panels)
            got = run_kernel(*call, parts=min(3, made.parallel_extent))
            np.testing.assert_allclose(got["out"], expected, rtol=1e-5, atol=1e-5)
            assert bool((got[PANELS].view(np.uint32) != 0xCDCDCDCD).any()) == (order == "nm")


@pytest.mark.parametrize(("dtype", "zero"), [("i8", 0.0), ("u8", 131.0)])
@pytest.mark.parametrize(("m", "k", "n"), [(9, 36, 30), (13, 16, 7), (4, 8, 5), (1, 24, 19)])
def test_rows_of_bytes(m: int, k: int, n: int, dtype: str, zero: float) -> None:
    program = prepared(in_bytes(rows(m, k, n), dtype, zero))
    rng = np.random.default_rng(m)
    table = rng.integers(0, 256, (n, k)).astype(np.uint8)
    kind = np.int8 if dtype == "i8" else np.uint8
    inputs = {"a": rng.standard_normal((m, k)), "w": table.view(kind)}
    expected = evaluate(program, inputs)["out"]
    np.testing.assert_allclose(
        expected, inputs["a"].astype(np.float32) @ (inputs["w"] - zero).T, rtol=1e-5, atol=1e-2
    )
    for x0, y0, order in ((4, 2, "nm"), (6, 2, "nm"), (8, 1, "nm"), (4, 3, "mn")):
        candidate = Candidate(x0, min(y0, m), 2, x0, min(y0, m), k, order, False)
        for tier in ("simd128", "relaxed-simd"):
            made = compile_program(program, candidate, tier)
            call = (program, made.data, made.parallel_extent, inputs, made.panels)
            got = run_kernel(*call, parts=min(3, made.parallel_extent))
            np.testing.assert_allclose(got["out"], expected, rtol=1e-4, atol=1e-2)
            decoded = PANELS in got and bool((got[PANELS].view(np.uint32) != 0xCDCDCDCD).any())
            assert decoded == (order == "nm" and m > 1 and m > candidate.y0)


def rows(m: int, k: int, n: int) -> Program:
    """As a head that reads the table of embeddings: both operands along the reduction."""
    out = times("m", n) + Var("n")
    product = Load("a", times("m", k) + Var("k")) * Load("w", times("n", k) + Var("k"))
    stage = Stage(
        "sum",
        (Axis("m", m), Axis("n", n), Axis("k", k, "reduce")),
        (Store("out", out, Load("out", out) + product),),
        (Store("out", out, Const(0.0, "f32")),),
    )
    buffers = (
        Buffer("a", "f32", (m, k), "input"),
        Buffer("w", "f32", (n, k), "input", True),
        Buffer("out", "f32", (m, n), "output"),
    )
    return Program("rows", buffers, (stage,))


def test_rows_alone_need_no_room() -> None:
    program = in_halves(dense(1, 64, 40, "none"))
    assert prepared(program) == program
    assert prepared(dense(8, 64, 40, "none")) == dense(8, 64, 40, "none")
