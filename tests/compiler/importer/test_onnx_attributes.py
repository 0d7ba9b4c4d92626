"""Operators and attributes of an ONNX file's nodes, as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx_models import save

from nnjit_studio.compiler.onnx_file.attributes import LONGEST, attributes_of
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.errors import ModelError


def model(path: Path) -> Path:
    table = numpy_helper.from_array(np.zeros((3, 2), np.float32), "")
    nodes = [
        helper.make_node("Constant", [], ["c"], "table", value=table),
        helper.make_node("Transpose", ["c"], ["t"], "turn", perm=[1, 0]),
        helper.make_node("LeakyRelu", ["t"], ["y"], alpha=0.5),
        helper.make_node("Constant", [], ["n"], "numbers", value_ints=list(range(200))),
    ]
    return save(path, nodes, {}, {"y": [2, 3]})


def test_values_are_told_as_text(tmp_path: Path) -> None:
    found = attributes_of(model(tmp_path / "m.onnx"))
    assert found["table"] == {"op": "Constant", "value": "tensor 3x2 float"}
    assert found["turn"] == {"op": "Transpose", "perm": "[1, 0]"}
    assert found["y"] == {"op": "LeakyRelu", "alpha": "0.5"}, "by its output"
    assert len(found["numbers"]["value_ints"]) == LONGEST


def test_the_compile_process_reads_them(tmp_path: Path) -> None:
    process = CompileProcess()
    try:
        path = model(tmp_path / "m.onnx")
        assert process.onnx_attributes(path) == attributes_of(path)
        with pytest.raises(ModelError, match=r"There is no file 'gone.onnx'"):
            process.onnx_attributes(tmp_path / "gone.onnx")
    finally:
        process.close()
