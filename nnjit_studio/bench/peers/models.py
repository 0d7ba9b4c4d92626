"""``nnjit bench models``: whole models, ours tuned, compared with the peers in one page."""

from __future__ import annotations

import json
import statistics
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.bench.conditions import measured_now
from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.server import serve, visit
from nnjit_studio.bench.statistics import geomean, ratios, spread
from nnjit_studio.compiler.onnx_file.native import widened
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.errors import UserError
from nnjit_studio.model import TensorSpec
from nnjit_studio.model.feeds import seeded_feeds
from nnjit_studio.tuner.events import Failed, Finished
from nnjit_studio.verdict.case import (
    LITERT,
    OURS,
    Case,
    Entry,
    files_of,
    litert_entry,
    ort_entry,
    uploaded,
    worst_error,
    write_inputs,
)
from nnjit_studio.verdict.figures import paired_ratio
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.jobs import export

PEERS = {
    "wasm": {"ort": "ort.wasm.min.mjs", LITERT: ""},
    "webgpu": {"ort": "ort.webgpu.min.mjs", "jsep": "ort.all.min.mjs"},
}
"""Builds of ONNX Runtime Web by backend: on a GPU that in C++, and the older one in TypeScript."""
MODEL_TIMEOUT_S = 600.0
COLD_ROUNDS = 3
BASELINE = "baseline"
"""Name of another bundle of ours in the page, and of its folder."""
WRONG = 0.9
"""An error from which on a peer computes something else: a file that was converted wrongly."""
POLICY = RoundsPolicy(rounds=11, min_sample_ms=20.0, warmup_ms=1500.0, max_warmup_ms=15000.0)
"""Fewer and longer samples than for kernels, for one run of a model lasts up to seconds; enough
for an interval."""


@dataclass(frozen=True)
class PreparedModel:
    """A model, tuned for a number of threads, in the folder that the page reads."""

    name: str
    onnx: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    flops: int
    tuned: Mapping[str, Any]


def parse_peers(backend: str, text: str) -> list[str]:
    """A comma list of the :data:`PEERS` of a backend, or ``none``."""
    words = [] if text == "none" else [w for w in text.split(",") if w]
    for word in words:
        if word not in PEERS[backend]:
            raise UserError(
                f"Whole models are not compared with {word!r} on {backend}.",
                f"Use {', '.join(PEERS[backend])}.",
            )
    return words


def prepare(bench: Workbench, onnx: Path, seconds: float, folder: Path) -> PreparedModel:
    """Tune the model in the page, unless for 0 s; write bundle and inputs to ``folder``.

    Raises
    ------
    UserError, ModelError, PageError
    """
    opened = bench.open_model(onnx)
    inputs = tuple(port.spec for port in opened.plan.inputs)
    feeds = seeded_feeds(inputs)
    bench.model.feeds = feeds
    summary: dict[str, Any] = {}
    for event in bench.tuning.start(seconds) if seconds else ():
        if isinstance(event, Finished):
            summary = event.to_json()
        elif isinstance(event, Failed):
            raise UserError(event.error["error"], event.error.get("hint", ""))
    with zipfile.ZipFile(export(bench.model, folder / "bundle.zip", samples=False)) as archive:
        archive.extractall(folder / "bundle")
    (folder / "bundle.zip").unlink()
    write_inputs(folder, feeds)
    return PreparedModel(
        onnx.stem,
        onnx,
        inputs,
        tuple(port.spec for port in opened.plan.outputs),
        sum(w.uses * w.flops for w in opened.workloads),
        {key: summary.get(key) for key in ("model_ms", "seconds_to_best", "reason")},
    )


