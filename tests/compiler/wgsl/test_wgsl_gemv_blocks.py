from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from wgsl_harness import has_f16, has_subgroups, run_document

from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument
from nnjit_studio.compiler.wgsl.core.row_source import Plain
from nnjit_studio.compiler.wgsl.templates.block_matrix import DECODINGS, F16, BlockMatrix
from nnjit_studio.compiler.wgsl.templates.gemv_blocks import Stored, gemv_blocks
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate

NAMES = {"words": "a0", "scales": "a1", "zeros": "a2", "source": "a3", "result": "a4"}


def document(dispatch: Dispatch) -> KernelDocument:
    bindings = tuple(NAMES[name] for name in dispatch.bindings)
    # naga cannot bitcast a word to two f16 (browsers can): spelt so it is the same value.
    code = re.sub(
        r"bitcast<vec2<f16>>\(([^()]*)\)", r"vec2<f16>(unpack2x16float(\1))", dispatch.code
    )
    return KernelDocument((Dispatch(code, dispatch.workgroups, bindings, dispatch.access),))


def error_of(
    k: int,
    n: int,
    candidate: GpuCandidate,
    *,
    rows: int = 1,
    half: bool = False,
    zeros: bool = False,
    subgroups: bool = False,
    decoding: str = "bits",
    block: int = 32,
) -> float:
    """Largest error over the largest value, against float64."""
    rng = np.random.default_rng(k + n)
    values = rng.integers(0, 16, (k, n)).astype(np.uint32)
    words = sum(values[j::8] << np.uint32(4 * j) for j in range(8))
    scales = rng.uniform(0.5, 1.5, (k // block, n)).astype(np.float16 if half else np.float32)
    points = rng.integers(0, 16, (k // block, n)).astype(np.uint8)
    x = rng.normal(size=(rows, k)).astype(np.float32)
    zero: Any = np.repeat(points.astype(np.float64), block, 0) if zeros else 8.0
    matrix = (values - zero) * np.repeat(scales.astype(np.float64), block, 0)
    reference = x.astype(np.float64) @ matrix
    stored = BlockMatrix(k, n, zeros="zeros" if zeros else "", half_scales=half, block=block)
    dispatch = gemv_blocks(
        stored,
        candidate,
        Plain("source", k, rows),
        Stored("result", n, rows),
        rows,
        subgroups,
        decoding,
    )
    arguments = [np.asarray(words).tobytes(), scales.tobytes(), points.tobytes(), x.tobytes()]
    got = run_document(document(dispatch), [*arguments, 4 * rows * n])[4]
    y = np.frombuffer(got, np.float32).reshape(rows, n)
    return float(np.max(np.abs(y - reference)) / np.max(np.abs(reference)))


def candidate(columns: int, depth: int, unroll: int = 2, rows: int = 1) -> GpuCandidate:
    return GpuCandidate(4, rows, unroll, columns, rows, depth)


@pytest.fixture(params=[False, True], ids=["memory", "subgroups"])
def subgroups(request: pytest.FixtureRequest) -> bool:
    if request.param and not has_subgroups():
        pytest.skip("this adapter has no subgroups")
    return bool(request.param)


@pytest.mark.parametrize("decoding", DECODINGS)
def test_tails_of_columns_and_of_depth(decoding: str, subgroups: bool) -> None:
    found = error_of(1376, 100, candidate(16, 256, 4), decoding=decoding, subgroups=subgroups)
    assert found < 1e-6


@pytest.mark.parametrize("decoding", DECODINGS)
@pytest.mark.parametrize("half", [False, True])
def test_zero_points_and_scales(decoding: str, half: bool, subgroups: bool) -> None:
    how = {"zeros": True, "half": half, "decoding": decoding, "subgroups": subgroups}
    assert error_of(512, 64, candidate(32, 256), **how) < 1e-6


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_products_in_f16(zeros: bool, rows: int, subgroups: bool) -> None:
    if not has_f16():
        pytest.skip("this adapter has no shader-f16")
    how = {"rows": rows, "zeros": zeros, "subgroups": subgroups, "decoding": F16}
    error = error_of(512, 64, candidate(32, 128, 2, rows), **how)
    assert 1e-5 < error < 2e-3


@pytest.mark.parametrize(
    ("rows", "together", "block"), [(3, 3, 32), (6, 2, 16), (4, 1, 64)], ids=str
)
def test_rows_share_decoded_words(rows: int, together: int, block: int, subgroups: bool) -> None:
    setting = candidate(16, 128, 8, together)
    assert error_of(512, 64, setting, rows=rows, block=block, subgroups=subgroups) < 1e-6


def test_a_matrix_smaller_than_a_workgroup(subgroups: bool) -> None:
    assert error_of(32, 4, candidate(32, 128), subgroups=subgroups) < 1e-6


@pytest.mark.parametrize(
    ("matrix", "wrong"),
    [
        (BlockMatrix(64, 30), candidate(32, 64)),
        (BlockMatrix(80, 32), candidate(32, 64)),
        (BlockMatrix(64, 32), candidate(24, 64)),
        (BlockMatrix(64, 32), candidate(32, 64, 2, 2)),
        (BlockMatrix(64, 32), GpuCandidate(8, 1, 2, 32, 1, 64)),
    ],
    ids=["columns", "blocks", "power of two", "rows", "x0"],
)
def test_what_does_not_fit_is_told(matrix: BlockMatrix, wrong: GpuCandidate) -> None:
    with pytest.raises(CompileError, match="does not fit"):
        gemv_blocks(matrix, wrong, Plain("source", matrix.k), Stored("result", matrix.n))
