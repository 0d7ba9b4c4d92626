"""Matmuls whose operands both lie along the reduction: right on odd shapes, in both tiers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_harness import run_kernel
from onnx import TensorProto, helper
from onnx_models import save
from test_importer import check_against_onnxruntime

from nnjit_studio.compiler.importer.program import tie_weights as tying
from nnjit_studio.compiler.ir.tensor_ir import Cast, Program
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import CompileError
from nnjit_studio.records import TIERS, DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space import ORDERS, build_lite_space
from nnjit_studio.space.wasm.dot import X0_CHOICES, Y0_CHOICES

SPECS = (
    "matmul_dot:7x13x9:f32+bias",
    "matmul_dot:1x64x19:f32",
    "matmul_dot:1x5x3:f32+bias",
    "matmul_dot:6x20x8:f32+bias+gelu",
    "matmul_dot:4x4x3:f32+bias+residual",
    "matmul_dot:2x38x8:f32",
    "matmul_dot:11x71x13:f32",
    "batch_matmul_dot:3x5x16x6:f32",
    "batch_matmul_dot:2x1x7x11:f32",
)
DEVICES = [DeviceProfile("t", "t", vector_registers=count) for count in (16, 32)]


def check(program: Program, candidates: Iterable[Candidate | None]) -> None:
    """Each candidate in both tiers against the float64 reference, in parts of the outer loop."""
    rng = np.random.default_rng(1)
    inputs = {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }
    wanted = evaluate_with_bound(program, inputs)
    for candidate, tier in product(candidates, TIERS):
        made = compile_program(program, candidate, tier)
        assert made.panels == ()
        extent = made.parallel_extent
        got = run_kernel(program, made.data, extent, inputs, (), min(3, extent))
        for name, (value, bound) in wanted.items():
            assert (np.abs(got[name] - value) <= bound + 1e-30).all(), (candidate, tier)


@pytest.mark.parametrize("spec", SPECS)
def test_dot_products_are_right(spec: str) -> None:
    program = program_for(spec)
    subject = subject_of(program)
    workload = workload_for(program, subject)
    assert workload.kind == spec.split(":")[0]
    assert workload.tunable
    spaces = [build_lite_space(workload, device, False).entries for device in DEVICES]
    check(program, [None, *sorted({e.candidate for space in spaces for e in space})])


@pytest.mark.parametrize("order", ORDERS)
def test_every_tile_is_right_with_tails_on_all_sides(order: str) -> None:
    program = program_for("matmul_dot:17x27x29:f32+bias")
    tiles = product(X0_CHOICES, Y0_CHOICES)
    check(program, [Candidate(x, y, 2, x, y, 27, order, False) for x, y in tiles if x * y <= 32])


def test_blocks_of_tiles_are_right() -> None:
    program = program_for("batch_matmul_dot:2x19x37x45:f32")
    blocks = product((4, 5, 16, 64), (3, 6, 64), ORDERS)
    check(program, [Candidate(4, 3, 4, x1, y1, 37, order, False) for x1, y1, order in blocks])


def test_equal_settings_give_equal_bytes_and_the_default_is_one() -> None:
    for spec, columns in (("matmul_dot:9x40x21:f32", 6), ("matmul_dot:9x40x21:f32+bias", 4)):
        first, second = (program_for(spec) for _ in range(2))
        candidate = Candidate(6, 2, 4, 48, 8, 40, "nm", False)
        made = compile_program(first, candidate, "simd128").data
        assert made == compile_program(second, candidate, "simd128").data
        guess = Candidate(columns, 2, 4, columns, 2, 40, "nm", False)
        default = compile_program(first, None, "simd128").data
        assert default == compile_program(second, guess, "simd128").data != made


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pack": True}, "never from panels"),
        ({"r1": 39}, "cuts the reduction"),
        ({"x0": 12, "y0": 8}, "SIMD operations"),
        ({"order": "km"}, "unknown"),
    ],
)
def test_what_the_template_cannot_do_is_said(change: dict[str, Any], reason: str) -> None:
    candidate = replace(Candidate(6, 2, 4, 6, 2, 40, "nm", False), **change)
    with pytest.raises(CompileError, match=reason):
        compile_program(program_for("matmul_dot:9x40x21:f32"), candidate, "simd128")


def test_half_results_run_untuned() -> None:
    program = program_for("matmul_dot:9x40x21:f32+bias")
    buffers = tuple(replace(b, dtype="f16") if b.role == "output" else b for b in program.buffers)
    stages = (
        program.stages[0],
        *(
            replace(s, body=tuple(replace(t, value=Cast(t.value, "f16")) for t in s.body))
            for s in program.stages[1:]
        ),
    )
    half = replace(program, buffers=buffers, stages=stages)
    workload = workload_for(half, subject_of(half))
    assert (workload.kind, workload.dtype, workload.tunable) == ("matmul_dot", "f16", False)


def test_a_head_reads_the_table_of_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tying, "SMALLEST", 64)
    rows, width, words = 5, 8, 37
    rng = np.random.default_rng(2)
    table = rng.standard_normal((words, width)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["f"], ["ids"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "ids"], ["e"], axis=0),
        helper.make_node("Add", ["x", "e"], ["h"]),
        helper.make_node("Transpose", ["table"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "head"], ["y"]),
    ]
    shapes: dict[str, list[int | str]] = {"x": [rows, width], "f": [rows]}
    path = save(tmp_path / "tied.onnx", nodes, shapes, {"y": [rows, words]}, {"table": table})
    x = rng.standard_normal((rows, width)).astype(np.float32)
    # Constant ids would be looked up on import, and nothing would be left to tie.
    feeds = {"x": x, "f": np.array([3, 0, 36, 7, 7], np.float32)}
    built = check_against_onnxruntime(path, feeds)
    assert built.plan.weights_bytes < 2 * table.nbytes
    assert len(built.graph.nodes) == 4
    kinds = {w.kind: w.tunable for w in built.workloads}
    assert kinds["matmul_dot"]
    assert "matmul" not in kinds
