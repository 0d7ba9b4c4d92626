"""Attention as one kernel for any size, against the float64 reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import run_kernel

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
LENGTHS = (1, 2, 3, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127)


def made(at: At, extents: list[Size], *dims: Dim) -> Compiled:
    return any_size_kernel("attention", at, extents, dims)


def check(at: At, compiled: Compiled, sizes: Sizes) -> None:
    """In both tiers, in one part and in three, as threads would run it."""
    bare = at(sizes)
    spaces = [replace(b, role=VIRTUAL) if b.role == "workspace" else b for b in bare.buffers]
    scores = Buffer("scores", "f32", (compiled.workspace.at(sizes) // 4,), "workspace")
    program = replace(bare, buffers=(*spaces, scores))
    rng = np.random.default_rng(7)
    inputs = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }
    value, bound = evaluate_with_bound(bare, inputs)["out0"]
    variant = compiled.kernel.at(sizes)
    extent, scalars = variant.extent.at(sizes), [s.at(sizes) for s in variant.scalars]
    for tier in TIERS:
        code = next(
            k.data for k in compiled.code if (k.workload, k.tier) == (variant.workload, tier)
        )
        for parts in (1, 3):
            got = run_kernel(program, code, extent, inputs, parts=parts, scalars=scalars)["out0"]
            assert (np.abs(got - value) <= bound + 1e-30).all(), (sizes, tier, parts)


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
    for n in LENGTHS:
        check(at, compiled, {"q": n})
