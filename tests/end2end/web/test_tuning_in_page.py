"""Tuning in a real page: the bundle's own engine, a worker, IndexedDB.

Firefox tries the candidates of the bundle, Chromium those of a real compile service.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import wasmtime
from nnjit_command import LONG_S, SANDBOX, nnjit
from onnx import helper
from onnx_models import save
from static_server import serve

from nnjit_studio.engine.browsers import browsers

ROWS, WIDTH = 64, 96
PAGE = """
<!doctype html><meta charset="utf-8"><title>tuning</title><div id="gains"></div>
<script type="module">
import { InferenceSession, Tensor } from "./nnjit.js";
import { showGains } from "./sdk/tuning/gains.js";
const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const queue = new URL(location).searchParams.get("queue") ?? undefined;
const values = Float32Array.from({ length: 64 * 96 }, (_, i) => ((i * 37) % 101) / 50 - 1);
async function visit(least_ms, most_ms, tried) {
  const began = performance.now();
  const session = await InferenceSession.create("./manifest.json");
  const x = () => new Tensor("float32", values, [64, 96]);
  const run = async () => (await session.run({ x: x() })).y.data;
  const first = await run();
  let [ended, worst] = [false, 0];
  const done = session.tune({ when: "now", budgetMs: 20_000, queue });
  done.finally(() => (ended = true));
  const end = showGains(document.getElementById("gains"), session);
  const past = () => performance.now() - began;
  const measured = () => session.tuningReport().tried.filter((r) => r.isolated).length;
  const enough = () => past() > least_ms && measured() >= tried;
  while (!ended && !enough() && past() < most_ms) {
    (await run()).forEach((y, i) => (worst = Math.max(worst, Math.abs(y - first[i]))));
    await rest(150);
  }
  await session.release();
  const report = await done;
  end();
  return { ...report, worst, size: Math.max(...first.map(Math.abs)) };
}
try {
  const visits = [await visit(6000, 120_000, 1), await visit(2000, 2000, 0)];
  const text = document.getElementById("gains").textContent;
  await fetch("/", { method: "POST", body: JSON.stringify({ visits, text }) });
} catch (e) {
  await fetch("/", { method: "POST", body: JSON.stringify({ error: String(e.stack) }) });
}
</script>
"""


def two_products(path: Path) -> Path:
    rng = np.random.default_rng(5)
    square = WIDTH, WIDTH
    weights = {f"w{i}": rng.standard_normal(square).astype(np.float32) / 10 for i in range(2)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w1"], ["y"]),
    ]
    return save(path, nodes, {"x": [ROWS, WIDTH]}, {"y": [ROWS, WIDTH]}, weights)


def plant_slow_kernels(site: Path) -> dict[str, int]:
    """Plain loops in place of the bundle's own kernels, as a slow first guess; the products."""
    manifest = json.loads((site / "manifest.json").read_text())
    del manifest["sha256"]  # of what is changed here
    trials = {t["workload"]: t["args"] for t in manifest["candidates"]["trials"]}
    for kernel in manifest["kernels"]:
        pointers = len(trials[kernel["workload"]])
        clamp = "f32.const 0 f32.max" if "relu" in kernel["workload"] else ""
        data = bytes(wasmtime.wat2wasm(plain_product(pointers, clamp)))
        digest = hashlib.sha256(data).hexdigest()
        (site / f"kernels/{digest}.wasm").write_bytes(data)
        entry = {"file": f"kernels/{digest}.wasm", "sha256": digest, "nbytes": len(data)}
        kernel |= {"settings": "planted", "panels": [], "parallel_extent": ROWS}
        kernel["tiers"] = {"simd128": entry}
    (site / "manifest.json").write_text(json.dumps(manifest))
    return {w: len(a) for w, a in trials.items()}


