"""Attention in one Wasm kernel against the float64 reference, whatever its settings and form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import run_kernel
from matmul_programs import with_rounded_weights

from nnjit_studio.compiler.ir.affine import rewrite
from nnjit_studio.compiler.ir.rewrite import int32, map_stores
from nnjit_studio.compiler.ir.tensor_ir import Binary, Expr, Load, Program, Store, Var
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import match, prepared
from nnjit_studio.errors import CompileError
from nnjit_studio.records import TIERS, DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space import build_lite_space

UNSET = 0xCDCDCDCD
FORMS: tuple[tuple[tuple[int, int, int, int], dict[str, Any]], ...] = (
    ((2, 13, 21, 16), {}),
    ((3, 37, 50, 32), {"mask": "all", "guarded": True}),
    ((2, 12, 12, 16), {"mask": "keys", "joined": True}),
    ((1, 30, 7, 48), {"transposed": True}),
    ((5, 1, 40, 16), {"mask": "keys"}),
    ((2, 1, 9, 16), {"transposed": True}),
    ((40, 5, 6, 16), {"guarded": True}),
)


def inputs_of(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }


def check(program: Program, candidate: Candidate | None, tier: str) -> None:
    """In one part and in three, as threads would run it."""
    inputs = inputs_of(program)
    value, bound = evaluate_with_bound(program, inputs)["out0"]
    made = compile_program(program, candidate, tier)
    for parts in (1, min(3, made.parallel_extent)):
        got = run_kernel(program, made.data, made.parallel_extent, inputs, parts=parts)["out0"]
        assert (np.abs(got - value) <= bound + 1e-30).all()


@pytest.mark.parametrize(("dims", "form"), FORMS)
@pytest.mark.parametrize("tier", TIERS)
def test_every_form_is_right_untuned(
    dims: tuple[int, int, int, int], form: dict[str, Any], tier: str
) -> None:
    program = prepared(attention(*dims, **form))
    found = match(program)
    assert found is not None and found.template.name == "attention"
    check(program, None, tier)


@pytest.mark.parametrize("tier", TIERS)
def test_two_masks_in_turns(tier: str) -> None:
    """As of windows that are moved, in a batch: the mask's place is a remainder of a batch axis."""
    program = attention(4, 49, 49, 32, mask="all")
    other = Binary("floormod", Var("h"), int32(2)) * 49**2

    def moved(expr: Expr) -> Expr | None:
        masked = isinstance(expr, Load) and expr.buffer == "in3"
        return Load("in3", expr.index + other) if masked else None

    def changed(store: Store) -> Store:
        return replace(store, value=rewrite(store.value, moved))

    buffers = tuple(
        replace(b, shape=(2, *b.shape)) if b.name == "in3" else b for b in program.buffers
    )
    stages = tuple(map_stores(stage, changed) for stage in program.stages)
    program = prepared(replace(program, buffers=buffers, stages=stages))
    found = match(program)
    assert found is not None and found.template.name == "attention"
    check(program, None, tier)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("dims", "form"), FORMS[1:4])
def test_weights_are_rounded_over_whole_rows(
    dims: tuple[int, int, int, int], form: dict[str, Any], tier: str
) -> None:
    program = with_rounded_weights(attention(*dims, **{**form, "guarded": False}), 254.0)
    program = prepared(program)
    found = match(program)
    assert found is not None and found.template.name == "attention"
    check(program, None, tier)


def test_one_query_with_rounded_weights_stays_three_kernels() -> None:
    assert match(with_rounded_weights(attention(2, 1, 40, 16), 254.0)) is None


def test_every_candidate_of_the_space_is_right() -> None:
    program = prepared(attention(2, 20, 300, 32, mask="keys", guarded=True))
    found = match(program)
    assert found is not None
    workload = workload_for(program, found.subject)
    space = build_lite_space(workload, DeviceProfile("d", "t"), False)
    settings = [e.candidate for e in space.entries]
    assert len(settings) > 8 and {c.r1 for c in settings} == {256, 300}
    for candidate in settings:
        check(program, candidate, "relaxed-simd")


def test_a_row_without_any_weight_is_zero_where_that_is_asked_for() -> None:
    """Scores of minus infinity have no largest value, so that each quotient is no number."""
    program = prepared(attention(1, 8, 12, 16, mask="all", guarded=True))
    inputs = inputs_of(program)
    inputs["in3"][3] = -np.inf
    made = compile_program(program, None, "relaxed-simd")
    got = run_kernel(program, made.data, made.parallel_extent, inputs)["out0"]
    assert (got[3] == 0).all() and (got[:3] != 0).all() and np.isfinite(got).all()


@pytest.mark.parametrize("queries", [37, 49, 197, 289])
@pytest.mark.parametrize("rows", [6, 12])
def test_no_two_threads_write_one_row(queries: int, rows: int) -> None:
    """Unfinished sums stand in the output: what one step writes, no other may."""
    program = prepared(attention(1, queries, 300, 16))
    blocked = Candidate(8, 6, 2, 8, rows, 256, "nm", False)
    made = compile_program(program, blocked, "simd128")
    inputs = inputs_of(program)
    alone = []
    for part in range(made.parallel_extent):
        written = run_kernel(
            program, made.data, made.parallel_extent, inputs, only=(part, part + 1)
        )["out0"]
        alone.append({int(i) for i in np.flatnonzero((written.view(np.uint32) != UNSET).any(1))})
    assert len(alone) > 1 and sum(map(len, alone)) == queries


def test_what_does_not_fit_is_refused() -> None:
    program = prepared(attention(2, 20, 24, 16))
    fits = Candidate(16, 3, 2, 16, 6, 24, "nm", False)
    compile_program(program, fits, "simd128")
    with pytest.raises(CompileError, match="no room in the workspace"):
        compile_program(program, replace(fits, y1=13), "simd128")
    with pytest.raises(CompileError, match="no workspace"):
        compile_program(attention(2, 20, 24, 16), fits, "simd128")


def test_no_other_schedule_writes_what_is_not_in_memory() -> None:
    program = prepared(attention(2, 20, 24, 16))
    strange = replace(program, stages=program.stages[:-1] + (program.stages[-1],) * 2)
    assert match(strange) is None
    with pytest.raises(CompileError, match="in memory"):
        compile_program(strange, None, "simd128")
