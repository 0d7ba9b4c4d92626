"""Bundles on a static server, run by a page in headless Chromium."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nnjit_command import LONG_S
from static_server import serve

from nnjit_studio.engine.browsers import browsers

PAGE = """<!doctype html><meta charset="utf-8"><script type="module" src="check.js"></script>"""
SCRIPT = """
const bytes = (a) => {
  let text = "";
  const view = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  for (const b of view) text += String.fromCharCode(b);
  return btoa(text);
};
const answer = (body) => fetch("/", { method: "POST", body: JSON.stringify(body) });
for (let n = 0; ; n++) {
  let job;
  while (!(job = await fetch(`${n}/feeds.json`)).ok) await new Promise((go) => setTimeout(go, 250));
  try {
    const { feeds: given, provider } = await job.json();
    const { InferenceSession, Tensor } = await import(`./${n}/nnjit.js`);
    const session = await InferenceSession.create(`${n}/manifest.json`,
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
    const { tier, threads } = session;
    await session.release();
    await answer({ results, isolated: crossOriginIsolated, tier, threads });
  } catch (e) {
    await answer({ error: String(e.stack || e) });
  }
}
"""
Feeds = Sequence[Mapping[str, Any]]
RunBundle = Callable[[Path, Feeds], dict[str, Any]]


def run_bundle(bundle: Path, site: Path, feeds: Feeds, **options: Any) -> dict[str, Any]:
    """One bundle in a browser of its own; see :func:`bundle_page`."""
    with bundle_page(site, **options) as run:
        return run(bundle, feeds)


@contextmanager
def bundle_page(
    site: Path,
    *,
    isolated: bool,
    no_sandbox: bool,
    browser: str = "chromium",
    gpu: str = "",
) -> Iterator[RunBundle]:
    """A page that runs bundles one after the other, each with one run for each feed.

    A feed has int64 rows or f32 arrays. With a ``gpu`` of the browser they run on WebGPU. Each
    bundle is unpacked into a folder of its own below ``site``.

    Yields
    ------
    RunBundle
        Its dict: ``results`` (name to ``dims``, ``type`` and base64 ``data``), ``isolated``,
        ``tier`` and ``threads``; or ``error``.
    """
    site.mkdir(parents=True, exist_ok=True)
    (site / "check.html").write_text(PAGE)
    (site / "check.js").write_text(SCRIPT)
    provider, numbers = "webgpu" if gpu else "wasm", itertools.count()
    with (
        serve(site, isolated) as (url, reports),
        browsers.launch(browsers.find(browser), f"{url}/check.html", no_sandbox, gpu=gpu),
    ):

        def run(bundle: Path, feeds: Feeds) -> dict[str, Any]:
            place = site / str(next(numbers))
            with zipfile.ZipFile(bundle) as archive:
                archive.extractall(place)
            rows = [{name: _sent(array) for name, array in feed.items()} for feed in feeds]
            whole = place / "feeds.part"
            whole.write_text(json.dumps({"feeds": rows, "provider": provider}))
            whole.rename(place / "feeds.json")  # which the page waits for
            return reports.get(timeout=LONG_S)

        yield run


def _sent(array: Any) -> Any:
    """An int64 row as its numbers, an f32 array with its dims."""
    if array.dtype.kind == "f":
        return {"dims": list(array.shape), "data": array.ravel().tolist()}
    return array[0].tolist()
