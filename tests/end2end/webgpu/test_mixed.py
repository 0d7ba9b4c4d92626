"""A model of which WebGPU runs some steps and Wasm the others, in Chromium, as in ONNX Runtime."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from bundle_page import run_bundle
from nnjit_command import SANDBOX, json_lines, nnjit, nnjit_here
from onnx import TensorProto, helper
from onnx_models import save

from nnjit_studio.bundle.reader import verify_bundle

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(os.environ.get("NNJIT_SKIP_CHROMIUM") == "1", reason="no Chromium"),
]
RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product on the GPU, where it is positive and these numbers in Wasm, and a softmax on the
    GPU again."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("NonZero", ["r"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["r", "rows"], ["values"]),
        helper.make_node("Softmax", ["r"], ["y"]),
    ]
    return save(
        tmp_path_factory.mktemp("mixed") / "m.onnx",
        nodes,
        {"x": [6, 8]},
        [
            helper.make_tensor_value_info("places", TensorProto.INT64, [2, "n"]),
            helper.make_tensor_value_info("values", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 8]),
        ],
        {"w": RNG.standard_normal((8, 8)).astype(np.float32)},
    )


def test_a_bundle_runs_on_both(model: Path, tmp_path: Path) -> None:
    bundle = model.with_suffix(".zip")
    words = ("-o", bundle, "--webgpu", "--json", "--database", tmp_path / "d.db")
    json_lines(nnjit_here("export", model, *words))
    assert not verify_bundle(bundle).foreign
    feeds = [{"x": RNG.standard_normal((6, 8)).astype(np.float32)} for _ in range(3)]
    page = {"isolated": False, "no_sandbox": bool(SANDBOX), "gpu": "software"}
    report = run_bundle(bundle, tmp_path / "site", feeds, **page)
    assert "error" not in report and report["tier"].startswith("wgsl"), report
    session = onnxruntime.InferenceSession(model)
    names = [o.name for o in session.get_outputs()]
    for feed, got in zip(feeds, report["results"], strict=True):
        for name, wanted in zip(names, session.run(names, feed), strict=True):
            data = np.frombuffer(base64.b64decode(got[name]["data"]), wanted.dtype)
            assert tuple(got[name]["dims"]) == wanted.shape
            np.testing.assert_allclose(data.reshape(wanted.shape), wanted, atol=1e-5)


def test_each_tensor_is_as_in_onnx_runtime_and_each_step_has_its_time(
    model: Path, tmp_path: Path
) -> None:
    page = ("--target", "chromium", "--database", tmp_path / "d.db", *SANDBOX, "--json")
    gpu = ("--backend", "webgpu", "--gpu", "software")
    (told,) = json_lines(nnjit("diff", model, *page, *gpu))
    assert told["bad"] == 0 and len(told["tensors"]) >= 4
    (found,) = json_lines(nnjit("profile", model, "--runs", 2, *page, *gpu))
    devices = [step["device"] for step in found["steps"]]
    assert set(devices) == {"webgpu", "wasm"} and devices[0] == "webgpu"
