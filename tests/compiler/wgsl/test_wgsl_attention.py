"""Attention in one WGSL kernel, run on wgpu-native and checked against float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matmul_programs import with_rounded_weights
from numpy.typing import NDArray
from wgsl_harness import run_document

from nnjit_studio.compiler.importer.program.views import stored_as
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.pipeline.wgsl import from_template
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.compiler.recognize.attention import recognize_attention
from nnjit_studio.compiler.wgsl.templates.attention.document import guess
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import DEFAULT_LIMITS
from nnjit_studio.space.webgpu.attention import AttentionRow

TILE = GpuCandidate(4, 1, 1, 16, 8, 1)
ROW = GpuCandidate(2, 1, 1, 16, 1, 1)
NEAR = 2e-6
"""Of the largest result, for inputs of a normal distribution: sums of a hundred terms in f32."""

Arrays = dict[str, NDArray[Any]]


def drawn(program: Program) -> Arrays:
    rng = np.random.default_rng(7)
    inputs = [b for b in program.buffers if b.role == "input"]
    dtypes = {"f32": np.float32, "f16": np.float16}
    return {b.name: rng.standard_normal(b.shape).astype(dtypes[b.dtype]) for b in inputs}


def computed(
    program: Program, candidate: GpuCandidate | None, given: Arrays
) -> NDArray[np.float32]:
    document = from_template(program, candidate, "wgsl")
    assert document is not None
    arguments: list[bytes | int] = []
    for b in program.buffers:
        arguments.append(
            given[b.name].tobytes() if b.role == "input" else 4 * int(np.prod(b.shape))
        )
    after = run_document(document, arguments)
    (place,) = (i for i, b in enumerate(program.buffers) if b.role == "output")
    return np.frombuffer(after[place], np.float32)


def check(program: Program, candidate: GpuCandidate | None = None) -> None:
    given = drawn(program)
    exact = evaluate(program, given)["out0"].ravel()
    error = np.abs(computed(program, candidate, given) - exact).max()
    assert error <= NEAR * np.abs(exact).max()


@pytest.mark.parametrize(("depth", "x1"), [(32, 16), (64, 32), (80, 16), (128, 64)])
def test_every_width_of_a_head_with_tails_of_queries_and_keys(depth: int, x1: int) -> None:
    check(attention(2, 13, 21, depth, mask="all", joined=True), replace(TILE, x1=x1))


def test_untuned_settings() -> None:
    check(attention(2, 13, 21, 48, mask="keys"))
    check(attention(2, 1, 64, 32))
    check(attention(4, 1, 150, 128, mask="all"))


@pytest.mark.parametrize(
    ("heads", "keys", "parts"), [(32, 520, 6), (32, 100, 4), (4, 20, 1), (64, 520, 4), (512, 99, 1)]
)
def test_an_untuned_query_is_read_in_parts_until_there_are_many_workgroups(
    heads: int, keys: int, parts: int
) -> None:
    subject = recognize_attention(attention(heads, 1, keys, 128))
    assert subject is not None and guess(subject).split == parts


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("queries", [1, 7])
@pytest.mark.parametrize("depth", [16, 80, 128])
def test_few_untuned_queries_fit_any_device(depth: int, queries: int, transposed: bool) -> None:
    for heads, keys in ((2, 20), (32, 392), (512, 1024), (1, 4096)):
        subject = recognize_attention(attention(heads, queries, keys, depth, transposed=transposed))
        assert subject is not None
        made = guess(subject)
        row = AttentionRow(depth, keys, made, transposed)
        assert row.shared_bytes <= DEFAULT_LIMITS["maxComputeWorkgroupStorageSize"]
        assert row.threads <= DEFAULT_LIMITS["maxComputeInvocationsPerWorkgroup"]


def test_few_keys_that_lie_side_by_side_take_one_dispatch() -> None:
    program = stored_as(attention(2, 7, 264, 64, transposed=True, mask="keys"), "in1", "f16")
    document = from_template(program, None, "wgsl")
    assert document is not None and len(document.dispatches) == 1
    check(program)


@pytest.mark.parametrize(
    "candidate",
    [
        GpuCandidate(4, 8, 1, 16, 16, 1),  # two vectors of rows, nothing fetched ahead
        GpuCandidate(8, 2, 1, 32, 8, 1, split=3, vec=1),
    ],
)
def test_tiles(candidate: GpuCandidate) -> None:
    check(attention(3, 37, 50, 32, mask="all", guarded=True), candidate)


@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize("depth", [64, 80])
def test_one_query(depth: int, split: int) -> None:
    candidate = GpuCandidate(2, 1, 1, 16, 1, 1, split)
    check(attention(3, 1, 75, depth, mask="keys", guarded=True), candidate)


@pytest.mark.parametrize(
    "candidate", [None, TILE, GpuCandidate(4, 8, 1, 16, 16, 1), GpuCandidate(8, 2, 1, 32, 8, 1)]
)
def test_rounded_weights(candidate: GpuCandidate | None) -> None:
    program = with_rounded_weights(attention(3, 37, 50, 32, mask="all"), 254.0)
    given = drawn(program)
    exact = evaluate(program, given)["out0"].ravel()
    off = np.abs(computed(program, candidate, given) - exact)
    largest = np.abs(given["in2"]).max()
    # A weight next to a half may be rounded the other way: one step of one value of V.
    assert off.max() <= 1.01 * largest and np.mean(off > NEAR * np.abs(exact).max()) < 0.01


@pytest.mark.parametrize("queries", [3, 13])
def test_rounded_weights_are_not_read_in_parts_or_by_query(queries: int) -> None:
    program = with_rounded_weights(attention(2, queries, 21, 32), 254.0)
    with pytest.raises(CompileError, match="whole row"):
        from_template(program, replace(TILE, split=2), "wgsl")
    with pytest.raises(CompileError, match="made by tiles"):
        from_template(program, ROW, "wgsl")
    assert from_template(program, None, "wgsl") is not None


def test_keys_that_lie_side_by_side() -> None:
    check(attention(2, 9, 20, 32, transposed=True), TILE)
    check(attention(2, 1, 37, 32, transposed=True, mask="keys"), ROW)
    check(attention(2, 1, 40, 32, transposed=True), replace(ROW, x0=4, x1=32, split=2))


@pytest.mark.parametrize(
    ("queries", "keys", "transposed", "candidate"),
    [
        (1, 37, True, ROW),
        (1, 40, True, replace(ROW, x0=4, x1=32, split=2)),
        (1, 75, False, replace(ROW, split=3)),
        (2, 40, True, None),
        (7, 40, True, replace(ROW, x0=4, x1=32)),
        (3, 44, True, replace(ROW, split=2)),
        (5, 21, False, replace(ROW, split=2)),
        (9, 21, False, replace(TILE, vec=1)),
    ],
)
def test_keys_and_values_in_f16(
    queries: int, keys: int, transposed: bool, candidate: GpuCandidate | None
) -> None:
    program = attention(2, queries, keys, 32, transposed=transposed)
    check(stored_as(stored_as(program, "in1", "f16"), "in2", "f16"), candidate)


@pytest.mark.parametrize(("queries", "candidate"), [(6, TILE), (1, ROW)])
def test_what_is_masked_has_no_part_and_a_row_without_keys_is_zero(
    queries: int, candidate: GpuCandidate
) -> None:
    program = attention(2, queries, 21, 32, mask="all", guarded=True)
    given = drawn(program)
    given["in3"] = np.where(np.arange(21) < 5, 0.0, -np.inf).astype(np.float32)
    given["in3"] = np.tile(given["in3"], (queries, 1))
    given["in3"][-1] = -np.inf
    given["in2"][:, 5:] *= 1e30  # a weight that is not quite zero would show
    got = computed(program, candidate, given).reshape(queries, -1)
    exact = evaluate(program, given)["out0"]
    assert np.all(got[-1] == 0)
    assert np.allclose(got, exact, atol=1e-5)


@pytest.mark.parametrize(("queries", "candidate"), [(6, TILE), (1, ROW)])
def test_scores_far_apart_and_a_hidden_number_that_is_none(
    queries: int, candidate: GpuCandidate
) -> None:
    program = attention(2, queries, 21, 32)
    given = drawn(program)
    given["in0"] *= 300  # exponentials of thousands, were the largest not taken away
    exact = evaluate(program, given)["out0"]
    got = computed(program, candidate, given).reshape(exact.shape)
    assert np.isfinite(got).all() and np.abs(got - exact).max() < 1e-2
    given["in1"][1, 20, 3] = np.nan
    got = computed(program, candidate, given).reshape(exact.shape)
    assert np.isnan(got[:, 32:]).all() and np.isfinite(got[:, :32]).all()


def test_candidates_that_do_not_fit_are_refused() -> None:
    tiles, row = attention(2, 9, 20, 48), attention(2, 1, 20, 128)
    with pytest.raises(CompileError, match="not made by tiles"):
        from_template(tiles, GpuCandidate(4, 2, 1, 32, 8, 1), "wgsl")
    for candidate in (GpuCandidate(2, 2, 1, 16, 2, 1), GpuCandidate(1, 1, 1, 2, 1, 1)):
        with pytest.raises(CompileError, match="not made by"):
            from_template(row, candidate, "wgsl")


@pytest.mark.parametrize("depth", [24, 144])
def test_heads_without_a_kernel_are_no_attention(depth: int) -> None:
    assert recognize_attention(attention(2, 9, 20, depth)) is None
