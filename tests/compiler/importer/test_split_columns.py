"""Products whose readers take heads write the heads one behind the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_harness import run_kernel
from matmul_programs import dense
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from test_fold_views import HEADS, SEQUENCE, attention
from test_importer import check_against_onnxruntime

from nnjit_studio.compiler.oracle.fixture import STORAGE, make_fixture
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.attention import recognize_attention
from nnjit_studio.errors import CompileError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.lite_space import build_lite_space

SIZE = 16


def test_heads_of_sixteen_columns_stand_apart(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((1, SEQUENCE, HEADS * SIZE)).astype(np.float32)
    built = check_against_onnxruntime(attention(tmp_path / "a.onnx", size=SIZE), {"x": x})
    product = next(w for w in built.workloads if w.dims == (3 * HEADS, SEQUENCE, 48, SIZE))
    assert product.kind == "batch_matmul" and product.key in built.packable
    (weight,) = (b for b in built.plan.buffers if b.pack == (48, 144))
    assert weight.region == "weight"
    joined = next(w for w in built.workloads if w.kind == "attention")
    found = recognize_attention(built.programs[joined.key])
    assert found is not None
    assert (found.scores.a.row, found.scores.b.column) == (SIZE, SIZE)
    tensor = built.graph.tensors["q0|k0|v0"]
    assert tensor.shape == (3 * HEADS, SEQUENCE, SIZE)


def four_bit_attention(path: Path, zeros: bool) -> Path:
    """As :func:`attention`, of heads of sixteen columns."""
    model = onnx.load(attention(path, size=SIZE))
    quantizer = MatMulNBitsQuantizer(model, block_size=16, is_symmetric=not zeros)
    quantizer.process()
    onnx.save(quantizer.model.model, path)
    return path


@pytest.mark.parametrize("zeros", [False, True])
def test_heads_of_4_bit_products_stand_apart(tmp_path: Path, zeros: bool) -> None:
    """One merged product, each of whose heads has its own panels of words."""
    path = four_bit_attention(tmp_path / "a.onnx", zeros)
    x = np.random.default_rng(3).standard_normal((1, SEQUENCE, HEADS * SIZE)).astype(np.float32)
    built = check_against_onnxruntime(path, {"x": x})
    product = next(w for w in built.workloads if w.dims == (3 * HEADS, SEQUENCE, 48, SIZE))
    assert product.kind == "matmul_4bit" and product.key in built.packable
    assert (6, 144) in {b.pack for b in built.plan.buffers}
    joined = next(w for w in built.workloads if w.kind == "attention")
    found = recognize_attention(built.programs[joined.key])
    assert found is not None and (found.scores.a.row, found.scores.b.column) == (SIZE, SIZE)
    program = built.programs[product.key]
    held = zip(program.buffers, make_fixture(product.key, program).args, strict=True)
    arrays = {
        b.name: np.frombuffer(arg.data, STORAGE[b.dtype]) for b, arg in held if arg.data is not None
    }
    for entry in build_lite_space(product, DeviceProfile("test", "test"), True).entries[::3]:
        for tier in ("simd128", "relaxed-simd"):
            made = compile_program(program, entry.candidate, tier)
            call = program, made.data, made.parallel_extent, arrays, made.panels
            got = run_kernel(*call, parts=3)
            for name, (value, bound) in evaluate_with_bound(program, arrays).items():
                assert (np.abs(got[name] - value) <= bound).all(), (entry.candidate, tier)


def test_heads_that_no_panel_fits_stay_side_by_side(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((1, SEQUENCE, HEADS * 8)).astype(np.float32)
    built = check_against_onnxruntime(attention(tmp_path / "a.onnx"), {"x": x})
    assert (10, 24, 72) in {w.dims for w in built.workloads}


@pytest.mark.parametrize("order", ["nm", "mn"])
@pytest.mark.parametrize(("rows", "k"), [(13, 7), (6, 16)])
def test_panels_of_a_batch_are_its_own(rows: int, k: int, order: str) -> None:
    program = dense(rows, k, 12, "heads")
    rng = np.random.default_rng(5)
    arrays = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }
    candidate = Candidate(4, 3, 2, 4, 3, k, order, True)
    made = compile_program(program, candidate, "relaxed-simd")
    assert [width for _, width in made.panels] == [4]
    got = run_kernel(program, made.data, made.parallel_extent, arrays, made.panels, parts=3)["out"]
    value, bound = evaluate_with_bound(program, arrays)["out"]
    assert np.all(np.abs(got - value.reshape(got.shape)) <= bound.reshape(got.shape) + 1e-6)


def test_a_panel_across_two_batches_is_refused() -> None:
    with pytest.raises(CompileError, match="across the 4 columns"):
        compile_program(
            dense(13, 7, 16, "heads"), Candidate(8, 3, 2, 8, 3, 7, "nm", True), "relaxed-simd"
        )


def test_the_lite_space_has_no_such_panel(tmp_path: Path) -> None:
    built = check_against_onnxruntime(
        attention(tmp_path / "a.onnx", size=SIZE),
        {"x": np.ones((1, SEQUENCE, HEADS * SIZE), np.float32)},
    )
    product = next(w for w in built.workloads if w.dims[0] == 3 * HEADS and w.tunable)
    entries = build_lite_space(product, DeviceProfile("d", "t"), True).entries
    assert entries and all(SIZE % e.candidate.x0 == 0 for e in entries)
