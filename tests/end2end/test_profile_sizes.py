"""`nnjit profile --sizes` in the embedded engine: several sizes from one import."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from nnjit_command import SANDBOX, json_lines, nnjit
from onnx import TensorProto, helper

pytestmark = pytest.mark.embedded


def test_a_model_is_profiled_at_several_sizes(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 9]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    options = ["--runs", 6, "--database", tmp_path / "k.db", "--json", *SANDBOX]
    (found,) = json_lines(nnjit("profile", path, "--sizes", "1,7,3000", *options))
    assert [row["sizes"]["batch"] for row in found["rows"]] == [1, 7, 3000]
    for row in found["rows"]:
        assert 0 <= row["time"]["low"] <= row["time"]["ms"] <= row["time"]["high"]
        assert row["time"]["count"] == 6
    assert found["rows"][0]["live_bytes"] < found["rows"][2]["live_bytes"]
    assert found["rows"][2]["time"]["ms"] > 0
    refused = nnjit("profile", path, "--sizes", "rows=1,7", *options)
    assert refused.returncode == 1 and "no open dimension" in refused.stdout + refused.stderr
