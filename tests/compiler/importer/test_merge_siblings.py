"""Small elementwise calls of one value become one kernel, which a GPU runs in one dispatch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import save
from test_importer import check_against_onnxruntime
from wgsl_harness import check_document

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.importer.program import merge_siblings
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.compiler.wgsl.core.document import KernelDocument

pytestmark = pytest.mark.filterwarnings("ignore:Renaming name")


def two_slices(path: Path, tail: int = 4) -> Path:
    """Two slices of one value, the exponential of each: two kernels."""
    ends = {"zero": [0], "middle": [4], "end": [4 + tail], "axis": [1]}
    constants = {name: np.array(v, np.int64) for name, v in ends.items()}
    nodes = []
    for i, (begin, end) in enumerate((("zero", "middle"), ("middle", "end"))):
        nodes += [
            helper.make_node("Slice", ["x", begin, end, "axis"], [f"s{i}"]),
            helper.make_node("Exp", [f"s{i}"], [f"y{i}"]),
        ]
    return save(path, nodes, {"x": [6, 4 + tail]}, {"y0": [6, 4], "y1": [6, tail]}, constants)


def calls(built: BuiltModel) -> list[str]:
    return [s.workload for s in built.plan.steps if s.op == "call"]


def test_slices_of_one_value_are_one_kernel(tmp_path: Path) -> None:
    feeds = {"x": np.random.default_rng(1).standard_normal((6, 8)).astype(np.float32)}
    built = check_against_onnxruntime(two_slices(tmp_path / "two.onnx"), feeds)
    assert len(calls(built)) == 1
    (node,) = built.graph.nodes
    assert node.outputs == ("y0", "y1")


def test_few_elements_of_other_sizes_are_one_dispatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = two_slices(tmp_path / "other.onnx", tail=5)
    feeds = {"x": np.random.default_rng(1).standard_normal((6, 9)).astype(np.float32)}
    built = check_against_onnxruntime(path, feeds)
    (workload,) = calls(built)
    document = compile_wgsl(built.programs[workload], None, "wgsl").data
    assert len(KernelDocument.from_bytes(document).dispatches) == 1
    check_document(built.programs[workload], KernelDocument.from_bytes(document))
    monkeypatch.setattr(merge_siblings, "MOST_OF_A_WORKGROUP", 8)
    assert len(calls(import_model(path, tmp_path / "w.bin"))) == 2, "6 rows of 4 and 5"


def test_large_results_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_siblings, "MOST_ELEMENTS", 23)
    large = import_model(two_slices(tmp_path / "large.onnx"), tmp_path / "w.bin")
    assert len(calls(large)) == 2


def test_what_reads_a_view_of_another_result_comes_after_it() -> None:
    x, y, seen, z = (Value(name, (4,), "f32") for name in ("x", "y", "seen", "z"))

    def summed(inputs: tuple[Value, ...], out: Value) -> ProgramCall:
        ports = [Buffer(f"in{i}", "f32", (4,), "input") for i in range(len(inputs))]
        total: Expr = Load("in0", Var("i"))
        for port in ports[1:]:
            total = total + Load(port.name, Var("i"))
        stage = Stage("sum", (Axis("i", 4),), (Store("out0", Var("i"), total),))
        buffers = (*ports, Buffer("out0", "f32", (4,), "output"))
        return ProgramCall(Program("sum", buffers, (stage,)), inputs, (out,))

    calls = ImportedCalls((x,), (y, z), (summed((x,), y), summed((x, seen), z)))
    assert merge_siblings.merge_siblings(calls, {"seen": "y"}) == calls
    assert len(merge_siblings.merge_siblings(calls, {}).calls) == 1
