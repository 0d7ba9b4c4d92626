"""``nnjit run`` at several sizes: numbers are checked, and sizes that cannot be get a sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from nnjit_command import SANDBOX, json_lines, nnjit
from onnx import TensorProto, helper
from onnx_models import save

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(os.environ.get("NNJIT_SKIP_CHROMIUM") == "1", reason="no Chromium"),
]


def test_wrong_sizes_get_a_sentence_and_right_ones_are_checked(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "z"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    inputs = {"x": ["n", 5], "z": ["n", 1]}
    model = save(tmp_path / "m.onnx", nodes, inputs, {"y": ["n", 5]})
    page = ("--target", "chromium", "--database", tmp_path / "d.db", *SANDBOX, "--json")

    def run(*batches: tuple[int, int]) -> tuple[object, ...]:
        words: list[object] = []
        for i, (x, z) in enumerate(batches):
            file = tmp_path / f"in{i}.npz"
            np.savez(file, x=np.ones((x, 5), np.float32), z=np.ones((z, 1), np.float32))
            words += ["--inputs", file, "--outputs", tmp_path / f"out{i}.npz"]
        return ("run", model, *words, "--check", *page)

    refused = {((3, 3), (0, 0)): "'x' is empty", ((3, 3), (3, 4)): "'z' has the shape [4, 1]"}
    for batches, told in refused.items():
        result = nnjit(*run(*batches))
        assert result.returncode == 1 and told in json.loads(result.stdout)["error"]
    (right,) = json_lines(nnjit(*run((3, 3), (8, 8))))
    assert [r["outputs"] for r in right["runs"]] == [{"y": [3, 5]}, {"y": [8, 5]}]
    assert all(r["errors"]["y"] < 1e-5 for r in right["runs"])

    nodes = [helper.make_node("Add", ["x", "z"], ["a"]), helper.make_node("Sub", ["a", "z"], ["y"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, [5]) for n in "xzy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:2], ports[2:])), model)
    np.savez(tmp_path / "in0.npz", x=np.ones(5), z=np.full(5, 1e9))  # more than float32 tells
    words = ("--inputs", tmp_path / "in0.npz", "--outputs", tmp_path / "out0.npz", "--check")
    result = nnjit("run", model, *words, *page)
    wrong = json.loads(result.stdout)  # and nothing that says it went well
    assert result.returncode == 1 and not wrong["ok"] and "y (1.0e+00)" in wrong["error"]
