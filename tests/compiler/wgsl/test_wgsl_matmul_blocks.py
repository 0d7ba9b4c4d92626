"""Models with MatMulNBits through the importer, on wgpu-native."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import test_fold_views
from block_products import block_product
from run_plan_wgsl import run_by_documents
from test_quantised import block_model, exact_session
from test_split_columns import SIZE, four_bit_attention
from wgsl_harness import run_program

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.ir.affine import rewrite
from nnjit_studio.compiler.ir.tensor_ir import Expr, Load, Var
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.templates import on_gpu, subject_of
from nnjit_studio.compiler.wgsl.templates.gemv_blocks import threads_of
from nnjit_studio.compiler.wgsl.templates.matmul_blocks import guess
from nnjit_studio.errors import CompileError
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate

SHAPES = [
    ([1, 64], 24, 32),
    ([1, 512], 132, 32),
    ([2, 3, 48], 12, 16),
    ([7, 128], 20, 64),
    ([37, 128], 36, 32),
    ([33, 2064], 68, 16),
    ([1, 64], 21, 32),
]


@pytest.mark.parametrize("tier", GPU_TIERS)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("shape", "n", "block"), SHAPES, ids=str)
def test_a_model_untuned(
    tmp_path: Path, shape: list[int], n: int, block: int, zeros: bool, tier: str
) -> None:
    _check_untuned(tmp_path, shape, n, block, zeros, tier)


@pytest.mark.parametrize("tier", GPU_TIERS)
@pytest.mark.parametrize(("shape", "n", "block"), [SHAPES[1], SHAPES[2], SHAPES[4]], ids=str)
def test_a_model_of_8_bits_untuned(
    tmp_path: Path, shape: list[int], n: int, block: int, tier: str
) -> None:
    _check_untuned(tmp_path, shape, n, block, tier == "wgsl", tier, 8)


def _check_untuned(
    tmp_path: Path, shape: list[int], n: int, block: int, zeros: bool, tier: str, bits: int = 4
) -> None:
    file = tmp_path / "w.bin"
    _, feeds, exact = block_model(tmp_path / "m.onnx", shape, n, block, zeros, bits)
    built = import_model(tmp_path / "m.onnx", file)
    got = run_by_documents(built, file, feeds, tier)["y"]
    np.testing.assert_allclose(got, exact, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "candidate"),
    [
        (1, GpuCandidate(4, 1, 4, 16, 1, 128)),
        (1, GpuCandidate(4, 1, 8, 16, 2, 128, vec=1)),
        (6, GpuCandidate(4, 3, 2, 32, 3, 64)),
        (24, GpuCandidate(8, 8, 1, 64, 16, 32)),
        (24, GpuCandidate(4, 4, 1, 16, 32, 32)),
        (24, GpuCandidate(4, 8, 8, 64, 64, 8, 2)),
        (24, GpuCandidate(4, 2, 4, 64, 8, 16, 3)),
        (70, GpuCandidate(8, 4, 16, 128, 64, 16, 4)),
    ],
    ids=str,
)
@pytest.mark.parametrize("tier", GPU_TIERS)
def test_candidates(tmp_path: Path, rows: int, candidate: GpuCandidate, tier: str) -> None:
    _, feeds, exact = block_model(tmp_path / "m.onnx", [rows, 256], 72, 32, True)
    got = product_of(tmp_path / "m.onnx", feeds, candidate, tier)
    np.testing.assert_allclose(got, exact, atol=1e-4)


@pytest.mark.parametrize(("rows", "tier"), [(5, "wgsl-subgroups"), (10, "wgsl")])
def test_heads_that_stand_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, tier: str
) -> None:
    """By few rows and by tiles."""
    monkeypatch.setattr(test_fold_views, "SEQUENCE", rows)
    path, file = four_bit_attention(tmp_path / "m.onnx", True), tmp_path / "w.bin"
    built = import_model(path, file)
    width = test_fold_views.HEADS * SIZE
    (kind,) = [w.kind for w in built.workloads if w.dims == (9, rows, width, SIZE)]
    assert kind == "matmul_4bit"
    feeds = {"x": np.random.default_rng(3).standard_normal((1, rows, width)).astype(np.float32)}
    (expected,) = exact_session(onnx.load(path)).run(None, feeds)
    got = run_by_documents(built, file, feeds, tier)["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [5, 10])
def test_rows_of_a_batch_are_not_taken_for_those_of_all_heads(rows: int) -> None:
    program = block_product(rows, 64, 96, 32, heads=3)
    (stage,) = program.stages
    total = stage.body[0]
    own = rewrite(
        total.value,
        lambda e: replace(e, index=Var("i1") * (rows * 64) + e.index) if of_rows(e) else None,
    )
    buffers = (replace(program.buffers[0], shape=(3, rows, 64)), *program.buffers[1:])
    stage = replace(stage, body=(replace(total, value=own),))
    program = replace(program, buffers=buffers, stages=(stage,))
    assert isinstance(subject_of(program), Quantised) and not on_gpu(program)


def of_rows(expr: Expr) -> bool:
    return isinstance(expr, Load) and expr.buffer == "a"


def product_of(
    path: Path, feeds: dict[str, np.ndarray], candidate: GpuCandidate, tier: str
) -> np.ndarray:
    """The model's product by a kernel of this candidate; equal settings give equal bytes."""
    built = import_model(path, file := path.with_suffix(".bin"))
    (program,) = [p for p in built.programs.values() if isinstance(subject_of(p), Quantised)]
    blob = np.fromfile(file, np.uint8)
    step = built.plan.steps[0]
    kinds = {"i32": np.int32, "f32": np.float32, "u8": np.uint8}
    inputs = {}
    for b, index in zip(program.buffers, step.args, strict=True):
        stored = built.plan.buffers[index]
        if stored.region == "weight":
            whole = blob[stored.offset : stored.offset + stored.nbytes].view(kinds[b.dtype])
            inputs[b.name] = whole[: int(np.prod(b.shape))].reshape(b.shape)
        elif b.role == "input":
            inputs[b.name] = feeds["x"]
    data = compile_wgsl(program, candidate, tier).data
    (got,) = run_program(program, data, inputs).values()
    assert compile_wgsl(program, candidate, tier).data == data
    return np.asarray(got)


