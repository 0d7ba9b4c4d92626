"""Workloads from their spelling: recognised, and what NumPy says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import WorkloadSpec, looks_like_spec, program_for
from nnjit_studio.errors import UserError
from nnjit_studio.records.candidate import Candidate

SPECS = [
    "matmul:6x5x8:f32",
    "matmul:1x7x9:f32",
    "matmul:5x1x3:f32",
    "matmul_var:3x4x5:f32",
    "batch_matmul:2x3x4x5:f32",
    "matmul_dot:3x4x5:f32+bias",
    "batch_matmul_dot:2x3x4x5:f32",
    "matmul:6x5x8:f32+bias",
    "matmul:6x5x8:f32+bias+gelu",
    "matmul:1x5x8:f32+bias+relu",
    "matmul_var:6x5x8:f32+residual",
    "matmul:6x5x8:f32+bias+residual",
    "batch_matmul:2x3x4x5:f32+gelu",
]


def expected(spec: WorkloadSpec, inputs: dict[str, np.ndarray]) -> np.ndarray:
    given = iter(inputs.values())
    a, b = next(given), next(given)
    value = a @ (b.swapaxes(-1, -2) if "_dot" in spec.kind else b)
    for word in spec.epilogue:
        if word in ("bias", "residual"):
            value = value + next(given)
        elif word == "relu":
            value = np.maximum(value, 0)
        else:
            erf = np.vectorize(math.erf)(value / math.sqrt(2))
            value = 0.5 * value * (1 + erf)
    return value


@pytest.mark.parametrize("text", SPECS)
def test_a_spelling_is_recognised_and_right(text: str) -> None:
    spec, program = WorkloadSpec.parse(text), program_for(text)
    assert str(spec) == text
    found = recognize(program)
    assert found is not None
    # With K = 1 there is nothing to pack.
    assert found.packable == (spec.kind == "matmul" and spec.dims[1] > 1)
    workload = workload_for(program, found)
    assert workload.tunable
    assert workload.epilogue == spec.epilogue
    assert workload.dims == spec.dims
    assert workload.flops == 2 * math.prod(spec.dims)

    rng = np.random.default_rng(0)
    inputs = {b.name: rng.normal(size=b.shape) for b in program.buffers if b.role == "input"}
    (got,) = evaluate(program, inputs).values()
    np.testing.assert_allclose(got, expected(spec, inputs), rtol=1e-6)


@pytest.mark.parametrize("text", [t for t in SPECS if ":5x1x" not in t])
def test_a_candidate_compiles(text: str) -> None:
    pack = text.startswith("matmul:")
    candidate = Candidate(4, 2, 1, 4, 2, 64, pack=pack)
    artifact = compile_program(program_for(text), candidate, "simd128")
    assert artifact.data.startswith(b"\0asm")
    assert bool(artifact.panels) == pack


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("matmul", "is not a workload"),
        ("matmul:3x4:f32", "MxKxN"),
        ("matmul:3x4x0:f32", "dimension of 0"),
        ("matmul:3x4x5:f16", "dtype 'f16'"),
        ("matmul:3x4x5:f32+swish", "epilogue 'swish'"),
        ("pool:3x4x5:f32", "kind 'pool'"),
        ("matmul:100000x4x100000:f32", "elements"),
    ],
)
def test_a_wrong_spelling_is_told(text: str, word: str) -> None:
    with pytest.raises(UserError, match=word):
        program_for(text)


def test_a_path_is_no_spelling() -> None:
    assert looks_like_spec("matmul:3x4x5:f32+bias")
    assert not looks_like_spec("out/minilm.onnx")