def compare(
    model: PreparedModel,
    threads: int,
    options: BenchOptions,
    cold_rounds: int = COLD_ROUNDS,
    policy: RoundsPolicy = POLICY,
    native: Mapping[str, NDArray[Any]] | None = None,
    backend: str = "wasm",
    baseline: Path | None = None,
) -> dict[str, Any]:
    """One row: ours and the peers in turns in one page; cold starts in pages of their own.

    With the outputs of native ONNX Runtime each contender's error against them. With another
    bundle as the baseline, the time of ours as a share of its time.

    Raises
    ------
    TargetError, PageError
    """
    contenders = ["ours", *options.peers]
    entries = [Entry("ours", OURS, "bundle/manifest.json", provider=backend)]
    for peer in options.peers:
        entry = (litert_entry if peer == LITERT else ort_entry)(options.folder, model.onnx)
        entries.append(replace(entry, name=peer, provider=backend, build=PEERS[backend][peer]))
    if baseline is not None:
        with zipfile.ZipFile(baseline) as archive:
            archive.extractall(options.folder / BASELINE)
        entries.append(Entry(BASELINE, OURS, f"{BASELINE}/manifest.json", provider=backend))
    case = Case(options.folder, model.inputs, model.outputs, threads, entries)
    (options.folder / "job.json").write_text(json.dumps(case.job(policy, None, watched=False)))
    cold: dict[str, list[float]] = {name: [] for name in contenders}
    with serve(options) as server:
        with visit(server, "models.html", options) as running:
            message = server.next_message(MODEL_TIMEOUT_S)
        for name in contenders * cold_rounds:
            with visit(server, f"models.html?cold={name}", options):
                cold[name].append(server.next_message(MODEL_TIMEOUT_S)["first_output_ms"])
    found = {e.name: uploaded(model.outputs, server.uploads, e.name) for e in entries}
    native_err = {n: worst_error(o, native) for n, o in found.items()} if native else {}
    wrong = {peer for peer in options.peers if native_err.get(peer, 0.0) > WRONG}
    right = [peer for peer in options.peers if peer not in wrong]
    errors = [worst_error(found["ours"], found[peer]) for peer in right]
    row = _row(model, threads, message)
    samples = row["samples_ms"]
    share = paired_ratio(samples[BASELINE], samples["ours"]) if baseline is not None else None
    found_ratios = {p: paired_ratio(samples["ours"], samples[p]) for p in right}
    intervals = {peer: ratio for peer, ratio in found_ratios.items() if ratio}
    return {
        **row,
        "ratio": {p: intervals[p].median if p in intervals else row["ratio"][p] for p in right},
        "intervals": {peer: ratio.to_json() for peer, ratio in intervals.items()},
        "of_baseline": share.to_json() if share else None,
        "wrong": sorted(wrong),
        "backend": backend,
        "file_bytes": sum(f.stat().st_size for f in files_of(model.onnx)),
        "max_rel_err": max(errors, default=None),
        "native_err": native_err,
        "cold_ms": {name: statistics.median(times) for name, times in cold.items() if times},
        "cold_samples_ms": cold,
        "flags": running.flags,
    }


def _row(model: PreparedModel, threads: int, message: Mapping[str, Any]) -> dict[str, Any]:
    ms = {name: spread(samples) for name, samples in message["samples_ms"].items()}
    facts = message["facts"]
    return {
        "model": model.name,
        "threads": threads,
        "peers_threads": {n: f["threads"] for n, f in facts.items() if n not in ("ours", BASELINE)},
        "tier": facts["ours"]["tier"],
        "tuned": dict(model.tuned),
        "ms": ms,
        "ratio": ratios(ms),
        "gflops": {name: model.flops / row["median"] / 1e6 for name, row in ms.items()},
        "memory_bytes": {name: f["memory_bytes"] for name, f in facts.items()},
        "create_ms": {name: f["create_ms"] for name, f in facts.items()},
        "samples_ms": message["samples_ms"],
        "browser": message["user_agent"],
    }


def document(
    rows: Sequence[dict[str, Any]], versions: Mapping[str, str], load_before: list[float]
) -> dict[str, Any]:
    """The benchmark's JSON; geometric means and worst ratios by peer and threads."""
    means: dict[str, dict[str, float | None]] = {}
    for threads in sorted({row["threads"] for row in rows}):
        mine = [row for row in rows if row["threads"] == threads]
        for peer in dict.fromkeys(peer for row in mine for peer in row["ratio"]):
            given = [row["ratio"][peer] for row in mine if peer in row["ratio"]]
            means[f"{peer}/{threads}t"] = {"geomean": geomean(given), "worst": min(given)}
    return {
        "ok": True,
        "browser": rows[0]["browser"] if rows else "",
        "flags": rows[0]["flags"] if rows else "",
        **measured_now(load_before, versions),
        "rows": list(rows),
        "ratios": means,
    }


def ratio_text(row: Mapping[str, Any], peer: str) -> str:
    """A ratio with its interval, where there were samples enough for one."""
    text = f"{row['ratio'][peer]:.2f}x"
    interval = row["intervals"].get(peer)
    return f"{text} ({interval['low']:.2f}..{interval['high']:.2f})" if interval else text


def share_text(row: Mapping[str, Any]) -> str:
    """The time of ours as a share of that of the baseline."""
    share = row["of_baseline"]
    return f"{share['median']:.2f} ({share['low']:.2f}..{share['high']:.2f})" if share else "-"


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    times = "  ".join(f"{name} {ms['median']:9.2f} ms" for name, ms in row["ms"].items())
    ratio = "  ".join(f"{peer} {ratio_text(row, peer)}" for peer in row["ratio"])
    ratio += "".join(f"  {peer} computes something else" for peer in row.get("wrong", ()))
    if BASELINE in row["ms"]:
        ratio += f"  of {BASELINE} {share_text(row)}"
    memory = "  ".join(f"{n} {b / 2**20:.0f} MiB" for n, b in row["memory_bytes"].items())
    return f"{row['model']:<16} {row['threads']}T  {times}  {ratio}  {memory}"


def native_outputs(model: PreparedModel) -> dict[str, NDArray[Any]]:
    """What native ONNX Runtime gives, its sums exact, for the inputs that the page is given."""
    from nnjit_studio.compiler.oracle.exact_sums import exact_session  # loads onnx

    session = exact_session(model.onnx, intra_op_num_threads=1)
    names = [output.name for output in session.get_outputs()]
    feeds = seeded_feeds(model.inputs)
    wanted = {i.name: feeds[i.name] for i in session.get_inputs()}
    return dict(zip(names, session.run(names, widened(session, wanted)), strict=True))
