"""An input whose declared shape does not fit the weights is refused with both numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import save

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import ModelError

ROWS, IMAGE = [3, 5], [1, 5, 8, 8]
KERNEL = np.ones((4, 6, 3, 3), np.int8)
QUANTISED = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
BLOCKS = {"K": 64, "N": 8, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
CASES: dict[str, tuple[list[int], list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "MatMul": (
        ROWS,
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"w": np.ones((6, 4), np.float32)},
    ),
    "MatMulInteger": (
        ROWS,
        [QUANTISED, helper.make_node("MatMulInteger", ["q", "w", "zero"], ["y"])],
        {"w": np.ones((6, 4), np.int8)},
    ),
    "MatMulNBits": (
        [3, 5],
        [helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], **BLOCKS)],
        {"w": np.ones((8, 2, 16), np.uint8), "s": np.ones(16, np.float32)},
    ),
    "Conv": (
        IMAGE,
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        {"w": KERNEL.astype(np.float32)},
    ),
    "ConvInteger": (
        IMAGE,
        [QUANTISED, helper.make_node("ConvInteger", ["q", "w", "zero"], ["y"])],
        {"w": KERNEL},
    ),
    "LSTM": (
        [3, 1, 5],
        [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)],
        {"w": np.ones((1, 16, 6), np.float32), "r": np.ones((1, 16, 4), np.float32)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sentence_has_both_numbers(case: str, tmp_path: Path) -> None:
    shape, nodes, weights = CASES[case]
    kind = 6 if case.endswith("Integer") else 1
    y = helper.make_tensor_value_info("y", kind, [None] * (4 if case == "LSTM" else len(shape)))
    x = helper.make_tensor_value_info("x", 1, shape)
    domains = ("", "com.microsoft")
    path = save(tmp_path / "m.onnx", nodes, [x], [y], weights, domains)
    count = 64 if case == "MatMulNBits" else 6
    with pytest.raises(ModelError) as caught:
        import_model(path, tmp_path / "w.bin")
    assert "Node 'y' reads an input of the shape" in caught.value.error
    assert "with 5 numbers" in caught.value.error
    assert caught.value.error.endswith(f"weights are for {count}.")
