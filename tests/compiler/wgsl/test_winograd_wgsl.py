"""A convolution in tiles on a GPU: its three programs by the templates and the emitter there."""

from __future__ import annotations

import numpy as np
from test_winograd import BLOCK, conv, in_tiles, inputs_of
from wgsl_harness import run_program

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl


def test_three_kernels_are_the_convolution() -> None:
    program = conv((8, 16, 14, 16), 1, BLOCK)
    given = inputs_of(program)

    def run(step: Program, arrays: dict[str, np.ndarray]) -> np.ndarray:
        return run_program(step, compile_wgsl(step, None, "wgsl").data, arrays)["out0"]

    wanted = evaluate(program, given)["out0"]
    error = np.abs(in_tiles(program, 4, given, run) - wanted).max()
    assert error <= 3e-5 * np.abs(wanted).max()
