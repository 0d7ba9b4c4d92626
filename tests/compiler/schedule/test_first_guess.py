"""Untuned kernels of matmuls and convolutions come from their templates, and are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_harness import run_kernel
from small_programs import matmul_bias

from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Cast, Const, Load, Program, Var
from nnjit_studio.compiler.oracle.reference import evaluate, evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.programs.conv2d import conv2d_program
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import match, prepared
from nnjit_studio.records.candidate import Candidate

SPECS = (
    "matmul:7x12x20:f32+bias",
    "matmul:1x40x33:f32+bias+gelu",
    "matmul:6x5x3:f32",
    "matmul:2x1x9:f32",
    "matmul_var:13x8x11:f32+bias+residual",
    "batch_matmul:3x5x7x9:f32",
    "batch_matmul_dot:3x5x7x9:f32",
    "matmul_dot:1x40x33:f32+bias",
    "conv2d:1x3x9x9x8x3x3x2x1x1x1:f32+bias+relu",
    "conv2d:2x6x8x5x6x3x3x1x1x1x6:f32+bias",
    "conv2d:1x3x16x16x2x7x7x2x3x1x1:f32",
    "conv2d:1x4x11x13x12x5x5x1x2x1x1:f32",
    "conv2d:1x6x9x14x6x7x7x1x3x1x6:f32",
)


def guessed(program: Program) -> Candidate:
    found = match(program)
    assert found is not None and found.template.wasm is not None
    guess = found.template.wasm.guess(found.subject)
    assert guess is not None
    return guess


@pytest.mark.parametrize("spec", SPECS)
def test_the_default_is_the_guess_and_right(spec: str) -> None:
    program = program_for(spec)
    guess = guessed(program)
    rng = np.random.default_rng(1)
    inputs = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }
    wanted = evaluate_with_bound(program, inputs)
    for tier in ("simd128", "relaxed-simd"):
        made = compile_program(program, None, tier)
        assert made.data == compile_program(program, guess, tier).data
        extent = made.parallel_extent
        got = run_kernel(program, made.data, extent, inputs, made.panels, min(2, extent))
        for name, (value, bound) in wanted.items():
            assert (np.abs(got[name] - value) <= bound + 1e-30).all()


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [(1, 25), (3, 3), (5, 5), (7, 7), (9, 9), (25, 1)])
def test_no_first_guess_of_a_convolution_is_refused(
    kernel: tuple[int, int], stride: int, groups: int
) -> None:
    """It would run by the default schedule, at a sixth of the speed, without a word."""
    rows, columns = kernel
    for extent in (30, 41, 56):
        dims = (1, 8, extent, extent, 8, rows, columns, stride, max(kernel) // 2, 1, groups)
        program = prepared(conv2d_program(dims))
        found = match(program)
        assert found is not None and found.template.wasm is not None
        guess = found.template.wasm.guess(found.subject)
        assert guess is not None
        found.template.wasm.schedule_in("simd128")(program, found.subject, guess)


def test_a_long_epilogue_into_bytes_keeps_its_tile() -> None:
    """No output can hold the float32 sums, so the whole epilogue runs on the accumulators."""
    program = matmul_bias(9, 20, 16)
    total, last = program.stages
    value = last.body[0].value
    for _ in range(3):
        scaled = Call("round", (value * 0.7,))
        value = Binary("max", Binary("min", scaled, Const(100.0, "f32")), Const(-90.0, "f32"))
        value = value + Load("bias", Var("j"))
    body = replace(last.body[0], value=Cast(value, "i8"))
    buffers = tuple(replace(b, dtype="i8") if b.name == "y" else b for b in program.buffers)
    program = replace(program, buffers=buffers, stages=(total, replace(last, body=(body,))))
    made = compile_program(program, None, "relaxed-simd")
    assert made.data == compile_program(program, guessed(program), "relaxed-simd").data
    rng = np.random.default_rng(1)
    whole = {"x": (9, 16), "w": (16, 20), "bias": (20,)}
    inputs = {n: rng.integers(-5, 5, shape).astype(np.float32) for n, shape in whole.items()}
    wanted = evaluate(program, inputs)["y"]
    got = run_kernel(program, made.data, made.parallel_extent, inputs, made.panels)["y"]
    np.testing.assert_array_equal(got, wanted)
