"""A page in production that tunes a model with the kernels of a compile service.

Exports the model without candidates, starts a real server and a real browser on a page under a
strict content policy, and compares every kernel that the server made with the Studio's own. Prints
one JSON object; figures of time want an idle machine. The page says that nobody looks at it: then
tuning may take half of its thread.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/end2end"))

from nnjit_command import SANDBOX
from static_server import serve

from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.records.gpu_candidate import parse_candidate

PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy"
content="default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self' {queue}">
<title>queue</title><script type="module" src="tuned.js"></script>"""
REST_MS = 400
"""Between inferences: a run of the model beside them has to fit."""
SCRIPT = """
import { InferenceSession, Tensor } from "./nnjit.js";
Object.defineProperty(document, "visibilityState", { value: "hidden" });
const post = (body) => fetch("/", { method: "POST", body: JSON.stringify(body) });
const arrays = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array };
try {
  const session = await InferenceSession.create("./manifest.json");
  const inputs = {};
  for (const { name, type, shape } of session.inputMetadata) {
    const { file } = session.manifest.samples.inputs.find((each) => each.name === name);
    const bytes = await (await fetch(file)).arrayBuffer();
    inputs[name] = new Tensor(type, new arrays[type](bytes), shape);
  }
  const first = await session.run(inputs);
  const until = performance.now() + SECONDS * 1000;
  let [worst, largest, ended] = [0, 0, false];
  const done = session.tune({ when: "now", budgetMs: 1e7, queue: "QUEUE" });
  done.finally(() => (ended = true));
  while (!ended && performance.now() < until) {
    const now = await session.run(inputs);
    for (const name of session.outputNames) now[name].data.forEach((y, i) => {
      worst = Math.max(worst, Math.abs(y - first[name].data[i]));
      largest = Math.max(largest, Math.abs(first[name].data[i]));
    });
    await new Promise((resolve) => setTimeout(resolve, REST));
  }
  const report = session.tuningReport();
  await session.release();
  await post({ ...report, worst, largest });
} catch (e) {
  await post({ error: String(e.stack) });
}
"""


def site_of(model: Path, folder: Path, queue: str, seconds: float) -> Path:
    """The exported bundle with the page that tunes it."""
    bundle, site = folder / "model.zip", folder / "site"
    command = [sys.executable, "-m", "nnjit_studio", "export", str(model), "-o", str(bundle)]
    programs = folder / "kernels/programs"
    database = folder / "kernels.db"
    subprocess.run(
        [*command, "--programs", programs, "--database", database], stdout=sys.stderr, check=True
    )
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(site)
    (site / "tuned.html").write_text(PAGE.format(queue=queue))
    changes = {"SECONDS": str(seconds), "QUEUE": queue, "REST": str(REST_MS)}
    script = SCRIPT
    for word, value in changes.items():
        script = script.replace(word, value)
    (site / "tuned.js").write_text(script)
    return site


def equal_bytes(model: Path, folder: Path) -> dict[str, int]:
    """Kernels of the server's folder, and how many are the bytes of the Studio's compiler."""
    process = CompileProcess()
    try:
        imported = process.import_model(model, folder / "weights.bin")
        workloads, compiler = {w.key: w for w in imported.workloads}, Compiler(process)
        compared = equal = 0
        for card in sorted((folder / "kernels").glob("*.json")):
            told = json.loads(card.read_text())
            settings, tier = parse_candidate(told["settings"]), told["tier"]
            mine = compiler.compile(workloads[told["workload"]], settings, (tier,)).kernel(tier)
            served = (folder / f"kernels/{told['sha256']}.wasm").read_bytes()
            compared, equal = compared + 1, equal + (served == mine.data)
        return {"kernels": compared, "equal_to_the_studio": equal}
    finally:
        process.close()


def tuned(site: Path, queue: str, browser: str, seconds: float) -> dict[str, Any]:
    """What the page reports."""
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{queue}/health").read()
            break
        except OSError:
            time.sleep(0.1)
    with (
        serve(site, isolated=True) as (url, reports),
        browsers.launch(browsers.find(browser), f"{url}/tuned.html", bool(SANDBOX)),
    ):
        answer: dict[str, Any] = reports.get(timeout=seconds + 120)
    return answer


def by_workload(report: dict[str, Any]) -> dict[str, Any]:
    """Kernels tried, outcomes and what runs."""
    found: dict[str, Any] = {}
    for each in report["tried"]:
        row = found.setdefault(each["workload"], {"tried": 0, "won": "", "outcomes": {}})
        row["tried"] += 1
        row["outcomes"][each["outcome"]] = row["outcomes"].get(each["outcome"], 0) + 1
        if each["outcome"] == "won":
            speedups = [round(each[k]["speedup"], 3) for k in ("isolated", "inPlace") if each[k]]
            row["won"] = f"{each['settings']} {speedups}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--port", type=int, default=8533)
    options = parser.parse_args()
    load, queue = os.getloadavg()[0], f"http://127.0.0.1:{options.port}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = site_of(options.model, folder, queue, options.seconds)
        command = [sys.executable, "-m", "nnjit_studio", "server", "start", "--compile", "1"]
        command += ["--port", str(options.port), "--kernels", str(folder / "kernels")]
        server = subprocess.Popen([*command, "--database", f"sqlite:///{folder}/commons.db"])
        try:
            report = tuned(site, queue, options.browser, options.seconds)
        finally:
            server.terminate()
            server.wait()
        if "error" in report:
            raise SystemExit(report["error"])
        bytes_of = equal_bytes(options.model, folder)
    keys = ("state", "device", "spentMs", "gain", "latency", "rolledBack", "queue")
    facts = {key: report[key] for key in (*keys, "worst", "largest")}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    tried = by_workload(report)
    print(json.dumps({"date": now, "load": load, **facts, **bytes_of, "tried": tried}, indent=1))


if __name__ == "__main__":
    main()
