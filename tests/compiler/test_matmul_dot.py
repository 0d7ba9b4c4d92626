"""Matmuls whose operands both lie along the reduction: right on odd shapes, in both tiers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_harness import run_kernel
from onnx import helper
from onnx_models import save
from test_importer import check_against_onnxruntime

from nnjit_studio.compiler.builders import program_for
from nnjit_studio.compiler.importer import tie_weights as tying
from nnjit_studio.compiler.importer.views import View, with_buffer
from nnjit_studio.compiler.pipeline import compile_program
from nnjit_studio.compiler.recognize import recognize
from nnjit_studio.compiler.reference import evaluate_with_bound
from nnjit_studio.compiler.schedule.matmul_dot import lies_along_k, schedule_dot
from nnjit_studio.compiler.tensor_ir import Program

SPECS = (
    "matmul_var:7x13x9:f32+bias",
    "matmul_var:1x64x19:f32",
    "matmul_var:1x5x3:f32+bias",
    "matmul_var:10x20x16:f32+bias+gelu",
    "matmul_var:4x4x3:f32+bias+residual",
    "matmul_var:2x38x8:f32",
    "batch_matmul:3x5x16x6:f32",
    "batch_matmul:2x1x7x11:f32",
)


def transposed(spec: str) -> Program:
    """The workload with each B stored row by row of its columns."""
    program = program_for(spec)
    c = recognize(program)
    assert c is not None
    batch = {a.var: a.extent for a in c.batch}
    outer = {v: c.k * c.n for v in batch}
    view = View(
        {**batch, "k": c.k, "n": c.n},
        (0, {**outer, "n": c.k, "k": 1}),
        (0, {**outer, "k": c.n, "n": 1}),
    )
    shape = program.buffer(c.b.buffer).shape
    result = with_buffer(program, c.b.buffer, (*shape[:-2], c.n, c.k), view.inward)
    assert result is not None
    return result


@pytest.mark.parametrize("spec", SPECS)
def test_dot_products_are_right(spec: str) -> None:
    program = transposed(spec)
    c = recognize(program)
    assert c is not None
    assert lies_along_k(c)
    rng = np.random.default_rng(1)
    inputs = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }
    wanted = evaluate_with_bound(program, inputs)
    for tier in ("simd128", "relaxed-simd"):
        made = compile_program(program, None, tier)
        extent = made.parallel_extent
        assert extent == schedule_dot(program, c).parallel_extent
        got = run_kernel(program, made.data, extent, inputs, made.panels, min(3, extent))
        for name, (value, bound) in wanted.items():
            assert (np.abs(got[name] - value) <= bound + 1e-30).all()


def test_a_head_reads_the_table_of_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tying, "SMALLEST", 64)
    rows, width, words = 5, 8, 37
    rng = np.random.default_rng(2)
    table = rng.standard_normal((words, width)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], axis=0),
        helper.make_node("Add", ["x", "e"], ["h"]),
        helper.make_node("Transpose", ["table"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "head"], ["y"]),
    ]
    constants = {"table": table, "ids": np.array([3, 0, 36, 7, 7], np.int64)}
    path = save(
        tmp_path / "tied.onnx", nodes, {"x": [rows, width]}, {"y": [rows, words]}, constants
    )
    x = rng.standard_normal((rows, width)).astype(np.float32)
    built = check_against_onnxruntime(path, {"x": x})
    assert built.plan.weights_bytes < 2 * table.nbytes
    assert len(built.graph.nodes) <= 3
