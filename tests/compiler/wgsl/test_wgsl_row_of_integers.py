"""The row's product by integers against float64, on wgpu-native."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_wgsl_gemv_blocks import document
from wgsl_harness import has_subgroups, run_document

from nnjit_studio.compiler.wgsl.core.row_source import Plain
from nnjit_studio.compiler.wgsl.templates.block_matrix import BlockMatrix
from nnjit_studio.compiler.wgsl.templates.gemv_blocks import Stored, threads_of
from nnjit_studio.compiler.wgsl.templates.matmul_blocks import row_guess
from nnjit_studio.compiler.wgsl.templates.row_of_integers import row_of_integers
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import DEFAULT_LIMITS, GpuProfile
from nnjit_studio.space.webgpu.matmul_blocks import EIGHTS, IN_GROUPS, block_problem


@pytest.fixture(autouse=True)
def subgroups() -> None:
    """Asked for here: a device takes longer than to collect the tests of a room."""
    if not has_subgroups():
        pytest.skip("this adapter has no subgroups")


def candidate(columns: int, depth: int, words: int = 4, eights: int = 1) -> GpuCandidate:
    return GpuCandidate(4, 1, words, columns, eights, depth, vec=1)


def product_of(
    row: np.ndarray,
    n: int,
    c: GpuCandidate,
    half: bool = False,
    points: bool = False,
    block: int = 32,
    least: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """The kernel's sums, and those of float64; ``least`` is the smallest value of the matrix."""
    k = row.size
    rng = np.random.default_rng(k + n)
    values = rng.integers(least, 16, (k, n)).astype(np.uint32)
    words = np.add.reduce([values[j::8] << np.uint32(4 * j) for j in range(8)], dtype=np.uint32)
    scales = rng.uniform(0.5, 1.5, (k // block, n)).astype(np.float16 if half else np.float32)
    zeros = rng.integers(0, 16, (k // block, n)).astype(np.uint8)
    zero = np.repeat(zeros.astype(np.float64), block, 0) if points else np.float64(8)
    exact = row.astype(np.float64) @ ((values - zero) * np.repeat(scales, block, 0))
    stored = BlockMatrix(k, n, zeros="zeros" if points else "", half_scales=half, block=block)
    made = row_of_integers(stored, c, Plain("source", k), Stored("result", n))
    arguments = [words.tobytes(), scales.tobytes(), zeros.tobytes(), row.tobytes(), 4 * n]
    return np.frombuffer(run_document(document(made), arguments)[4], np.float32), exact


def error_of(row: np.ndarray, n: int, c: GpuCandidate, **how: bool | int) -> float:
    """Largest error over the largest value."""
    got, exact = product_of(row, n, c, **how)  # type: ignore[arg-type]
    return float(np.max(np.abs(got - exact)) / np.max(np.abs(exact)))


def drawn(k: int) -> np.ndarray:
    return np.random.default_rng(k).normal(size=k).astype(np.float32)


@pytest.mark.parametrize(
    "c", [candidate(32, 256), candidate(64, 128, 8), candidate(16, 512, 8, 4)], ids=str
)
def test_as_exact_as_floats(c: GpuCandidate) -> None:
    """Ends of columns, of a chunk of k, and of a turn; a row shorter than a workgroup."""
    for k in (32, 1376, 4096):
        assert error_of(drawn(k), 100, c) < 5e-7


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("block", [32, 128])
def test_zero_points_and_scales(half: bool, block: int) -> None:
    found = error_of(drawn(1024), 64, candidate(32, 256, 8), half=half, points=True, block=block)
    assert found < 5e-7


def test_groups_of_zeros_and_of_very_different_sizes() -> None:
    row = drawn(512) * np.repeat(np.float32(10) ** np.arange(-8, 8, dtype=np.float32), 32)
    row[64:128] = 0
    assert error_of(row, 64, candidate(32, 256)) < 1e-6
    got, _ = product_of(np.zeros(512, np.float32), 64, candidate(32, 256))
    assert not got.any()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_largest_sum_of_a_group_fits_in_an_integer(sign: float) -> None:
    row = np.full(64, sign, np.float32)
    for points in (False, True):
        assert error_of(row, 64, candidate(32, 64), least=15, points=points) < 5e-7


def test_random_rows_against_float64() -> None:
    """What the first guesses and the space have, on ends of columns, of k and of blocks."""
    rng = np.random.default_rng(22)
    for case in range(8):
        block = 32 << int(rng.integers(4))
        k, n = block * int(rng.integers(1, 12)), 4 * int(rng.integers(1, 40))
        words, eights = int(rng.choice(IN_GROUPS)), int(rng.choice(EIGHTS))
        columns = max(4, 4 * words // eights) << int(rng.integers(3))
        threads = max(columns // 4, 32 << int(rng.integers(4)))
        c = candidate(columns, 32 * threads // columns, words, eights)
        sizes = 10.0 ** rng.uniform(-6, 6, k // 32 if case % 2 else 1)
        row = drawn(k) * np.repeat(sizes, k // sizes.size).astype(np.float32)
        half, points = bool(rng.integers(2)), bool(rng.integers(2))
        found = error_of(row, n, c, half=half, points=points, block=block)
        assert found < 1e-6, (c, k, n, block, half, points)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_not_lost(wrong: float) -> None:
    row = drawn(512)
    row[77] = wrong
    with np.errstate(invalid="ignore"):
        got, _ = product_of(row, 64, candidate(32, 64))
    assert not np.isfinite(got).any()


@pytest.mark.parametrize(
    ("matrix", "wrong"),
    [
        (BlockMatrix(64, 32, block=16), candidate(32, 64)),
        (BlockMatrix(64, 30), candidate(32, 64)),
        (BlockMatrix(64, 32), candidate(16, 128, 8)),
        (BlockMatrix(64, 32), candidate(16, 128, 4, 3)),
        (BlockMatrix(64, 32), candidate(32, 16)),
        (BlockMatrix(64, 32), GpuCandidate(4, 1, 4, 32, 1, 64)),
    ],
    ids=["blocks", "columns", "words", "eights", "threads", "floats"],
)
def test_what_does_not_fit_is_told(matrix: BlockMatrix, wrong: GpuCandidate) -> None:
    with pytest.raises(CompileError, match="does not fit"):
        row_of_integers(matrix, wrong, Plain("source", matrix.k), Stored("result", matrix.n))


@pytest.mark.parametrize(
    ("k", "n"), [(4096, 4096), (11008, 4096), (4096, 12288), (4096, 22016), (896, 1152)]
)
def test_a_first_guess_fits_any_device(k: int, n: int) -> None:
    guess = row_guess(k, n)
    assert threads_of(guess) <= DEFAULT_LIMITS["maxComputeInvocationsPerWorkgroup"]
    made = row_of_integers(BlockMatrix(k, n), guess, Plain("source", k), Stored("result", n))
    nbytes = {"u32": 4, "i32": 4, "f32": 4, "vec2<u32>": 8, "vec4<f32>": 16}
    found = re.findall(r"var<workgroup> \w+: array<([^ ]+), (\d+)>", made.code)
    used = sum(nbytes[kind] * int(count) for kind, count in found)
    told = block_problem(Workload("matmul_4bit", (1, k, n), "f32"), GpuProfile())
    limit = DEFAULT_LIMITS["maxComputeWorkgroupStorageSize"]
    assert made.code.count("var<workgroup>") == len(found) and used <= told.shared_bytes(guess)
    assert told.shared_bytes(guess) <= limit
