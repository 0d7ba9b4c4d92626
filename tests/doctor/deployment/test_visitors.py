"""Visitors of a deployed bundle, in browsers that are there and in imagined ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nnjit_studio.doctor.deployment import visitors as module
from nnjit_studio.doctor.deployment.drivers import installed
from nnjit_studio.doctor.deployment.visitors import LACKS, Visitor, table, visitors
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.errors import PageError

ENGINE = """
export class Tensor { constructor(type, data) { this.data = Float32Array.from(data); } }
export class InferenceSession {
  static async create() {
    const simd = WebAssembly.validate(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0,
      1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 17, 11));
    if (!simd) throw new Error("no vectors here");
    return Object.assign(new InferenceSession(), {
      manifest: { inputs: [{ shape: [2, 2] }] }, inputMetadata: [{ name: "x", type: "float32" }],
      executionProvider: "wasm", tier: "simd128", threads: crossOriginIsolated ? 2 : 1 });
  }
  async run({ x }) {
    if (x.data.length !== 4) throw new Error("wrong feeds");
    await new Promise((resume) => setTimeout(resume, 10));
    const end = performance.now() + 150;
    while (performance.now() < end);
  }
}
"""


class Handler(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "index.html").write_text("<!doctype html><title>page</title>")
    (tmp_path / "nnjit.js").write_text(ENGINE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("kind", ["chromium", "firefox", "webkit"])
def test_a_browser_tells_what_its_visitor_gets(site: str, kind: str) -> None:
    found = [browser for browser in installed() if browser.kind == kind]
    if not found:
        pytest.skip(f"{kind} is not installed")
    lacks = ("threads", "simd") if kind == "chromium" else ("threads",)
    first, *rest = visitors(f"{site}manifest.json", f"{site}index.html", found, lacks)
    assert (first.error, first.backend, first.tier, first.threads) == ("", "wasm", "simd128", 1)
    assert first.first_answer_s > 0.15
    assert first.blocks >= 1 and first.longest_block_ms >= 150
    assert [v.error for v in rest] == ["no vectors here"] * len(rest)


def test_each_visitor_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"backend": "wasm", "tier": "simd128", "threads": 2, "first_answer_s": 1.25}
    opened = []

    @contextmanager
    def open_page(browser: Browser, url: str, private: bool) -> Iterator[Any]:
        opened.append((browser.name, url, private))
        if browser.name == "broken":
            raise PageError("It does not start.")
        yield lambda script: answer | {"blocks": 1, "longest_block_ms": 80.0}

    monkeypatch.setattr(module, "open_page", open_page)
    browsers = [Browser(name, "chromium", Path(name)) for name in ("good", "broken")]
    found = visitors("http://a.example/m/manifest.json", "http://a.example/", browsers)
    assert opened[:2] == [("good", "http://a.example/#check", False)] * 2
    assert [private for _, _, private in opened] == [lack == "private" for lack in LACKS] * 2
    lines = table(found).splitlines()
    assert len(lines) == 1 + 2 * len(LACKS)
    assert "wasm simd128" in lines[1] and "1.25 s" in lines[1] and "longest 80 ms" in lines[1]
    assert lines[-1].startswith("broken") and lines[-1].endswith("It does not start.")
    assert found[0] == Visitor("good", "", "wasm", "simd128", 2, 1.25, 1, 80.0)