def plain_product(pointers: int, clamp: str) -> str:
    """``run(x, w, out, ..., begin, end)`` over rows of ``x``, without vectors."""
    at = f"(i32.add (i32.mul (local.get $i) (i32.const {WIDTH})) (local.get %s))"
    of_x = f"(i32.add (local.get 0) (i32.shl {at % '$k'} (i32.const 2)))"
    to = f"(i32.add (local.get 2) (i32.shl {at % '$j'} (i32.const 2)))"
    of_w = (
        f"(i32.add (local.get 1) (i32.shl (i32.add (i32.mul (local.get $k) (i32.const {WIDTH}))"
        " (local.get $j)) (i32.const 2)))"
    )

    def loop(name: str, end: str, body: str) -> str:
        step = f"(local.set ${name} (i32.add (local.get ${name}) (i32.const 1)))"
        leave = f"(br_if ${name}_end (i32.ge_s (local.get ${name}) {end}))"
        return f"(block ${name}_end (loop ${name}_loop {leave} {body} {step} (br ${name}_loop)))"

    product = f"(f32.mul (f32.load {of_x}) (f32.load {of_w}))"
    add = f"(local.set $sum (f32.add (local.get $sum) {product}))"
    zero = "(local.set $k (i32.const 0)) (local.set $sum (f32.const 0))"
    inner = loop("k", f"(i32.const {WIDTH})", add)
    column = f"{zero} {inner} {to} local.get $sum {clamp} f32.store"
    row = f"(local.set $j (i32.const 0)) {loop('j', f'(i32.const {WIDTH})', column)}"
    rows = f"(local.set $i (local.get {pointers})) {loop('i', f'(local.get {pointers + 1})', row)}"
    parameters = "i32 " * (pointers + 2)
    return (
        f'(module (import "env" "memory" (memory 1)) (func (export "run") (param {parameters})'
        f" (local $i i32) (local $j i32) (local $k i32) (local $sum f32) {rows}))"
    )


@contextmanager
def compile_service(kernels: Path) -> Iterator[str]:
    """A server with one compile process."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "nnjit_studio", "server", "start", "--compile", "1"]
    command += ["--database", f"sqlite:///{kernels.parent}/commons.db", "--kernels", str(kernels)]
    process = subprocess.Popen([*command, "--port", str(port)])
    try:
        for _ in range(600):
            assert process.poll() is None
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def leave_out_candidates(site: Path) -> None:
    """As ``--programs`` alone exports it."""
    manifest = json.loads((site / "manifest.json").read_text())
    manifest["candidates"]["kernels"] = []
    (site / "manifest.json").write_text(json.dumps(manifest))


def test_a_page_tunes_its_model_and_remembers_what_it_found(tmp_path: Path) -> None:
    model, bundle = two_products(tmp_path / "two.onnx"), tmp_path / "two.zip"
    options = ("--candidates", 2, "--programs", tmp_path / "kernels/programs")
    options += ("--database", tmp_path / "k.db")
    exported = nnjit("export", model, "-o", bundle, *options)
    assert exported.returncode == 0, exported.stderr
    site = tmp_path / "site"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(site)
    listed = json.loads((site / "manifest.json").read_text())["candidates"]["kernels"]
    assert len(listed) == 4  # two of each product
    assert len(plant_slow_kernels(site)) == 2
    (site / "tuning.html").write_text(PAGE)
    found = {b.name: b for b in browsers.find_all() if b.name in ("chromium", "firefox")}
    assert found
    for name, browser in sorted(found.items(), reverse=True):  # Firefox first
        with ExitStack() as stack:
            url, reports = stack.enter_context(serve(site, isolated=False))
            page = f"{url}/tuning.html"
            if name == "chromium":
                leave_out_candidates(site)
                page += f"?queue={stack.enter_context(compile_service(tmp_path / 'kernels'))}"
            stack.enter_context(browsers.launch(browser, page, bool(SANDBOX)))
            answer = reports.get(timeout=LONG_S)
        assert "error" not in answer, (browser.name, answer)
        first, second = answer["visits"]
        assert first["state"] in ("done", "budget used", "stopped"), browser.name
        assert first["tried"], browser.name
        outcomes = {r["outcome"] for r in (*first["tried"], *second["tried"])}
        assert not outcomes & {"wrong", "failed"}, (browser.name, first["tried"])
        assert (first["visits"], second["visits"]) == (1, 2), browser.name
        assert first["remembered"]
        assert any(r["isolated"] for r in first["tried"]), first["tried"]
        won = {r["workload"]: r["settings"] for r in first["tried"] if r["outcome"] == "won"}
        for workload, settings in won.items():
            later = [r for r in second["tried"] if r["workload"] == workload]
            assert second["kernels"][workload] == settings or later, browser.name
        for visit in (first, second):
            assert visit["worst"] < 1e-5 * visit["size"], browser.name
            assert visit["shared"] == ""
        assert "Times sentnowhere" in answer["text"]
        if name == "chromium":
            assert first["queue"]["kernels"] > 0 and not first["queue"]["problem"], first["queue"]
            assert all(r["candidate"] == -1 for r in first["tried"]), "of the service"
            for each in (tmp_path / "kernels").glob("*.wasm"):
                assert hashlib.sha256(each.read_bytes()).hexdigest() == each.stem
