"""A bundle on a static server, run by a page in headless Chromium."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnjit_command import LONG_S
from static_server import serve

from nnjit_studio.engine.browsers import browsers

PAGE = """<!doctype html><meta charset="utf-8"><script type="module" src="check.js"></script>"""
SCRIPT = """
import { InferenceSession, Tensor } from "./nnjit.js";
const bytes = (a) => {
  let text = "";
  const view = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  for (const b of view) text += String.fromCharCode(b);
  return btoa(text);
};
try {
  const { feeds: given, provider } = await (await fetch("feeds.json")).json();
  const session = await InferenceSession.create("manifest.json",
    { executionProviders: [provider], numThreads: 2 });
  const results = [];
  for (const feeds of given) {
    const inputs = Object.fromEntries(Object.entries(feeds).map(([name, values]) =>
      [name, Array.isArray(values)
        ? new Tensor("int64", BigInt64Array.from(values.map(BigInt)), [1, values.length])
        : new Tensor("float32", Float32Array.from(values.data), values.dims)]));
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


def run_bundle(
    bundle: Path,
    site: Path,
    feeds: Sequence[Mapping[str, Any]],
    *,
    isolated: bool,
    no_sandbox: bool,
    browser: str = "chromium",
    gpu: str = "",
) -> dict[str, Any]:
    """Unpack a bundle, serve it and run it, one run for each feed of int64 rows or f32 arrays.

    With a ``gpu`` of the browser it runs on WebGPU.

    Returns
    -------
    dict
        ``results`` (name to ``dims``, ``type`` and base64 ``data``), ``isolated``, ``tier`` and
        ``threads``; or ``error``.
    """
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(site)
    (site / "check.html").write_text(PAGE)
    (site / "check.js").write_text(SCRIPT)
    rows = [{name: _sent(array) for name, array in feed.items()} for feed in feeds]
    provider = "webgpu" if gpu else "wasm"
    (site / "feeds.json").write_text(json.dumps({"feeds": rows, "provider": provider}))
    with (
        serve(site, isolated) as (url, reports),
        browsers.launch(browsers.find(browser), f"{url}/check.html", no_sandbox, gpu=gpu),
    ):
        return reports.get(timeout=LONG_S)


def _sent(array: Any) -> Any:
    """An int64 row as its numbers, an f32 array with its dims."""
    if array.dtype.kind == "f":
        return {"dims": list(array.shape), "data": array.ravel().tolist()}
    return array[0].tolist()
