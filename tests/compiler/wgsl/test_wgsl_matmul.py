"""Products in WGSL, run on wgpu-native and checked against float64, element by element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matmul_programs import dense, in_bytes
from wgsl_harness import check_document, run_program

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl, from_template
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import match, subject_of
from nnjit_studio.compiler.wgsl.templates.matmul import guess, is_matvec
from nnjit_studio.device.gpu_constants import typical
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.matmul import gpu_candidates, gpu_problem

TILE = GpuCandidate(4, 4, 4, 32, 16, 8)
ROW = GpuCandidate(4, 1, 4, 32, 1, 64)


def check(program: Program, candidate: GpuCandidate | None) -> None:
    document = from_template(program, candidate, "wgsl")
    assert document is not None
    check_document(program, document)


@pytest.mark.parametrize("vec", [1, 2, 4])
@pytest.mark.parametrize("spec", ["matmul:33x16x12", "matmul:2x17x9", "matmul_dot:1x24x20"])
def test_weights_in_halves(spec: str, vec: int) -> None:
    program = program_for(f"{spec}:f32")
    a, b, out = program.buffers
    halves = replace(b, dtype="f16", constant=True)
    candidate = TILE if spec.startswith("matmul:33") else ROW
    check(replace(program, buffers=(a, halves, out)), replace(candidate, vec=vec))


@pytest.mark.parametrize("vec", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 33])
@pytest.mark.parametrize(("dtype", "zero"), [("i8", 0.0), ("u8", 131.0)])
def test_tables_of_bytes(rows: int, dtype: str, zero: float, vec: int) -> None:
    program = program_for(f"matmul_dot:{rows}x24x20:f32")
    a, b, out = program.buffers
    program = replace(program, buffers=(a, replace(b, constant=True), out))
    candidate = TILE if rows > 1 else ROW
    check(in_bytes(program, dtype, zero), replace(candidate, vec=vec))


@pytest.mark.parametrize("vec", [1, 2, 4])
@pytest.mark.parametrize("shape", ["33x17x9", "61x40x37", "64x64x64", "9x6x70", "70x1x50"])
def test_odd_shapes(shape: str, vec: int) -> None:
    check(program_for(f"matmul:{shape}:f32"), replace(TILE, vec=vec))


@pytest.mark.parametrize(
    "candidate",
    [
        GpuCandidate(8, 8, 1, 32, 32, 16),
        GpuCandidate(8, 4, 8, 64, 32, 8),
        GpuCandidate(4, 2, 2, 16, 16, 8),
        GpuCandidate(4, 1, 1, 32, 4, 16),
        GpuCandidate(2, 2, 1, 8, 8, 4),
        GpuCandidate(1, 1, 1, 4, 4, 4),
        GpuCandidate(4, 16, 2, 32, 32, 8),
        GpuCandidate(4, 4, 1, 64, 64, 8),  # a warp is 8 by 4 threads of the tile
    ],
)
def test_tiles(candidate: GpuCandidate) -> None:
    check(program_for("matmul:65x40x36:f32+bias+gelu"), candidate)


@pytest.mark.parametrize("split", [2, 3, 5, 64])
def test_a_split_need_not_divide_the_reduction(split: int) -> None:
    check(program_for("matmul:37x70x45:f32+bias+relu+residual"), replace(TILE, split=split))
    check(program_for("batch_matmul:3x20x70x28:f32"), replace(TILE, split=split))


@pytest.mark.parametrize(
    "spec",
    [
        "batch_matmul:5x20x24x28:f32",
        "batch_matmul_dot:5x20x24x28:f32",
        "batch_matmul_dot:5x19x23x21:f32",
        "matmul_dot:31x29x23:f32+bias",
        "matmul_var:40x37x52:f32+gelu",
    ],
)
def test_batches_and_transposed_operands(spec: str) -> None:
    check(program_for(spec), TILE)


@pytest.mark.parametrize("epilogue", ["none", "bias", "gelu", "heads"])
def test_strided_results(epilogue: str) -> None:
    check(dense(18, 20, 24, epilogue), TILE)
    check(dense(2, 20, 24, epilogue), ROW)


def test_many_workgroups_run_in_bands() -> None:
    program = program_for("matmul:256x16x256:f32")
    candidate = GpuCandidate(4, 4, 4, 16, 16, 8)
    document = from_template(program, candidate, "wgsl")
    assert document is not None and "let order" in document.dispatches[0].code
    check(program, candidate)


@pytest.mark.parametrize("m", [1, 3, 8])
@pytest.mark.parametrize("kind", ["matmul", "matmul_dot"])
@pytest.mark.parametrize("sizes", ["70x52", "37x33", "256x96"])
def test_few_rows(kind: str, sizes: str, m: int) -> None:
    program = program_for(f"{kind}:{m}x{sizes}:f32+bias")
    for candidate in (ROW, replace(ROW, x0=1, x1=8, split=3), replace(ROW, r0=8, vec=2)):
        check(program, candidate)


def test_few_rows_in_batches() -> None:
    for kind in ("batch_matmul", "batch_matmul_dot"):
        check(program_for(f"{kind}:6x3x64x40:f32"), ROW)
        check(program_for(f"{kind}:6x3x64x40:f32"), replace(ROW, split=4))


@pytest.mark.parametrize(
    "spec",
    [
        "matmul:40x48x24:f32+bias",
        "matmul:2x96x40:f32",
        "matmul_dot:1x80x24:f32",
    ],
)
def test_every_candidate_of_a_lite_space(spec: str) -> None:
    program = program_for(spec)
    workload = workload_for(program, subject_of(program))
    # Few registers make a small space of kernels that a processor compiles soon.
    gpu = replace(typical(""), registers_per_thread=44)
    candidates = gpu_candidates(gpu_problem(workload, gpu))
    assert 2 <= len(candidates) <= 60
    for candidate in candidates:
        check(program, candidate)


def test_an_untuned_product_takes_the_first_guess() -> None:
    program = program_for("matmul:64x32x48:f32")
    subject = subject_of(program)
    assert subject is not None and not is_matvec(subject)  # type: ignore[arg-type]
    guessed = guess(subject)  # type: ignore[arg-type]
    untuned, tuned = (compile_wgsl(program, c, "wgsl").data for c in (None, guessed))
    assert untuned == tuned
    inputs = {"in0": np.eye(64, 32, dtype=np.float32), "in1": np.ones((32, 48), np.float32)}
    expected = np.eye(64, 32) @ np.ones((32, 48))
    assert np.array_equal(run_program(program, untuned, inputs)["out0"], expected)


def test_infinities_behind_the_end_of_k_stay_where_they_are() -> None:
    """Tails read elements of other rows; those must not reach a sum, for 0 * inf is NaN."""
    program = program_for("matmul_var:20x9x20:f32")
    a = np.ones((20, 9), np.float32)
    a[7, 0] = a[3, 8] = np.inf
    document = compile_wgsl(program, TILE, "wgsl").data
    got = run_program(program, document, {"in0": a, "in1": np.ones((9, 20), np.float32)})["out0"]
    assert np.isinf(got[[3, 7]]).all()
    assert np.array_equal(np.delete(got, [3, 7], 0), np.full((18, 20), 9, np.float32))


@pytest.mark.parametrize(
    ("candidate", "word"),
    [
        (GpuCandidate(4, 4, 4, 256, 256, 16), "threads"),
        (GpuCandidate(6, 4, 4, 36, 16, 16), "vectors"),
        (Candidate(8, 6, 4, 8, 6, 768), "Wasm"),
    ],
)
def test_refuses(candidate: GpuCandidate | Candidate, word: str) -> None:
    with pytest.raises(CompileError, match=word):
        from_template(program_for("matmul:64x64x64:f32"), candidate, "wgsl")


def test_refuses_slices_that_do_not_halve() -> None:
    with pytest.raises(CompileError, match="slices"):
        from_template(program_for("matmul:1x64x64:f32"), replace(ROW, r1=24), "wgsl")


def test_more_buffers_than_a_device_must_have_go_to_the_default_schedule() -> None:
    program = program_for("matmul:16x8x16:f32" + "+residual" * 6)
    with pytest.raises(CompileError, match="9 buffers"):
        from_template(program, TILE, "wgsl")
    assert from_template(program, None, "wgsl") is None


def test_a_convolution_is_the_business_of_another_template() -> None:
    found = match(program_for("conv2d:1x4x8x8x4x3x3x1x1x1x1:f32"))
    assert found is not None and found.template.name == "conv2d"
