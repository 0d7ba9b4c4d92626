"""WebGPU as a user meets it: tuned, run beside ONNX Runtime, compared with Wasm, in a bundle.

Real Chromium on its software adapter, and the embedded view over the bridge to wgpu-native.
"""

from __future__ import annotations

import base64
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from nnjit_command import LONG_S, SANDBOX, events_until, json_lines, nnjit, nnjit_here
from static_server import serve

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.records.outcomes import TIMED

TARGETS = [
    pytest.param("chromium", marks=pytest.mark.chromium),
    pytest.param("embedded", marks=pytest.mark.embedded),
]
LABELS = {"chromium": "chromium+webgpu+software", "embedded": "embedded+wgpu+software"}
CHECK_SCRIPT = """
import { InferenceSession, Tensor } from "./nnjit.js";
try {
  const session = await InferenceSession.create("manifest.json",
    { executionProviders: ["webgpu", "wasm"] });
  const x = new Tensor("float32", await (await fetch("x.json")).json(), [24, 40]);
  const { y } = await session.run({ x });
  const bytes = new Uint8Array(y.data.buffer, y.data.byteOffset, y.data.byteLength);
  await fetch("/", { method: "POST", body: JSON.stringify({
    provider: session.executionProvider, reason: session.fallbackReason, tier: session.tier,
    y: btoa(String.fromCharCode(...bytes)) }) });
} catch (e) {
  await fetch("/", { method: "POST", body: JSON.stringify({ error: String(e.stack || e) }) });
}
"""


def skip_what_is_not_here(target: str) -> None:
    if target == "chromium" and os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    if target == "embedded":
        pytest.importorskip("wgpu", reason="wgpu needs Python 3.11")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("webgpu")


@pytest.fixture(scope="module")
def small(folder: Path) -> Path:
    """Two products with epilogues, and a softmax."""
    rng = np.random.default_rng(0)
    sizes = {"w": (40, 64), "b": (64,), "v": (64, 36)}
    weights = {n: rng.uniform(-1, 1, s).astype(np.float32) for n, s in sizes.items()}
    spec = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "w"], ["p"]),
            onnx.helper.make_node("Add", ["p", "b"], ["q"]),
            onnx.helper.make_node("Relu", ["q"], ["r"]),
            onnx.helper.make_node("MatMul", ["r", "v"], ["s"]),
            onnx.helper.make_node("Softmax", ["s"], ["y"]),
        ],
        "small",
        [spec("x", onnx.TensorProto.FLOAT, [24, 40])],
        [spec("y", onnx.TensorProto.FLOAT, [24, 36])],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = folder / "small.onnx"
    onnx.save(model, path)
    np.savez(folder / "x.npz", x=rng.uniform(-1, 1, (24, 40)).astype(np.float32))
    return path


def on_gpu(target: str, database: Path) -> list[Any]:
    return ["--target", target, "--gpu", "software", "--json", "--database", database, *SANDBOX]


def some_measured(events: list[dict[str, Any]]) -> bool:
    """Rounds of each product are done, so the database has rows."""
    return sum(e["event"] == "round" for e in events) >= 4


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_is_tuned_and_runs_as_in_onnx_runtime(
    target: str, small: Path, folder: Path
) -> None:
    skip_what_is_not_here(target)
    given = on_gpu(target, folder / f"{target}.db")
    words = ["tune", small, "--backend", "webgpu", "--seconds", LONG_S, *given]
    events, code = events_until(some_measured, *words)
    summary = events[-1]
    assert (
        code == 0
        and summary["event"] == "summary"
        and summary["target"]["target"] == LABELS[target]
    )
    assert "software, no GPU" in summary["target"]["adapter"]
    assert summary["target"]["tier"] in ("wgsl", "wgsl-subgroups")
    measured = [e for e in events if e["event"] == "measured"]
    assert {e["state"] for e in measured} <= {*TIMED, "duplicate"}
    assert all("split=" in e["candidate"] for e in measured if e["state"] != "default")
    assert all(e["gpu_clock"] for e in measured if e["state"] != "duplicate")
    (shown,) = json_lines(nnjit_here("db", "list", "--json", "--database", folder / f"{target}.db"))
    assert {r["tier"] for r in shown} == {summary["target"]["tier"]}
    out = folder / f"{target}.npz"
    arrays = ["--inputs", folder / "x.npz", "--outputs", out]
    (ran,) = json_lines(nnjit("run", small, "--backend", "webgpu", *arrays, *given))
    assert ran["target"] == LABELS[target] and ran["fallback_reason"] == ""
    session = onnxruntime.InferenceSession(str(small))
    with np.load(folder / "x.npz") as feeds, np.load(out) as got:
        (expected,) = session.run(None, dict(feeds))
        np.testing.assert_allclose(got["y"], expected, atol=1e-5)


