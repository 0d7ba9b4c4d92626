"""Products of bytes in WGSL: exact integers on wgpu-native, in both tiers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from wgsl_harness import run_program

from nnjit_studio.compiler.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.wgsl.document import KernelDocument
from nnjit_studio.compiler.wgsl.matmul_int8 import PACKED, matmul_int8_template
from nnjit_studio.errors import CompileError
from nnjit_studio.space.candidate import Candidate
from nnjit_studio.space.gpu_candidate import GpuCandidate
from nnjit_studio.space.records import GPU_TIERS

TILE = GpuCandidate(4, 4, 2, 32, 16, 8)


def product(m: int, k: int, n: int, dtype: str, dequantised: bool = False) -> Program:
    """As the importer writes MatMulInteger, with a scale and a bias behind it if wanted."""

    def at(*parts: tuple[str, int]) -> Expr:
        total: Expr | None = None
        for name, factor in parts:
            term = Binary("mul", Var(name), Const(factor, "i32"))
            total = term if total is None else Binary("add", total, term)
        assert total is not None
        return total

    place = at(("m", n), ("n", 1))
    a = Cast(Load("a", at(("m", k), ("q", 4), ("r", 1))), "i32")
    b = Cast(Load("b", at(("q", 4 * n), ("n", 4), ("r", 1))), "i32")
    target = "t" if dequantised else "y"
    total = Binary("add", Load(target, place), Binary("mul", a, b))
    spatial = (Axis("m", m), Axis("n", n))
    stages = [
        Stage(
            "sum",
            (*spatial, Axis("q", k // 4, "reduce"), Axis("r", 4, "reduce")),
            (Store(target, place, total),),
            (Store(target, place, Const(0, "i32")),),
        )
    ]
    buffers = [
        Buffer("a", dtype, (m, k), "input"),
        Buffer("b", "i8", (k // 4, n, 4), "input", True),
    ]
    if not dequantised:
        return Program("product", (*buffers, Buffer("y", "i32", (m, n), "output")), tuple(stages))
    scaled = Binary("mul", Cast(Load("t", place), "f32"), Const(0.5, "f32"))
    value = Binary("add", scaled, Load("bias", Var("n")))
    stages.append(Stage("end", spatial, (Store("y", place, value),)))
    buffers += [
        Buffer("bias", "f32", (n,), "input", True),
        Buffer("y", "f32", (m, n), "output"),
        Buffer("t", "i32", (m, n), "workspace"),
    ]
    return Program("product", tuple(buffers), tuple(stages))


def check(program: Program, candidate: GpuCandidate | None, extreme: bool = False) -> None:
    """Exact in the plain twin and in the one of packed words, which says what it requires."""
    a, b = (program.buffer(name) for name in "ab")
    rng = np.random.default_rng(1)
    low, high = (0, 256) if a.dtype == "u8" else (-128, 128)
    x = rng.integers(low, high, a.shape)
    w = rng.integers(-128, 128, b.shape)
    if extreme:
        x, w = np.full_like(x, high - 1), np.full_like(w, -128)
    inputs = {"a": x, "b": w, "bias": rng.random(b.shape[1], np.float32)}
    weights = w.transpose(0, 2, 1).reshape(-1, b.shape[1])
    expected: np.ndarray = (x @ weights).astype(np.int32)
    if program.buffer("y").dtype == "f32":
        expected = expected.astype(np.float32) * np.float32(0.5) + inputs["bias"]
    for tier, requires in zip(GPU_TIERS, ((), (PACKED,)), strict=True):
        document = matmul_int8_template(program, candidate, tier)
        assert document is not None and document.requires == requires
        got = run_program(program, document.to_bytes(), inputs)
        np.testing.assert_array_equal(got["y"], expected)


@pytest.mark.parametrize("dtype", ["u8", "i8"])
@pytest.mark.parametrize("shape", [(33, 20, 9), (17, 64, 40), (1, 36, 70)])
def test_odd_shapes(shape: tuple[int, int, int], dtype: str) -> None:
    check(product(*shape, dtype), TILE)


@pytest.mark.parametrize(
    "candidate",
    [
        None,
        GpuCandidate(8, 4, 4, 32, 16, 4),
        GpuCandidate(1, 2, 1, 8, 8, 4),
        replace(TILE, split=3),
    ],
)
def test_tiles_with_an_epilogue(candidate: GpuCandidate | None) -> None:
    check(product(21, 176, 36, "u8", dequantised=True), candidate)


def test_the_largest_sums() -> None:
    check(product(2, 512, 8, "u8"), TILE, extreme=True)


def test_what_has_no_whole_words_is_left_to_the_default_schedule() -> None:
    program = product(4, 8, 4, "u8")
    u8 = replace(
        program,
        buffers=tuple(replace(b, dtype="u8") if b.name == "b" else b for b in program.buffers),
    )
    assert matmul_int8_template(u8, None, "wgsl") is None
    with pytest.raises(CompileError, match="Wasm kernels"):
        matmul_int8_template(program, Candidate(8, 2, 4, 8, 2, 8), "wgsl")


def test_documents_are_stable() -> None:
    first, second = (
        matmul_int8_template(product(9, 16, 8, "u8"), TILE, "wgsl-subgroups") for _ in range(2)
    )
    assert isinstance(first, KernelDocument) and first == second
