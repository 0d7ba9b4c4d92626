"""A model that no choice of sizes can mend is refused before other choices are tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnjit_studio.compiler.any_size import imports
from nnjit_studio.compiler.any_size.kernels.tuned import Tuning
from nnjit_studio.compiler.any_size.runs import importer
from nnjit_studio.errors import CompileError, UnsupportedOpError


def saved(path: Path, nodes: list[onnx.NodeProto], kind: int) -> Path:
    given = [helper.make_tensor_value_info("x", kind, ["rows", "columns"])]
    made = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "g", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def test_an_operator_that_is_refused_by_name_is_told_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = helper.make_node("Unique", ["x"], ["y"], "found")
    path = saved(tmp_path / "m.onnx", [node], TensorProto.FLOAT)
    monkeypatch.setattr(imports, "probe", lambda *_: pytest.fail("other sizes were tried"))
    with pytest.raises(UnsupportedOpError, match="Unique of node 'found'"):
        imports.import_any(path, tmp_path / "w.bin")


def test_a_form_that_is_refused_at_the_sizes_at_hand_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast = helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT)
    node = helper.make_node("Pow", ["x", "f"], ["y"], "power")
    path = saved(tmp_path / "m.onnx", [cast, node], TensorProto.INT64)
    made: list[object] = []
    real = importer.import_with

    def counted(*given: object) -> object:
        made.append(given)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(importer, "import_with", counted)
    with pytest.raises(UnsupportedOpError, match="Pow of node 'power'"):
        imports.import_any(path, tmp_path / "w.bin")
    assert len(made) == 2


def test_a_loop_that_carries_what_is_as_large_as_its_data_says_is_laid_out(tmp_path: Path) -> None:
    """As a loop its results would have no size that is known: it has the turns at hand."""
    kinds = {"i": TensorProto.INT64, "c": TensorProto.BOOL, "v": TensorProto.FLOAT}
    given = [helper.make_tensor_value_info(n, k, [4] * (n == "v")) for n, k in kinds.items()]
    made = [helper.make_tensor_value_info("go", kinds["c"], [])]
    made.append(helper.make_tensor_value_info("w", kinds["v"], ["n"]))
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]),
         helper.make_node("Cast", ["v"], ["there"], to=TensorProto.BOOL),
         helper.make_node("Compress", ["v", "there"], ["w"], "search", axis=0)],
        "body", given, made,
    )  # fmt: skip
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Squeeze", ["s"], ["count"]),
        helper.make_node("ReduceSum", ["x"], ["line"], keepdims=0),
        helper.make_node("Expand", ["line", "four"], ["start"]),
        helper.make_node("Loop", ["count", "", "start"], ["y"], "loop", body=body),
    ]
    path = saved(tmp_path / "m.onnx", nodes, TensorProto.FLOAT)
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("four", TensorProto.INT64, [1], [4]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"]))
    onnx.save(model, path)
    given = {"x": np.ones((3, 2), np.float32)}
    made = imports.import_any(path, tmp_path / "w.bin", given)
    assert made is not None and [d.name for d in made.plan.dims] == ["columns"]
    (note,) = made.notes
    assert note.startswith("rows stays 3: else its steps differ from size to size. For ")


def test_a_tile_that_is_none_at_some_size_keeps_a_dimension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path, compiled = saved(tmp_path / "m.onnx", [node], TensorProto.FLOAT), Tuning.compiled

    def narrow(tuning: Tuning, *given: Any) -> Any:
        if len(tuning.dims) > 1:
            raise CompileError("x0=8 does not fit rows of 2 pixels.", "")
        return compiled(tuning, *given)

    monkeypatch.setattr(Tuning, "compiled", narrow)
    found = imports.import_any(path, tmp_path / "w.bin")
    assert found is not None and "stays" in found.notes[0]
    assert "x0=8 does not fit" in found.notes[0] and len(found.plan.dims) == 1
