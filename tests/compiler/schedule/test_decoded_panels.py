"""Panels of halves that are widened once for all rows of A."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import run_kernel
from matmul_programs import dense, in_halves

from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.schedule.decoded_panels import PANELS
from nnjit_studio.compiler.templates import prepared
from nnjit_studio.records.candidate import Candidate


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize(("m", "k", "n"), [(13, 24, 30), (37, 19, 8), (9, 32, 250), (2, 6, 5)])
def test_products_with_halves(m: int, k: int, n: int, tier: str) -> None:
    program = prepared(in_halves(dense(m, k, n, "bias")))
    rng = np.random.default_rng(m)
    shapes = {b.name: b.shape for b in program.buffers if b.role == "input"}
    inputs = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    inputs["w"] = inputs["w"].astype(np.float16)
    expected = evaluate(program, inputs)["out"]
    # The last two decode in their tiles: rows are outermost, or panels too wide for the workspace.
    for x0, y0, r0, order in ((8, 6, 4, "nm"), (4, 1, 1, "nm"), (8, 3, 2, "mn"), (16, 2, 1, "nm")):
        candidate = Candidate(x0, y0, r0, x0, y0, k, order, True)
        if -(-n // x0) * x0 > -(-n // 16) * 16 or y0 > m:
            continue
        made = compile_program(program, candidate, tier)
        got = run_kernel(
            program,
            made.data,
            made.parallel_extent,
            inputs,
            made.panels,
            min(3, made.parallel_extent),
        )
        np.testing.assert_allclose(
            got["out"], expected, rtol=1e-5, atol=1e-5, err_msg=str(candidate)
        )
        once = order == "nm" and x0 <= 8 and y0 < m
        assert bool((got[PANELS].view(np.uint32) != 0xCDCDCDCD).any()) == once


def test_rows_alone_need_no_room() -> None:
    program = in_halves(dense(1, 64, 40, "none"))
    assert prepared(program) == program
    assert prepared(dense(8, 64, 40, "none")) == dense(8, 64, 40, "none")
