"""Sizes that ONNX Runtime refuses are refused here too, where they would be taken for others."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import save

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import ModelError
from nnjit_studio.model import GivenShapes


@pytest.mark.parametrize("opset", [11, 17])
def test_parts_that_are_not_the_whole_are_refused(opset: int, tmp_path: Path) -> None:
    held = {"s": np.array([2, 3])} if opset > 11 else {}
    given = {} if held else {"split": [2, 3]}
    node = helper.make_node("Split", ["x", *held], ["y", "z"], "parts", axis=1, **given)
    outputs = {"y": [1, 2], "z": [1, 3]}
    path = save(tmp_path / "m.onnx", [node], {"x": [1, "n"]}, outputs, held, opset=opset)
    for n, fits in ((5, True), (6, False)):
        shapes = GivenShapes(shapes={"x": (1, n)})
        with nullcontext() if fits else pytest.raises(ModelError, match="add up to 6: they are 5"):
            import_model(path, tmp_path / "w.bin", given=shapes)


def test_more_rows_of_indices_than_the_data_has_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], "rows", axis=1)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("i", TensorProto.INT64, ["n", 5]),
    ]
    path = save(tmp_path / "m.onnx", [node], inputs, {"y": [None, 5]})
    for n, fits in ((2, True), (3, False)):
        shapes = GivenShapes(shapes={"i": (n, 5)})
        with nullcontext() if fits else pytest.raises(ModelError, match="at most 2 rows of ind"):
            import_model(path, tmp_path / "w.bin", given=shapes)
