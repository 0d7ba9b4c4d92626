"""The real model: tuned in the embedded view, right, and the same as a bundle in Chromium."""

from __future__ import annotations

import base64
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from nnjit_command import SANDBOX, json_lines, nnjit
from static_server import serve

from nnjit_studio.link import browsers
from nnjit_studio.sample import encode

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]

SENTENCES = (
    "A man is eating food.",
    "Someone eats a meal.",
    "The stock market fell sharply on Tuesday.",
)

CHECK_PAGE = (
    """<!doctype html><meta charset="utf-8"><script type="module" src="check.js"></script>"""
)
CHECK_SCRIPT = """
import { InferenceSession, Tensor } from "./nnjit.js";
const bytes = (a) => {
  let text = "";
  const view = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  for (const b of view) text += String.fromCharCode(b);
  return btoa(text);
};
try {
  const session = await InferenceSession.create("manifest.json",
    { executionProviders: ["wasm"], numThreads: 2 });
  const given = await (await fetch("feeds.json")).json();
  const results = [];
  for (const feeds of given) {
    const inputs = Object.fromEntries(Object.entries(feeds).map(([name, values]) =>
      [name, new Tensor("int64", BigInt64Array.from(values.map(BigInt)), [1, values.length])]));
    const out = await session.run(inputs);
    results.push(Object.fromEntries(session.outputNames.map((n) =>
      [n, { dims: out[n].dims, type: out[n].type, data: bytes(out[n].data) }])));
  }
  await fetch("/", { method: "POST", body: JSON.stringify({
    results, isolated: crossOriginIsolated, tier: session.tier, threads: session.threads }) });
} catch (e) {
  await fetch("/", { method: "POST", body: JSON.stringify({ error: String(e.stack || e) }) });
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("minilm")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    path = folder / "minilm.onnx"
    json_lines(nnjit("sample", "minilm", "-o", path, "--json"))
    return path


@pytest.fixture(scope="module")
def events(model: Path, folder: Path) -> list[dict[str, Any]]:
    return json_lines(
        nnjit("tune", model, "--seconds", 30, "--json", "--database", folder / "k.db", *SANDBOX)
    )


@pytest.fixture(scope="module")
def expected(model: Path) -> list[dict[str, np.ndarray]]:
    session = onnxruntime.InferenceSession(str(model))
    names = [o.name for o in session.get_outputs()]
    return [dict(zip(names, session.run(None, encode([s])), strict=True)) for s in SENTENCES]


def test_every_matmul_gets_its_rounds(events: list[dict[str, Any]]) -> None:
    measured: dict[str, set[str]] = {}
    for event in events:
        if event["event"] == "measured" and event["candidate"] != "default":
            measured.setdefault(event["workload"], set()).add(event["candidate"])
    spaces = {e["workload"] for e in events if e["event"] == "space"}
    assert len(spaces) == 7
    assert {w: len(c) for w, c in measured.items() if w in spaces and len(c) < 10} == {}
    assert spaces <= set(measured)


def test_no_kernel_was_wrong(events: list[dict[str, Any]]) -> None:
    states = {e["state"] for e in events if e["event"] == "measured"}
    assert states <= {"won", "slower", "default", "duplicate"}


def test_run_equals_onnxruntime(
    events: list[dict[str, Any]],
    model: Path,
    folder: Path,
    expected: list[dict[str, np.ndarray]],
) -> None:
    embeddings = []
    for i, sentence in enumerate(SENTENCES):
        np.savez(folder / "in.npz", **encode([sentence]))
        out = folder / f"out{i}.npz"
        json_lines(
            nnjit(
                "run",
                model,
                "--inputs",
                folder / "in.npz",
                "--outputs",
                out,
                "--json",
                "--database",
                folder / "k.db",
                *SANDBOX,
            )
        )
        with np.load(out) as arrays:
            for name, reference in expected[i].items():
                scale = np.abs(reference).max()
                assert np.abs(arrays[name] - reference).max() <= 1e-3 * scale
            embeddings.append(arrays["sentence_embedding"][0])
    paraphrase = float(embeddings[0] @ embeddings[1])
    unrelated = float(embeddings[0] @ embeddings[2])
    assert paraphrase > unrelated + 0.3


@pytest.mark.chromium
@pytest.mark.parametrize("isolated", [True, False])
def test_bundle_in_chromium(
    events: list[dict[str, Any]],
    model: Path,
    folder: Path,
    expected: list[dict[str, np.ndarray]],
    isolated: bool,
) -> None:
    import json

    bundle = folder / "minilm.zip"
    if not bundle.exists():
        json_lines(nnjit("export", model, "-o", bundle, "--json", "--database", folder / "k.db"))
        json_lines(nnjit("verify", bundle, "--json"))
    site = folder / f"site-{isolated}"
    with zipfile.ZipFile(bundle) as z:
        z.extractall(site)
    (site / "check.html").write_text(CHECK_PAGE)
    (site / "check.js").write_text(CHECK_SCRIPT)
    feeds = [{k: v[0].tolist() for k, v in encode([s]).items()} for s in SENTENCES]
    (site / "feeds.json").write_text(json.dumps(feeds))
    with (
        serve(site, isolated) as (url, reports),
        browsers.launch(browsers.find("chromium"), f"{url}/check.html", bool(SANDBOX)),
    ):
        report = reports.get(timeout=120)
    assert "error" not in report, report
    assert report["isolated"] is isolated
    assert report["tier"] == "relaxed-simd"
    assert report["threads"] == (2 if isolated else 1)
    for got, reference in zip(report["results"], expected, strict=True):
        for name, array in reference.items():
            assert got[name]["dims"] == list(array.shape)
            data = np.frombuffer(base64.b64decode(got[name]["data"]), np.float32)
            scale = np.abs(array).max()
            assert np.abs(data.reshape(array.shape) - array).max() <= 1e-3 * scale
