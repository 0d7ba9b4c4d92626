"""`nnjit tune --sizes` in the embedded engine, and a bundle that takes its settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnjit_command import SANDBOX, json_lines, nnjit, nnjit_here
from onnx import helper
from onnx_models import save

pytestmark = pytest.mark.embedded
RNG = np.random.default_rng(5)


def model(folder: Path, name: str, dim: str, *more: str) -> Path:
    """A product over any number of rows, and what is behind it."""
    names = ["h0", *(f"h{i + 1}" for i in range(len(more)))]
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h0"]),
        *(helper.make_node(op, [names[i]], [names[i + 1]]) for i, op in enumerate(more)),
    ]
    weights = {"w": RNG.random((48, 64), np.float32), "b": RNG.random(64, np.float32)}
    return save(folder / name, nodes, {"x": [dim, 48]}, {names[-1]: [dim, 64]}, weights)


def test_one_tuning_for_many_sizes_serves_another_model(tmp_path: Path) -> None:
    path, database = model(tmp_path, "a.onnx", "rows"), tmp_path / "k.db"
    (tmp_path / "rows.txt").write_text("4 30\n90\n")
    words = ["--sizes", "4,90", "--histogram", tmp_path / "rows.txt", "--seconds", 20]
    lines = json_lines(nnjit("tune", path, *words, "--database", database, "--json", *SANDBOX))
    kinds = [line["event"] for line in lines]
    assert kinds[0] == "started" and kinds[-2:] == ["summary", "sizes"]
    found = lines[-1]
    assert found["shares"] == [pytest.approx(30 / 31), pytest.approx(1 / 31)]
    assert found["tuned"] == {"rows": 4}, "most work is done there"
    (kernel,) = found["kernels"]
    assert kernel["kernel"].startswith("matmul:?x48x64:f32+bias#")
    assert [row["size"] for row in kernel["at"]] == [4, 90]
    compared = kernel["at"][1]["speedups"]
    assert compared and all(low <= speed <= high for speed, low, high in compared.values())
    assert kernel["gain"] >= 1 and kernel["table"][-1]["up_to"] is None

    (known,) = json_lines(nnjit_here("db", "sizes", "--database", database, "--json"))[0]
    assert known == kernel

    other = model(tmp_path, "b.onnx", "length", "Softmax")
    words = ["-o", tmp_path / "b.zip", "--database", database]
    exported = nnjit_here("export", other, *words)
    assert "1 of 2 kernels have settings compared at several sizes." in exported.stderr
    refused = nnjit_here("tune", path, "--sizes", "4,90", "--plan")
    assert refused.returncode == 1 and "without --plan" in refused.stderr
    alone = nnjit_here("tune", path, "--shares", "3,1")
    assert alone.returncode == 1 and "Give --sizes too" in alone.stderr
