"""A model that no choice of sizes can mend is refused before other choices are tried."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from nnjit_studio.compiler.any_size import imports
from nnjit_studio.errors import UnsupportedOpError


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
    node = helper.make_node("NonZero", ["x"], ["y"], "found")
    path = saved(tmp_path / "m.onnx", [node], TensorProto.FLOAT)
    monkeypatch.setattr(imports, "probe", lambda *_: pytest.fail("other sizes were tried"))
    with pytest.raises(UnsupportedOpError, match="NonZero of node 'found'"):
        imports.import_any(path, tmp_path / "w.bin")


def test_a_form_that_is_refused_at_the_sizes_at_hand_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = helper.make_node("Pow", ["x", "x"], ["y"], "power")
    path = saved(tmp_path / "m.onnx", [node], TensorProto.INT64)
    made: list[object] = []
    real = imports.import_with

    def counted(*given: object) -> object:
        made.append(given)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(imports, "import_with", counted)
    with pytest.raises(UnsupportedOpError, match="Pow of node 'power'"):
        imports.import_any(path, tmp_path / "w.bin")
    assert len(made) == 2
