"""``nnjit run`` at several sizes: numbers are checked, and sizes that cannot be get a sentence."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from nnjit_command import SANDBOX, json_lines, nnjit, nnjit_here
from onnx import helper
from onnx_models import save

from nnjit_studio.workbench import jobs

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
    files = [
        word for word in run((3, 3), (8, 8)) if not str(word).startswith(str(tmp_path / "out"))
    ]
    (right,) = json_lines(nnjit(*(word for word in files if word != "--outputs")))
    assert not (tmp_path / "out0.npz").exists(), "nobody asked for it"
    assert [r["outputs"] for r in right["runs"]] == [{"y": [3, 5]}, {"y": [8, 5]}]
    assert all(r["errors"]["y"] < 1e-5 for r in right["runs"])


def test_outputs_that_differ_are_one_document_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that said ok stood in front of the error."""
    nodes = [helper.make_node("Tanh", ["x"], ["y"])]
    model = save(tmp_path / "m.onnx", nodes, {"x": [2]}, {"y": [2]})
    page = ("--target", "chromium", "--database", tmp_path / "d.db", *SANDBOX, "--json")
    monkeypatch.setattr(jobs, "output_errors", lambda *_: {"y": math.inf})
    result = nnjit_here("run", model, "--outputs", tmp_path / "o.npz", "--check", *page)
    told = json.loads(result.stdout)  # one document
    assert result.returncode == 1 and not told["ok"] and "0.001: y." in told["error"]
    assert told["errors"] == {"y": "inf"} and (tmp_path / "o.npz").is_file()