@pytest.mark.chromium
def test_wasm_and_webgpu_are_compared_on_one_page(small: Path, folder: Path) -> None:
    skip_what_is_not_here("chromium")
    (found,) = json_lines(nnjit("faster", small, "--runs", 2, *on_gpu("chromium", folder / "f.db")))
    assert found["faster"] in ("wasm", "webgpu", "even") and len(found["why"]) >= 2
    assert found["webgpu"]["target"] == LABELS["chromium"] and found["wasm"]["tier"]
    assert all(s["wasm_ms"] > 0 and s["webgpu_ms"] > 0 for s in found["steps"])
    assert found["webgpu"]["upload_ms"] > 0 and found["webgpu"]["readback_ms"] > 0
    assert any("says nothing of a GPU" in line for line in found["why"])


@pytest.fixture(scope="module")
def site(small: Path, folder: Path) -> Path:
    """A bundle with default kernels of both kinds, unpacked beside a page that runs it."""
    bundle, site = folder / "small.zip", folder / "site"
    database = ["--database", folder / "empty.db"]
    json_lines(nnjit_here("export", small, "-o", bundle, "--webgpu", "--json", *database))
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(site)
    with np.load(folder / "x.npz") as feeds:
        (site / "x.json").write_text(json.dumps(feeds["x"].ravel().tolist()))
    (site / "check.js").write_text(CHECK_SCRIPT)
    (site / "check.html").write_text('<script type="module" src="check.js"></script>')
    return site


@pytest.mark.chromium
@pytest.mark.parametrize(
    ("gpu", "damage", "provider", "reason"),
    [
        ("software", False, "webgpu", ""),
        ("", False, "wasm", "WebGPU"),
        ("software", True, "wasm", "its sha256 differs"),
    ],
)
def test_a_bundle_takes_the_first_provider_that_works(
    small: Path, folder: Path, site: Path, gpu: str, damage: bool, provider: str, reason: str
) -> None:
    skip_what_is_not_here("chromium")
    if damage:
        document = next((site / "kernels").glob("*.json"))
        document.write_text(document.read_text().replace("workgroup_size", "workgroup_sise"))
    with (
        serve(site, True) as (url, reports),
        browsers.launch(browsers.find("chromium"), f"{url}/check.html", bool(SANDBOX), gpu=gpu),
    ):
        report = reports.get(timeout=LONG_S)
    assert "error" not in report, report
    assert report["provider"] == provider and reason in report["reason"]
    y = np.frombuffer(base64.b64decode(report["y"]), np.float32).reshape(24, 36)
    with np.load(folder / "x.npz") as feeds:
        expected = onnxruntime.InferenceSession(str(small)).run(None, dict(feeds))[0]
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_software_is_refused_where_a_gpu_is_asked_for(
    target: str, small: Path, folder: Path
) -> None:
    skip_what_is_not_here(target)
    given = ["--target", target, "--json", "--database", folder / "r.db", *SANDBOX]
    result = nnjit("tune", small, "--backend", "webgpu", "--seconds", 1, *given)
    assert result.stdout, result.stderr[-3000:]
    document = json.loads(result.stdout.splitlines()[-1])
    if result.returncode == 0:
        assert document["target"]["gpu"]["is_fallback"] is False  # there is a GPU here
    else:
        assert document["kind"] == "user" and "--backend wasm" in document["hint"]