def test_random_tiles_against_float64(tmp_path: Path) -> None:
    """Ends of rows, columns and k, uneven parts of k, one thread and several to a word."""
    rng = np.random.default_rng(15)
    for case in range(12):
        block = int(rng.choice([16, 32, 64]))
        k, n = block * int(rng.integers(1, 9)), 4 * int(rng.integers(1, 30))
        rows, zeros = int(rng.integers(9, 80)), bool(rng.integers(2))
        x0, y0, r1 = (int(rng.choice(of)) for of in ([4, 8], [2, 4, 8], [8, 16, 32]))
        across, down = int(rng.choice([4, 8])), int(rng.choice([4, 8]))
        split = min(int(rng.choice([1, 2, 3, 4])), max(1, k // r1))
        c = GpuCandidate(x0, y0, r1, x0 * across, y0 * down, r1, split)
        _, feeds, exact = block_model(tmp_path / f"{case}.onnx", [rows, k], n, block, zeros)
        got = product_of(tmp_path / f"{case}.onnx", feeds, c, GPU_TIERS[-1])
        largest = np.max(np.abs(exact))
        assert np.max(np.abs(got - exact)) < 2e-6 * largest, (c, rows, k, n, block, zeros)


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    block_model(tmp_path / "m.onnx", [1, 64], 32, 32, False)
    built = import_model(tmp_path / "m.onnx", tmp_path / "w.bin")
    (program,) = [p for p in built.programs.values() if isinstance(subject_of(p), Quantised)]
    with pytest.raises(CompileError, match="does not fit"):
        compile_wgsl(program, GpuCandidate(8, 1, 1, 32, 1, 64), "wgsl")
    block_model(tmp_path / "many.onnx", [24, 64], 32, 32, False)
    built = import_model(tmp_path / "many.onnx", tmp_path / "many.bin")
    (many,) = [p for p in built.programs.values() if isinstance(subject_of(p), Quantised)]
    for wrong in (GpuCandidate(4, 4, 4, 32, 32, 4), GpuCandidate(2, 4, 8, 32, 32, 8)):
        with pytest.raises(CompileError, match="does not fit"):
            compile_wgsl(many, wrong, "wgsl")
    with pytest.raises(CompileError, match="Wasm"):
        compile_wgsl(program, Candidate(4, 1, 1, 4, 1, 64), "wgsl")


def test_a_large_row_untuned_has_enough_bytes_under_way(tmp_path: Path) -> None:
    """As many as 4 TB/s bring in half a microsecond, by workgroups that any device runs."""
    block_model(tmp_path / "m.onnx", [1, 64], 24, 32, False)
    built = import_model(tmp_path / "m.onnx", tmp_path / "w.bin")
    (found,) = filter(None, map(subject_of, built.programs.values()))
    assert isinstance(found, Quantised)
    side = 4096
    c = guess(replace(found, contraction=replace(found.contraction, k=side, n=side)))
    assert threads_of(c) <= 256
    assert side // c.x1 * threads_of(c) * c.r0 * 16 >= 2e6
