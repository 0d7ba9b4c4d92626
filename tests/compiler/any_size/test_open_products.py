"""Products of a packed weight and any number of rows, against the float64 reference."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from kernel_harness import run_kernel

from nnjit_studio.compiler.any_size.kernels.compiled import any_size_kernel
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.programs.product import product_program
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.schedule.matmul import guess_matmul, plan_of
from nnjit_studio.model.size import Dim, size
from nnjit_studio.records import TIERS

ROWS = Dim("n")


def product(k: int, columns: int, sizes: Mapping[str, int]) -> Program:
    return product_program("matmul", (sizes["n"], k, columns), ("bias", "gelu"), constant=True)


@pytest.mark.parametrize(("k", "places"), [(127, 0), (255, 1), (256, 2), (384, 3), (1536, 4)])
def test_open_rows_read_a_panel_in_as_many_pages_as_it_has_up_to_four(k: int, places: int) -> None:
    contraction = recognize(product(k, 16, {"n": 12}))
    assert contraction is not None
    for is_open in (False, True):
        c = replace(contraction, open=is_open)
        plan = plan_of(product(k, 16, {"n": 12}), c, guess_matmul(c))
        assert plan.places == (places if is_open else 0)


# Whole places, a step too many for them, columns that no panel divides, no two pages.
@pytest.mark.parametrize(("k", "columns"), [(384, 16), (515, 12), (257, 9), (64, 8), (3, 5)])
def test_any_number_of_rows_is_right_in_both_tiers(k: int, columns: int) -> None:
    at = partial(product, k, columns)
    compiled = any_size_kernel("product", at, [size(ROWS)], [ROWS])
    rng, drawn = np.random.default_rng(k), random.Random(k)
    for rows in (*range(1, 14), drawn.randint(14, 60)):
        program, sizes = at({"n": rows}), {"n": rows}
        inputs = {
            b.name: rng.standard_normal(b.shape).astype(np.float32)
            for b in program.buffers
            if b.role == "input"
        }
        value, bound = evaluate_with_bound(program, inputs)["out0"]
        variant = compiled.kernel.at(sizes)
        scalars, extent = [s.at(sizes) for s in variant.scalars], variant.extent.at(sizes)
        for kernel in (k for k in compiled.code if k.workload == variant.workload):
            assert kernel.tier in TIERS
            got = run_kernel(
                program, kernel.data, extent, inputs, kernel.panels, parts=2, scalars=scalars
            )
            assert (np.abs(got["out0"] - value) <= bound + 1e-30).all(), (rows, kernel.tier)
