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


@pytest.mark.parametrize(
    ("k", "columns", "together"),
    [(255, 16, 1), (256, 16, 2), (256, 24, 2), (256, 12, 1), (1536, 7, 1)],
)
def test_one_or_two_open_rows_read_two_panels_of_several_pages(
    k: int, columns: int, together: int
) -> None:
    c = recognize(product(k, columns, {"n": 12}))
    assert c is not None
    for is_open in (False, True):
        opened = replace(c, open=is_open)
        plan = plan_of(product(k, columns, {"n": 12}), opened, guess_matmul(opened))
        wanted = together if is_open else 1
        assert [plan.together(rows) for rows in (1, 2, 3, 6)] == [wanted, wanted, 1, 1]


def test_one_row_at_any_size_reads_a_panel_as_a_kernel_for_one_row_does() -> None:
    c = recognize(product(512, 16, {"n": 1}))
    assert c is not None
    opened = replace(c, open=True)
    plan = plan_of(product(512, 16, {"n": 1}), opened, guess_matmul(opened))
    assert (plan.places, plan.together(1)) == (0, 1)


# Whole places, a step too many for them, columns that no panel divides, no two pages; panels by
# twos, one that is left, a part of one that is left.
@pytest.mark.parametrize(
    ("k", "columns"),
    [(384, 16), (515, 12), (257, 9), (64, 8), (3, 5), (256, 24), (301, 22), (300, 36)],
)
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
