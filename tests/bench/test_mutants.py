"""Kernels that are wrong or slow on purpose are that, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from kernel_harness import run_kernel

from nnjit_studio.bench.tuner.program_mutants import make_mutant, make_slower
from nnjit_studio.bench.tuner.row_programs import layernorm_program, softmax_program
from nnjit_studio.compiler.ir.tensor_ir import Buffer
from nnjit_studio.compiler.oracle.fixture import _guards_exponentials, make_fixture
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.records.candidate import Candidate

TILE = Candidate(8, 4, 4, 8, 4, 24)


def test_equal_seeds_give_equal_mutants_of_many_kinds() -> None:
    program = program_for("matmul:13x24x20:f32+bias+relu")
    plain = compile_program(program, TILE, "simd128").data
    kinds = set()
    for seed in range(40):
        mutant = make_mutant(program, TILE, "simd128", random.Random(seed))
        again = make_mutant(program, TILE, "simd128", random.Random(seed))
        assert mutant.artifact.data == again.artifact.data != plain
        kinds.add(mutant.kind)
    assert {"missing accumulate", "skipped body", "off-by-one tile", "wrong tail"} <= kinds
    assert "swapped stride" in kinds
    assert compile_program(program, TILE, "simd128").data == plain


def test_a_slower_kernel_is_right_for_every_range() -> None:
    program = program_for("batch_matmul:3x5x8x9:f32")
    rng = np.random.default_rng(0)
    inputs = {
        b.name: rng.uniform(-1, 1, b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }
    right = compile_program(program, None, "simd128")
    slow = make_slower(program, None, "simd128", 100)
    assert slow.data != right.data
    for parts in (1, 2):
        one, two = (
            run_kernel(program, a.data, a.parallel_extent, inputs, a.panels, parts)
            for a in (right, slow)
        )
        assert all(np.array_equal(one[name], two[name]) for name in one)


def test_row_programs_are_softmax_and_layernorm() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, (5, 7)).astype(np.float32)
    raised = np.exp(x - x.max(1, keepdims=True))
    value, _ = evaluate_with_bound(softmax_program(5, 7), {"x": x})["y"]
    assert np.allclose(value.reshape(5, 7), raised / raised.sum(1, keepdims=True))
    scale, shift = rng.uniform(-1, 1, (2, 7)).astype(np.float32)
    inputs = {"x": x, "scale": scale, "shift": shift}
    value, _ = evaluate_with_bound(layernorm_program(5, 7), inputs)["y"]
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert np.allclose(value.reshape(5, 7), normal * scale + shift, atol=1e-6)


def test_a_guarded_exponential_meets_a_peak_at_every_place() -> None:
    program = softmax_program(16, 8)
    assert _guards_exponentials(program)
    assert not _guards_exponentials(layernorm_program(4, 8))
    data = make_fixture("softmax", program).args[0].data
    assert data is not None
    x = np.frombuffer(data, np.float32).reshape(16, 8)
    assert sorted(x[1::2].argmax(axis=1)) == list(range(8))
    assert (x[1::2].max(axis=1) >= 125).all()
    assert (np.abs(x[::4]) <= 1).all()
    assert (x[2::4] < -200).all()  # a sum of largest values is no guard


def test_of_two_inputs_none_lies_far_below_zero() -> None:
    program = softmax_program(16, 8)
    two = replace(program, buffers=(*program.buffers, Buffer("mask", "f32", (8,), "input")))
    data = make_fixture("softmax", two).args[0].data
    assert data is not None
    assert np.frombuffer(data, np.float32).min() >= -1
