"""First answer of a cold and of a second visit, beside ONNX Runtime Web, from a server here.

``make first-answer``: a bundle and its model are served with the headers of isolation. Each round
starts the browser twice with a new profile, in random order, once for each runtime: the page is
opened cold, then again with what was kept. Times are from the start of the navigation to the first
output; visitors stay for three seconds then. With --proxy both run in their workers. The longest
task of the page's thread is shown.
Our runtime is built by Vite, as the web guide says; ONNX Runtime Web comes in one file already.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import shutil
import statistics
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.support.programs import find_program
from nnjit_studio.verdict.peers import PACKAGE, find_peer

ROOT = Path(__file__).parents[1]
ROUNDS, LONGEST_S = 10, 120.0
PAGE = '<!doctype html><meta charset="utf-8"><script type="module" src="./main.js"></script>'
MAIN = """import * as ort from "RUNTIME";
let longest = 0;
const observer = new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) longest = Math.max(longest, duration);
});
if (PerformanceObserver.supportedEntryTypes.includes("longtask"))
  observer.observe({ type: "longtask", buffered: true });
const asked = new URL(location);
const tell = (body) => fetch("/", { method: "POST", body: JSON.stringify(body) });
try {
  ort.env.wasm.proxy = asked.searchParams.has("proxy");
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create("FILE");
  const input = () => new ort.Tensor("int64", new BigInt64Array(128).fill(1n), [1, 128]);
  const feeds = Object.fromEntries(session.inputNames.map((name) => [name, input()]));
  const [output] = Object.values(await session.run(feeds));
  const ms = performance.now();
  const first = Array.from(output.data.slice(0, 8));
  await new Promise((resolve) => setTimeout(resolve, 3000)); // long tasks are told late
  await tell({ ms, first, longest });
  const second = !asked.searchParams.has("second");
  asked.searchParams.set("second", "1");
  if (second) location.href = asked;
} catch (e) {
  await tell({ error: String(e.stack ?? e) });
}"""
CONFIG = 'export default { base: "./", worker: { format: "es" }, build: { target: "es2022" } };'
PAGES = {
    "ours": (str(ROOT / "resources/runtime/index.js"), "/bundle/manifest.json"),
    "ort": ("/peer/ort.wasm.min.mjs", "/model.onnx"),
}
"""Runtime and model of each page."""


class _Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 2**16

    def __init__(self, *given: Any, reports: queue.Queue[Any], **options: Any) -> None:
        self.reports = reports
        super().__init__(*given, **options)

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def do_POST(self) -> None:
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """As web servers do: the kernel copies, so that both CPUs are left to the browser."""
        outputfile.flush()
        self.connection.sendfile(source)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that was ended leaves connections open."""


def site(model: Path, bundle: Path, folder: Path) -> Path:
    """What is served: the engine as the package has it, the bundle, ONNX Runtime Web, the model.

    Raises
    ------
    SystemExit
        Where ONNX Runtime Web is not installed.
    """
    peer = find_peer()
    if peer is None:
        raise SystemExit("ONNX Runtime Web is not installed: run `nnjit peers install`.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.unpack_archive(bundle, folder / "bundle", "zip")
    (folder / "peer").symlink_to(peer.node_modules / PACKAGE / "dist")
    (folder / "model.onnx").symlink_to(model.resolve())
    for name, (runtime, file) in PAGES.items():
        (folder / name).mkdir()
        (folder / name / "index.html").write_text(PAGE)
        main = MAIN.replace("RUNTIME", runtime).replace("FILE", file)
        (folder / name / "main.js").write_text(main)
    (folder / "ours/vite.config.js").write_text(CONFIG)
    (folder / "ours/package.json").write_text('{ "type": "module" }')
    vite = [find_program("node"), ROOT / "node_modules/vite/bin/vite.js", "build", "--outDir=built"]
    subprocess.run(vite, cwd=folder / "ours", check=True, capture_output=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="chromium")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--proxy", action="store_true")
    parser.add_argument("--no-sandbox", action="store_true")
    options = parser.parse_args()
    reports: queue.Queue[Any] = queue.Queue()
    folder = site(options.model, options.bundle, options.out)
    handler = partial(_Files, directory=str(folder), reports=reports)
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    browser = browsers.find(options.target)
    kinds = ["ours", "ort"]
    taken: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for kind in random.sample(kinds, len(kinds)):
            page = "ours/built" if kind == "ours" else kind
            asked = f"{url}/{page}/index.html{'?proxy' if options.proxy else ''}"
            with browsers.launch(browser, asked, options.no_sandbox):
                for visit in ("cold", "second"):
                    told = reports.get(timeout=LONGEST_S)
                    if "error" in told:
                        raise SystemExit(f"{kind}, {visit}: {told['error']}")
                    taken.setdefault((kind, visit), []).append(told)
    for visit in ("cold", "second"):
        print("\n".join(lines(visit, taken[("ours", visit)], taken[("ort", visit)])))
    server.shutdown()
    return 0


def lines(visit: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[str]:
    """Medians, the median of the rounds' ratios with least and most, and the longest task."""
    ratios = [a["ms"] / b["ms"] for a, b in zip(ours, theirs, strict=True)]
    worst = max(
        abs(x - y) / max(map(abs, theirs[0]["first"]))
        for x, y in zip(ours[0]["first"], theirs[0]["first"], strict=True)
    )
    mine, its = (statistics.median(told["ms"] for told in all_told) for all_told in (ours, theirs))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds"
    return [
        f"{visit} visit: {mine:.0f} ms, ONNX Runtime Web {its:.0f} ms, "
        f"ratio {statistics.median(ratios):.2f} ({spread})",
        f"  longest task of the page {max(t['longest'] for t in ours):.0f} ms, "
        f"of theirs {max(t['longest'] for t in theirs):.0f} ms; outputs differ by {worst:.1e}",
    ]


if __name__ == "__main__":
    sys.exit(main())
