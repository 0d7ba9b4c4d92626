"""Products of bytes in WGSL: exact integers on wgpu-native, in both tiers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from byte_products import byte_product
from wgsl_harness import run_program

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl, from_template
from nnjit_studio.compiler.recognize.quantised import in_words
from nnjit_studio.compiler.wgsl.core.document import PACKED, KernelDocument
from nnjit_studio.errors import CompileError
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate

TILE = GpuCandidate(4, 4, 2, 32, 16, 8)


def check(program: Program, candidate: GpuCandidate | None, extreme: bool = False) -> None:
    """Exact in the plain twin and in the one of packed words, which says what it requires."""
    a, b = (program.buffer(name) for name in "ab")
    rng = np.random.default_rng(1)
    low, high = (0, 256) if a.dtype == "u8" else (-128, 128)
    x = rng.integers(low, high, a.shape)
    w = rng.integers(-128, 128, (a.shape[1], b.shape[1]))
    if extreme:
        x, w = np.full_like(x, high - 1), np.full_like(w, -128)
    inputs = {"a": x, "b": in_words(w.astype(np.int8)), "bias": rng.random(b.shape[1], np.float32)}
    expected: np.ndarray = (x @ w).astype(np.int32)
    if program.buffer("y").dtype == "f32":
        expected = expected.astype(np.float32) * np.float32(0.5) + inputs["bias"]
    for tier, requires in zip(GPU_TIERS, ((), (PACKED,)), strict=True):
        document = from_template(program, candidate, tier)
        assert document is not None and document.requires == requires
        got = run_program(program, document.to_bytes(), inputs)
        np.testing.assert_array_equal(got["y"], expected)


@pytest.mark.parametrize("dtype", ["u8", "i8"])
@pytest.mark.parametrize("shape", [(33, 20, 9), (17, 64, 40), (1, 36, 70)])
def test_odd_shapes(shape: tuple[int, int, int], dtype: str) -> None:
    check(byte_product(*shape, dtype), TILE)


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
    check(byte_product(21, 176, 36, "u8", dequantised=True), candidate)


def test_the_largest_sums() -> None:
    check(byte_product(2, 512, 8, "u8"), TILE, extreme=True)


def test_what_has_no_whole_words_is_left_to_the_default_schedule() -> None:
    program = byte_product(4, 8, 4, "u8")
    u8 = replace(
        program,
        buffers=tuple(replace(b, dtype="u8") if b.name == "b" else b for b in program.buffers),
    )
    assert from_template(u8, None, "wgsl") is None
    with pytest.raises(CompileError, match="Wasm kernels"):
        from_template(program, Candidate(8, 2, 4, 8, 2, 8), "wgsl")


def test_the_default_schedule_keeps_sums_apart_from_their_float_result() -> None:
    """A plan gives both one place, which a dispatch may not bind as integers and as floats."""
    product = byte_product(5, 12, 9, "i8", dequantised=True)
    unsigned = (replace(b, dtype="u8") if b.name == "b" else b for b in product.buffers)
    program = replace(product, buffers=tuple(unsigned))
    assert from_template(program, None, GPU_TIERS[0]) is None
    data = compile_wgsl(program, None, GPU_TIERS[0]).data
    document = KernelDocument.from_bytes(data)
    assert document.scratch == (4 * 5 * 9,)
    sums = next(i for i, b in enumerate(program.buffers) if b.name == "t")
    assert all(f"a{sums}" not in d.bindings for d in document.dispatches)
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 128, shape).astype(np.int8) for shape in ((5, 12), (12, 9)))
    inputs = {"a": a, "b": in_words(b).view(np.uint8), "bias": rng.random(9, np.float32)}
    expected = (a.astype(np.int32) @ b).astype(np.float32) * np.float32(0.5) + inputs["bias"]
    np.testing.assert_array_equal(run_program(program, data, inputs)["y"], expected)


def test_documents_are_stable() -> None:
    first, second = (
        from_template(byte_product(9, 16, 8, "u8"), TILE, "wgsl-subgroups") for _ in range(2)
    )
    assert isinstance(first, KernelDocument) and first == second
