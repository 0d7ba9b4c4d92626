"""A bundle in WebKitGTK, right and by its own page, and `nnjit turbo` there: `make webkit`.

These are skipped unless NNJIT_WEBKIT is set; then a missing WebKit is a failure.
"""

from __future__ import annotations

import base64
import json
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from nnjit_command import nnjit
from test_loops import module_of, splat_kernel

from nnjit_studio.doctor.deployment.drivers import installed, open_page
from nnjit_studio.doctor.deployment.server import serving
from nnjit_studio.doctor.deployment.visitors import visitors
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser, Extras
from nnjit_studio.errors import TargetError
from nnjit_studio.foreign_wasm.turbo.gate.engines import engine_of
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings
from nnjit_studio.foreign_wasm.turbo.job import TurboOptions, turbo
from nnjit_studio.samples.zoo import write_model

pytestmark = pytest.mark.skipif(not os.environ.get("NNJIT_WEBKIT"), reason="make webkit runs it")

MODELS = ("mobilenet-v2", "distilbert")
RUN = """(async () => {
  const { InferenceSession, Tensor } = await import("./nnjit.js");
  const session = await InferenceSession.create("manifest.json", { numThreads: 0 });
  const feeds = {};
  for (const { name, dtype, shape, file } of session.manifest.samples.inputs) {
    const { type } = session.inputMetadata.find((each) => each.name === name);
    const Typed = new Tensor(type, [], [0]).data.constructor;
    feeds[name] = new Tensor(type, new Typed(await (await fetch(file)).arrayBuffer()), shape);
  }
  const outputs = await session.run(feeds);
  const text = (a) => {
    let made = "";
    const bytes = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
    for (const b of bytes) made += String.fromCharCode(b);
    return btoa(made);
  };
  const given = Object.entries(outputs).map(([name, { data, dims }]) =>
    [name, { dims, data: text(data) }]);
  return JSON.stringify({ agent: navigator.userAgent, tier: session.tier, threads: session.threads,
    isolated: crossOriginIsolated, outputs: Object.fromEntries(given) });
})()"""


@pytest.fixture(scope="module")
def webkit() -> Browser:
    found = [browser for browser in installed() if browser.kind == "webkit"]
    assert found, "WebKitWebDriver, MiniBrowser or Xvfb is missing: .ci/system.sh webkit"
    return found[0]


@pytest.fixture(scope="module", params=MODELS)
def deployed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, Path]]:
    """Address of a bundle, its folder, and the model it was made of."""
    folder = tmp_path_factory.mktemp("webkit")
    name = request.param
    model = write_model(name, folder / "m.onnx", small=name != MODELS[0])
    made = nnjit("export", model, "-o", folder / "m.zip", "--database", folder / "db.sqlite")
    assert made.returncode == 0, made.stderr
    with zipfile.ZipFile(folder / "m.zip") as archive:
        archive.extractall(folder / "site")
    with serving(folder / "site") as url:
        yield url, folder / "site", model


def test_outputs_are_those_of_onnx_runtime(
    webkit: Browser, deployed: tuple[str, Path, Path]
) -> None:
    url, site, model = deployed
    with open_page(webkit, f"{url}index.html#check") as evaluate:
        found = evaluate(RUN)
    assert "error" not in found, found
    print({name: found[name] for name in ("agent", "tier", "threads", "isolated")})
    assert "AppleWebKit" in found["agent"] and "Chrom" not in found["agent"]
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    expected = session.run(None, samples(site))
    for output, reference in zip(session.get_outputs(), expected, strict=True):
        given = found["outputs"][output.name]
        values = np.frombuffer(base64.b64decode(given["data"]), np.asarray(reference).dtype)
        scale = float(np.abs(reference).max())
        assert np.abs(values.reshape(given["dims"]) - reference).max() <= 1e-3 * scale


def samples(site: Path) -> dict[str, np.ndarray[Any, Any]]:
    manifest = json.loads((site / "manifest.json").read_text())
    dtypes = {"f32": "f4", "i64": "i8", "i32": "i4"}
    return {
        each["name"]: np.frombuffer((site / each["file"]).read_bytes(), dtypes[each["dtype"]])
        .reshape(each["shape"])
        for each in manifest["samples"]["inputs"]
    }  # fmt: skip


def test_its_own_page_draws_the_outputs(webkit: Browser, deployed: tuple[str, Path, Path]) -> None:
    with open_page(webkit, f"{deployed[0]}index.html") as evaluate:
        end = time.monotonic() + 120
        state = ""
        while state not in ("done", "failed") and time.monotonic() < end:
            state = evaluate("(async () => JSON.stringify(document.body.dataset.state ?? ''))()")
            time.sleep(0.2)
        text = evaluate("(async () => JSON.stringify(document.body.innerText))()")
    assert state == "done", text
    assert "WebAssembly" in text and "every hash checked" in text


def test_each_visitor_of_webkit_gets_an_answer(
    webkit: Browser, deployed: tuple[str, Path, Path]
) -> None:
    url = deployed[0]
    lacks = ("", "webgpu", "threads", "private")
    for found in visitors(f"{url}manifest.json", f"{url}index.html", [webkit], lacks):
        print(found)
        assert (found.error, found.backend) == ("", "wasm")


def test_turbo_measures_and_compares_in_it(tmp_path: Path) -> None:
    engine = engine_of("webkitgtk", False)
    assert engine.kind == "jsc" and engine.version.startswith("WebKitGTK 2")
    (tmp_path / "kernels.wasm").write_bytes(module_of(splat_kernel(4, 3), 40).data)
    settings = Settings(cases=6, rounds=8, call_ms=0.1, warmup_ms=5, least_gain=0.01)
    options = TurboOptions(target="webkitgtk", settings=settings)
    made = turbo(tmp_path / "kernels.wasm", None, options, print)
    (row,) = made.certificate["functions"]
    assert row["kept"] and row["executed"]["equal"] == settings.cases
    assert made.certificate["engine"]["vector_registers"] == 15


def test_what_needs_switches_is_refused(webkit: Browser) -> None:
    page = browsers.launch(webkit, "about:blank", extras=Extras(("--flag",)))
    with pytest.raises(TargetError, match="no switches"), page:
        pass
