"""The lab's form of offloaded products: operands rounded to f16, whatever their strides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_wgsl_subgroup_matrix import emulated
from wgsl_harness import run_document

from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.wgsl.templates.rounded_product import ROUNDING, guess, rounded_product


@pytest.mark.parametrize(
    "spec",
    ["matmul:32x32x48:f32+bias+residual", "matmul_dot:32x16x32:f32", "batch_matmul:2x32x32x16:f32"],
)
def test_a_product_with_its_epilogue(spec: str) -> None:
    program = program_for(spec)
    subject = subject_of(program)
    assert isinstance(subject, Contraction)
    document = rounded_product(program, subject)
    assert document is not None
    to_a, to_b, product, last = document.dispatches
    plain = replace(document, dispatches=(to_a, to_b, emulated(product), last))
    rng = np.random.default_rng(5)
    inputs = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers if b.role == "input"
    }  # fmt: skip
    given = [
        inputs[b.name].tobytes() if b.name in inputs else 4 * int(np.prod(b.shape))
        for b in program.buffers
    ]
    left = dict(zip((b.name for b in program.buffers), run_document(plain, given), strict=True))
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    for name, (exact, _) in evaluate_with_bound(program, wide).items():
        got = np.frombuffer(left[name], np.float32).reshape(exact.shape)
        scale = float(np.sqrt((exact**2).mean()))
        error = np.abs(got - exact)
        assert (error <= 4 * ROUNDING * (np.abs(exact) + scale)).all()
        assert error.max() > 2.0**-14 * scale, "nothing was rounded"


def test_tiles_are_large_where_there_are_enough_of_them() -> None:
    big, small = guess(2048, 2048, 2048), guess(512, 512, 512)
    assert big is not None and small is not None
    assert (big.rows, big.columns) == (128, 128)
    assert (small.rows, small.columns) == (64, 64)
    assert guess(100, 64, 64) is None
