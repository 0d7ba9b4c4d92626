"""Cases that modules of other people are measured on."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnjit_studio.errors import ModelError
from nnjit_studio.foreign_wasm.turbo.speed.cases import case_of


def test_a_file_of_somebody_is_opened_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    file = tmp_path / "theirs.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    file.write_bytes(made.SerializeToString())
    monkeypatch.delattr(onnx, "load")  # the program itself reads no model
    monkeypatch.delattr(onnxruntime, "InferenceSession")
    case = case_of(str(file), tmp_path)
    assert (case.name, case.model) == ("theirs", file)
    assert {name: array.shape for name, array in case.feeds.items()} == {"x": (2, 3)}
    file.write_bytes(b"no model at all")
    with pytest.raises(ModelError, match=r"theirs\.onnx"):
        case_of(str(file), tmp_path)
