"""`nnjit advise` in the embedded engine, on a model of two products and two outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from nnjit_command import SANDBOX, nnjit
from onnx import helper
from onnx_models import save


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", ["x", w], [y], y) for w, y in (("w", "y"), ("v", "z"))]
    weights = {n: rng.standard_normal((128, 128)).astype(np.float32) for n in "wv"}
    shape = [32, 128]
    return save(tmp_path / "tiny.onnx", nodes, {"x": shape}, {"y": shape, "z": shape}, weights)


def advised(model: Path, code: int, *options: str) -> dict:
    database = model.with_name("kernels.db")
    command = ("advise", model, "--seconds", "1", "--json", "--database", database)
    done = nnjit(*command, *options, *SANDBOX)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.embedded
def test_rows_are_measured_judged_and_held_to_budgets(model: Path) -> None:
    only = [word for name in ("f16-weights", "4-bit") for word in ("--only", name)]
    made = advised(model, 1, *only, "--max-mb", "0.05")
    rows = {row["name"]: row for row in made["rows"]}
    assert set(rows) == {"f16-weights", "4-bit"} and made["base"]["max_error"] < 1e-5
    assert made["base"]["download_bytes"] > 2 * 128 * 128 * 4, "weights are a part of it"
    half, four = rows["f16-weights"]["measured"], rows["4-bit"]["measured"]
    assert half["download_bytes"] < made["base"]["download_bytes"] - 60_000
    assert four["memory_mib"] > 0 and half["ms"]["median"] > 0
    assert 1e-6 < half["max_error"] < 1e-2 < four["max_error"] and half["cosine"] > 0.999
    assert rows["f16-weights"]["guard"]["state"] == "kept"
    assert rows["4-bit"]["guard"]["state"] == "broken" and "by itself" in four["worst_layer"]
    assert [b["state"] for b in made["budgets"]] == ["broken"]


@pytest.mark.embedded
def test_a_row_is_applied_unless_the_guard_refuses_it(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.onnx"
    refused = advised(model, 1, "--apply", "4-bit", "-o", str(out))
    assert "not applied" in refused["error"] and not out.exists()
    made = advised(model, 0, "--apply", "only-y", "-o", str(out))
    assert made["applied"]["file"] == str(out) and made["applied"]["asks"]
    assert [port.name for port in onnx.load(str(out)).graph.output] == ["y"]
