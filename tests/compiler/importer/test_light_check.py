"""The checker is given a model without its weights, and each weight for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from nnjit_studio.compiler.onnx_file.check import load_model
from nnjit_studio.errors import ModelError

WEIGHTS = np.zeros((128, 128), np.float32)


def _model(path: Path, weight: onnx.TensorProto) -> Path:
    """A product behind an operator of ONNX Runtime in ONNX's domain, which loading gives a name."""
    nodes = [
        helper.make_node("SimplifiedLayerNormalization", ["x", "scale"], ["n"], axis=-1),
        helper.make_node("MatMul", ["n", "w"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, 1, [1, 128]) for name in "xy"]
    held = [numpy_helper.from_array(np.ones(128, np.float32), "scale"), weight]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_weights_are_not_copied_for_the_checker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, given = onnx.checker.check_model, []

    def watched(model: Any) -> None:
        given.append(model.ByteSize())
        real(model)

    monkeypatch.setattr(onnx.checker, "check_model", watched)
    loaded = load_model(_model(tmp_path / "m.onnx", numpy_helper.from_array(WEIGHTS, "w")))
    assert given and given[0] < WEIGHTS.nbytes // 10
    assert [w.name for w in loaded.graph.initializer] == ["scale", "w"]


def test_a_broken_weight_is_refused(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(WEIGHTS, "w")
    weight.float_data.append(1.0)  # values in two places
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        load_model(_model(tmp_path / "m.onnx", weight))
