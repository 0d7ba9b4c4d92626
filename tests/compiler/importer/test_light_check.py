"""The checker is given a model without its weights, and each weight for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from nnjit_studio.compiler.onnx_file import budget
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


def test_two_weights_of_one_name_are_refused(tmp_path: Path) -> None:
    """The checker takes them where they are inputs; ONNX Runtime takes the last."""
    path = _model(tmp_path / "m.onnx", numpy_helper.from_array(WEIGHTS, "w"))
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(WEIGHTS + 1, "w"))
    model.graph.input.append(helper.make_tensor_value_info("w", 1, WEIGHTS.shape))
    onnx.save(model, path)
    with pytest.raises(ModelError, match="Two weights of the model have one name"):
        load_model(path)


def test_weights_are_not_allowed_the_memory_of_attributes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[tuple[int, int | None]] = []
    monkeypatch.setattr(budget, "memory_for", lambda *sizes: given.append(sizes) or 1 << 40)
    path = _model(tmp_path / "m.onnx", numpy_helper.from_array(WEIGHTS, "w"))
    with budget.limited(path.stat().st_size):
        load_model(path)
    (before, unknown), (nbytes, others) = given
    assert unknown is None and min(before, nbytes) >= WEIGHTS.nbytes and (others or 0) < 2000
    monkeypatch.undo()
    sizes = 1 << 28, 1 << 27
    found = [budget.memory_for(sizes[0], others) >> 30 for others in (None, *sizes, 0)]
    assert found == [4, 4, 2, 1]


def test_a_broken_weight_is_refused(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(WEIGHTS, "w")
    weight.float_data.append(1.0)  # values in two places
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        load_model(_model(tmp_path / "m.onnx", weight))
