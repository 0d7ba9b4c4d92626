"""`nnjit profile --sizes` in the embedded engine: several sizes from one import."""

from __future__ import annotations

from pathlib import Path

import pytest
from nnjit_command import SANDBOX, json_lines, nnjit
from onnx import helper
from onnx_models import save

pytestmark = pytest.mark.embedded


def test_a_model_is_profiled_at_several_sizes(tmp_path: Path) -> None:
    softmax = helper.make_node("Softmax", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [softmax], {"x": ["batch", 9]}, {"y": ["batch", 9]})
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
