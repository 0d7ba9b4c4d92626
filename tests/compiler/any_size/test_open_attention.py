"""Attention as one kernel for any size, against the float64 reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import run_kernel
from matmul_programs import with_rounded_weights
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.kernels.compiled import Compiled, any_size_kernel
from nnjit_studio.compiler.ir.tensor_ir import VIRTUAL, Buffer, Program
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.model.size import Dim, Size, size
from nnjit_studio.records import TIERS

Sizes = Mapping[str, int]
At = Callable[[Sizes], Program]
UNSET = 0xCDCDCDCD
Q, K, B = Dim("q"), Dim("k"), Dim("b")


def made(at: At, extents: list[Size], *dims: Dim) -> Compiled:
    return any_size_kernel("attention", at, extents, dims)


def in_memory(
    at: At, compiled: Compiled, sizes: Sizes
) -> tuple[Program, dict[str, NDArray[np.float32]]]:
    """The program with as much workspace as the kernel says that it wants, and inputs."""
    bare = at(sizes)
    spaces = [replace(b, role=VIRTUAL) if b.role == "workspace" else b for b in bare.buffers]
    scores = Buffer("scores", "f32", (compiled.workspace.at(sizes) // 4,), "workspace")
    rng = np.random.default_rng(7)
    inputs = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in bare.buffers
        if b.role == "input"
    }
    return replace(bare, buffers=(*spaces, scores)), inputs


def check(at: At, compiled: Compiled, sizes: Sizes) -> None:
    """In both tiers, in one part and in three, as threads would run it."""
    program, inputs = in_memory(at, compiled, sizes)
    value, bound = evaluate_with_bound(at(sizes), inputs)["out0"]
    variant = compiled.kernel.at(sizes)
    extent, scalars = variant.extent.at(sizes), [s.at(sizes) for s in variant.scalars]
    for tier in TIERS:
        code = bytes_of(compiled, sizes, tier)
        for parts in (1, 3):
            got = run_kernel(program, code, extent, inputs, parts=parts, scalars=scalars)["out0"]
            assert (np.abs(got - value) <= bound + 1e-30).all(), (sizes, tier, parts)


def bytes_of(compiled: Compiled, sizes: Sizes, tier: str) -> bytes:
    workload = compiled.kernel.at(sizes).workload
    return next(k.data for k in compiled.code if (k.workload, k.tier) == (workload, tier))


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"transposed": True},
        {"mask": "keys", "joined": True},
        {"mask": "all", "guarded": True},
    ],
)
def test_queries_and_keys_of_one_length(form: dict[str, Any]) -> None:
    def at(sizes: Sizes) -> Program:
        return attention(3, sizes["q"], sizes["q"], 16, **form)

    compiled = made(at, [size(Q)], Q)
    for n in (1, 2, 3, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127):
        check(at, compiled, {"q": n})


@pytest.mark.parametrize("form", [{"joined": True}, {"mask": "all", "guarded": True}])
def test_keys_of_many_heads_are_turned(form: dict[str, Any]) -> None:
    """As many heads as two parts of each fill the parallel steps: fewer have their keys as they
    are."""

    def at(sizes: Sizes) -> Program:
        return attention(12, sizes["q"], sizes["q"], 16, **form)

    compiled = made(at, [size(Q)], Q)
    few = made(lambda sizes: attention(2, sizes["q"], sizes["q"], 16, **form), [size(Q)], Q)
    turned, scores = 16 * 104, 6 * (104 + 1)
    assert compiled.workspace.at({"q": 100}) == 24 * 4 * (turned + scores)
    assert few.workspace.at({"q": 100}) < 24 * 4 * turned
    for n in (1, 5, 6, 7, 8, 9, 13, 16, 20, 24, 31, 64):
        check(at, compiled, {"q": n})


@pytest.mark.parametrize("form", [{"mask": "all"}, {"transposed": True, "guarded": True}])
def test_queries_and_keys_of_two_lengths_and_a_batch(form: dict[str, Any]) -> None:
    def at(sizes: Sizes) -> Program:
        return attention(2 * sizes["b"], sizes["q"], sizes["k"], 32, **form)

    compiled = made(at, [size(B) * 2, size(Q), size(K)], B, Q, K)
    rng = random.Random(1)
    drawn = [(rng.randint(1, 3), rng.randint(1, 40), rng.randint(1, 60)) for _ in range(12)]
    for b, q, k in [(1, 1, 50), (2, 50, 1), (1, 5, 9), (3, 7, 3), *drawn]:
        check(at, compiled, {"b": b, "q": q, "k": k})


@pytest.mark.parametrize("queries", [1, 4])
def test_a_fixed_number_of_queries_needs_no_other_code(queries: int) -> None:
    def at(sizes: Sizes) -> Program:
        return attention(2, queries, sizes["k"], 16, mask="keys")

    compiled = made(at, [size(K)], K)
    assert len(compiled.kernel.variants) == 2
    for n in (1, 3, 4, 8, 21, 100, 511):
        check(at, compiled, {"k": n})


def test_weights_are_rounded_over_whole_rows() -> None:
    def at(sizes: Sizes) -> Program:
        return with_rounded_weights(attention(2, sizes["q"], sizes["q"], 16), 254.0)

    compiled = made(at, [size(Q)], Q)
    for n in (1, 4, 6, 13, 32, 47):
        check(at, compiled, {"q": n})


@pytest.mark.parametrize("queries", [1, 6, 7, 12, 13, 37, 197])
def test_no_two_threads_write_one_row(queries: int) -> None:
    def at(sizes: Sizes) -> Program:
        return attention(1, sizes["q"], 9, 16, mask="all")

    compiled = made(at, [size(Q)], Q)
    sizes = {"q": queries}
    program, inputs = in_memory(at, compiled, sizes)
    variant, code = compiled.kernel.at(sizes), bytes_of(compiled, sizes, "simd128")
    scalars = [s.at(sizes) for s in variant.scalars]
    rows = 0
    for part in range(variant.extent.at(sizes)):
        only = (part, part + 1)
        got = run_kernel(program, code, only[1], inputs, only=only, scalars=scalars)["out0"]
        rows += int((got.view(np.uint32) != UNSET).any(1).sum())
    assert rows == queries
