"""Outputs as large as their data says: a bundle and the command in Chromium, as in ONNX Runtime."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from bundle_page import run_bundle
from nnjit_command import SANDBOX, json_lines, nnjit, nnjit_here
from onnx import TensorProto, helper
from onnx_models import save

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(os.environ.get("NNJIT_SKIP_CHROMIUM") == "1", reason="no Chromium"),
]
RNG = np.random.default_rng(5)
SOME = RNG.standard_normal((6, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where numbers are positive, in two forms, and these numbers."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["values"]),
    ]
    return save(
        tmp_path_factory.mktemp("found") / "m.onnx",
        nodes,
        {"x": list(SOME.shape)},
        [
            helper.make_tensor_value_info("places", TensorProto.INT64, [2, "n"]),
            helper.make_tensor_value_info("rows", TensorProto.INT64, ["n", 2]),
            helper.make_tensor_value_info("values", TensorProto.FLOAT, ["n"]),
        ],
    )


def compare(report: Any, model: Path, feeds: list[dict[str, Any]]) -> None:
    """What a page gave for each of the feeds, with ONNX Runtime."""
    assert "error" not in report, report
    session = onnxruntime.InferenceSession(model)
    names = [o.name for o in session.get_outputs()]
    for feed, got in zip(feeds, report["results"], strict=True):
        for name, wanted in zip(names, session.run(names, feed), strict=True):
            assert tuple(got[name]["dims"]) == wanted.shape
            data = np.frombuffer(base64.b64decode(got[name]["data"]), wanted.dtype)
            np.testing.assert_array_equal(data.reshape(wanted.shape), wanted)


def test_a_bundle_gives_as_much_as_is_found(model: Path, tmp_path: Path) -> None:
    bundle = model.with_suffix(".zip")
    json_lines(nnjit_here("export", model, "-o", bundle, "--json", "--database", tmp_path / "d.db"))
    feeds = [{"x": x} for x in (SOME, -np.abs(SOME), np.abs(SOME) + 1, -SOME, SOME)]
    report = run_bundle(bundle, tmp_path / "site", feeds, isolated=True, no_sandbox=bool(SANDBOX))
    compare(report, model, feeds)


def test_the_command_writes_as_much_as_is_found_and_compares_it(
    model: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "in.npz", x=SOME)
    page = ("--target", "chromium", "--database", tmp_path / "d.db", *SANDBOX, "--json")
    words = (model, "--inputs", tmp_path / "in.npz")
    (ran,) = json_lines(nnjit("run", *words, "--outputs", tmp_path / "out.npz", *page))
    count = int((SOME > 0).sum())
    assert ran["outputs"] == {"places": [2, count], "rows": [count, 2], "values": [count]}
    written = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(written["values"], SOME[SOME > 0])
    (told,) = json_lines(nnjit("diff", *words, *page))
    shapes = {t["tensor"]: t["shape"] for t in told["tensors"] if t["output"]}
    assert shapes == {"places": [2, count], "rows": [count, 2], "values": [count]}
    assert told["bad"] == 0 and not [m for m in told["missing"] if m["kind"] == "shape"]


def test_a_bundle_for_any_size_gives_as_much_as_is_found(model: Path, tmp_path: Path) -> None:
    open_, bundle = onnx.load(model), tmp_path / "m.zip"
    for dim, name in zip(open_.graph.input[0].type.tensor_type.shape.dim, "hw", strict=True):
        dim.dim_param = name
    onnx.save(open_, tmp_path / "m.onnx")
    words = ("-o", bundle, "--json", "--database", tmp_path / "d.db")
    json_lines(nnjit_here("export", tmp_path / "m.onnx", *words))
    drawn = [RNG.standard_normal(s).astype(np.float32) for s in ((3, 5), (17, 4), (6, 31))]
    feeds = [{"x": x} for x in (*drawn, -np.abs(SOME))]
    report = run_bundle(bundle, tmp_path / "site", feeds, isolated=True, no_sandbox=bool(SANDBOX))
    compare(report, tmp_path / "m.onnx", feeds)
