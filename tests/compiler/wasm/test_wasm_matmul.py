"""The matmul template against NumPy in float64: shapes, settings, tiers, passes, layouts."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import at, flat, run_kernel

from nnjit_studio.compiler.ir.loop_text import schedule_text
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Call,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction, Operand
from nnjit_studio.compiler.schedule.matmul import schedule_matmul
from nnjit_studio.compiler.wasm.combined_instruction import combined_instruction
from nnjit_studio.compiler.wasm.encode import encode_module
from nnjit_studio.compiler.wasm.fuse_multiply_add import fuse_multiply_add
from nnjit_studio.compiler.wasm.hoist_constants import hoist_constants
from nnjit_studio.compiler.wasm.load_store_to_variable import load_store_to_variable
from nnjit_studio.compiler.wasm.lower import lower
from nnjit_studio.compiler.wasm.offset_load_store import offset_load_store
from nnjit_studio.compiler.wasm.text import function_text
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

ACC = Var(ACCUMULATOR)


def matmul(
    m: int, n: int, k: int, epilogue: str = "none", batch: int = 1, transposed: bool = False
) -> tuple[Program, Contraction]:
    """C = f(A B), optionally batched, with the epilogue named."""
    axes = (Axis("b", batch),) if batch > 1 else ()
    lead = (batch,) if axes else ()
    index = ("b",) if axes else ()
    out = (*lead, m, n)
    value: Expr = ACC
    extra: list[Buffer] = []
    if epilogue in ("bias", "gelu"):
        extra.append(Buffer("bias", "f32", (n,), "input", True))
        value = value + Load("bias", Var("n"))
    if epilogue == "gelu":
        erf = Call("erf", (value * math.sqrt(0.5),))
        half = value * 0.5
        value = half * (erf + 1.0)
    if epilogue == "residual":
        extra.append(Buffer("residual", "f32", out, "input"))
        value = value + at("residual", out, *index, "m", "n")
    if epilogue == "rows":
        extra.append(Buffer("scale", "f32", (n, m), "input"))
        value = value * at("scale", (n, m), "n", "m")
    store_index = (
        flat((*lead, n, m), *index, "n", "m") if transposed else flat(out, *index, "m", "n")
    )
    packable = not axes
    buffers = (
        Buffer("A", "f32", (*lead, m, k), "input"),
        Buffer("B", "f32", (*lead, k, n), "input", packable),
        *extra,
        Buffer("C", "f32", (*lead, n, m) if transposed else out, "output"),
    )
    program = Program("matmul", buffers, (Stage("stub", (), ()),))
    a = Operand("A", 0, (m * k,) if axes else (), k, 1)
    b = Operand("B", 0, (k * n,) if axes else (), n, 1)
    stores = (Store("C", store_index, value),)
    return program, Contraction(axes, m, n, k, "m", "n", a, b, packable, stores, ())


def compile_tile(
    program: Program,
    contraction: Contraction,
    candidate: Candidate,
    tier: str = "relaxed-simd",
    passes: tuple[str, ...] = OPTIONAL_PASSES,
) -> tuple[bytes, int, tuple[tuple[int, int], ...]]:
    scheduled = schedule_matmul(program, contraction, candidate)
    function = lower(program, scheduled, tier)
    if tier == "relaxed-simd":
        fuse_multiply_add(function)
    hoist_constants(function)
    for run in (offset_load_store, combined_instruction, load_store_to_variable):
        if run.__name__ in passes:
            run(function)
    return encode_module(function), scheduled.parallel_extent, scheduled.panels


def reference(inputs: dict[str, np.ndarray], epilogue: str, transposed: bool) -> np.ndarray:
    wide = {name: a.astype(np.float64) for name, a in inputs.items()}
    c = wide["A"] @ wide["B"]
    if epilogue in ("bias", "gelu"):
        c = c + wide["bias"]
    if epilogue == "gelu":
        c = 0.5 * c * (1 + np.vectorize(math.erf)(c * math.sqrt(0.5)))
    if epilogue == "residual":
        c = c + wide["residual"]
    if epilogue == "rows":
        c = c * wide["scale"].T
    return np.swapaxes(c, -1, -2) if transposed else c


def check(
    m: int,
    n: int,
    k: int,
    candidate: Candidate,
    epilogue: str = "none",
    batch: int = 1,
    transposed: bool = False,
    tier: str = "relaxed-simd",
    passes: tuple[str, ...] = OPTIONAL_PASSES,
    parts: int = 1,
) -> None:
    program, contraction = matmul(m, n, k, epilogue, batch, transposed)
    rng = np.random.default_rng(m * 1009 + n * 31 + k)
    inputs = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }
    data, extent, panels = compile_tile(program, contraction, candidate, tier, passes)
    got = run_kernel(program, data, extent, inputs, panels, parts)["C"]
    expected = reference(inputs, epilogue, transposed)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-5 * math.sqrt(k))


def tile(x0: int, y0: int, r0: int = 4, **more: object) -> Candidate:
    settings = {"x1": x0, "y1": y0, "r1": 10**6, "order": "nm", "pack": True, **more}
    return Candidate(x0, y0, r0, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("order", ["nm", "mn"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1),
        (1, 3, 5),
        (6, 8, 4),
        (7, 13, 11),
        (13, 2, 17),
        (5, 37, 1),
        (12, 16, 9),
        (1, 64, 33),
    ],
)
def test_odd_shapes(shape: tuple[int, int, int], order: str, pack: bool) -> None:
    check(*shape, tile(8, 6, order=order, pack=pack))


@pytest.mark.parametrize("epilogue", ["bias", "gelu", "residual", "rows"])
@pytest.mark.parametrize("shape", [(6, 8, 8), (9, 23, 10), (2, 3, 3)])
@pytest.mark.parametrize("r1", [4, 10**6])
def test_epilogues(shape: tuple[int, int, int], epilogue: str, r1: int) -> None:
    check(*shape, tile(8, 4, r1=r1), epilogue)


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize("off", [*OPTIONAL_PASSES, "all", "none"])
def test_passes_are_optional(tier: str, off: str) -> None:
    passes = tuple(p for p in OPTIONAL_PASSES if off not in (p, "all"))
    check(11, 21, 10, tile(8, 4), "gelu", tier=tier, passes=passes)
    check(11, 21, 10, tile(8, 4), "bias", tier=tier, passes=passes)


@pytest.mark.parametrize("order", ["nm", "mn"])
def test_batch_in_parts(order: str) -> None:
    check(9, 18, 7, tile(8, 4, order=order, pack=False), "residual", batch=3, parts=5)


def test_output_transposed() -> None:
    check(9, 18, 7, tile(8, 4), transposed=True)
    check(9, 18, 7, tile(8, 4), "bias", transposed=True)


@settings(max_examples=60)
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    k=st.integers(1, 30),
    x0=st.sampled_from([4, 8, 12, 16]),
    y0=st.integers(1, 8),
    r0=st.sampled_from([1, 2, 3, 4, 8]),
    x1=st.sampled_from([4, 16, 24, 64]),
    y1=st.sampled_from([1, 12, 64]),
    r1=st.sampled_from([1, 5, 8, 16, 64]),
    order=st.sampled_from(["nm", "mn"]),
    pack=st.booleans(),
    epilogue=st.sampled_from(["none", "bias", "residual", "gelu"]),
    tier=st.sampled_from(["simd128", "relaxed-simd"]),
    parts=st.integers(1, 4),
)
def test_any_candidate(  # type: ignore[no-untyped-def]
    m, n, k, x0, y0, r0, x1, y1, r1, order, pack, epilogue, tier, parts
) -> None:
    fits = -(-n // x0) * x0 <= -(-n // 16) * 16
    candidate = Candidate(x0, y0, r0, x1, y1, r1, order, pack and fits)
    check(m, n, k, candidate, epilogue, parts=parts, tier=tier)


@pytest.mark.parametrize(
    ("x0", "r0", "sums"), [(4, 8, 8), (8, 4, 8), (8, 8, 8), (16, 4, 8), (16, 1, 4)]
)
@pytest.mark.parametrize("k", [1, 7, 64])
def test_a_row_runs_in_several_streams(x0: int, r0: int, sums: int, k: int) -> None:
    check(1, 50, k, tile(x0, 1, r0), "bias")
    check(1, 50, k, tile(x0, 1, r0, r1=16), "bias")
    program, contraction = matmul(1, 64, 64)
    text = schedule_text(schedule_matmul(program, contraction, tile(x0, 1, r0)))
    assert len(set(re.findall(r"acc0_\d+(?:_\d+)?(?= = 0)", text))) == sums


def test_a_row_of_results_is_stored_after_all_its_loads() -> None:
    program, contraction = matmul(6, 16, 8, "residual")
    function = lower(program, schedule_matmul(program, contraction, tile(16, 2)), "simd128")
    lines = [line.strip() for line in function_text(function).splitlines()]
    stores = [i for i, line in enumerate(lines) if line.startswith("(v128.store")]
    assert any(stores[i : i + 4] == list(range(first, first + 4)) for i, first in enumerate(stores))


def test_same_bytes_twice() -> None:
    program, contraction = matmul(13, 29, 7, "gelu")
    first, second = (compile_tile(program, contraction, tile(8, 6)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("candidate", "word"),
    [(tile(6, 4), "multiple"), (tile(16, 12, 8), "operations"), (tile(8, 4, order="zz"), "order")],
)
def test_refuses(candidate: Candidate, word: str) -> None:
    program, contraction = matmul(16, 32, 16)
    with pytest.raises(CompileError, match=word):
        compile_tile(program, contraction, candidate)


def test_refuses_to_pack_activations() -> None:
    program, contraction = matmul(16, 32, 16, batch=2)
    with pytest.raises(CompileError, match="packable"):
        compile_tile(program, contraction, tile(8, 4))


def test_refuses_panels_that_the_engine_has_no_room_for() -> None:
    program, contraction = matmul(16, 16, 8)
    with pytest.raises(CompileError, match="room"):
        compile_tile(program, contraction, tile(12, 4))
    check(16, 32 + 4, 8, tile(12, 4))


def test_nan_and_infinity_pass_through() -> None:
    program, contraction = matmul(4, 8, 4)
    a, b = np.ones((4, 4), np.float32), np.ones((4, 8), np.float32)
    a[0, 0], a[1, 1], b[2, 3] = np.nan, np.inf, -np.inf
    data, extent, panels = compile_tile(program, contraction, tile(8, 4))
    got = run_kernel(program, data, extent, {"A": a, "B": b}, panels)["C"]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, (a.astype(float) @ b.astype(float)).astype(np.float32))
