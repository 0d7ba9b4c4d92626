"""The .tflite files of the bench, read back by the schema's own package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tflite

from nnjit_studio.bench.peers.tflite_models import write_tflite
from nnjit_studio.compiler.spelling import WorkloadSpec, program_for, seeded_input

OPERATORS = {n: name for name, n in vars(tflite.BuiltinOperator).items() if isinstance(n, int)}


@pytest.mark.parametrize(
    ("workload", "operators"),
    [
        ("matmul:6x5x7:f32", ["FULLY_CONNECTED"]),
        ("matmul:6x5x7:f32+bias+relu", ["FULLY_CONNECTED"]),
        ("matmul:6x5x7:f32+bias+gelu", ["FULLY_CONNECTED", "GELU"]),
        ("matmul:6x5x7:f32+bias+residual", ["FULLY_CONNECTED", "ADD"]),
        ("batch_matmul:2x6x5x7:f32", ["BATCH_MATMUL"]),
    ],
)
def test_a_product_is_written_with_its_operators_and_weights(
    tmp_path: Path, workload: str, operators: list[str]
) -> None:
    spec = WorkloadSpec.parse(workload)
    buffers = program_for(workload).buffers
    given = [(b, seeded_input(workload, b.name, b.shape)) for b in buffers if b.role == "input"]
    output = next(b for b in buffers if b.role == "output")
    write_tflite(tmp_path / "m.tflite", spec, given, output)
    model = tflite.Model.GetRootAs((tmp_path / "m.tflite").read_bytes())
    graph = model.Subgraphs(0)
    steps = [graph.Operators(i) for i in range(graph.OperatorsLength())]
    names = [OPERATORS[model.OperatorCodes(s.OpcodeIndex()).BuiltinCode()] for s in steps]
    assert names == operators
    assert tuple(graph.Tensors(graph.Outputs(0)).ShapeAsNumpy()) == output.shape
    variable = [b.shape for b, _ in given if not b.constant]
    inputs = [graph.Tensors(i) for i in graph.InputsAsNumpy()]
    assert [tuple(tensor.ShapeAsNumpy()) for tensor in inputs] == variable
    if operators[0] == "FULLY_CONNECTED":
        weights = graph.Tensors(steps[0].Inputs(1))
        held = model.Buffers(weights.Buffer()).DataAsNumpy().view(np.float32)
        assert np.array_equal(held.reshape(weights.ShapeAsNumpy()), given[1][1].T)
