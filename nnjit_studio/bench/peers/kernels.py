"""``nnjit bench kernels``: one-kernel models, ours tuned, compared with the peers in one page."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nnjit_studio
from nnjit_studio.bench.conditions import load_average, measured_now
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.peers.onnx_models import write_onnx
from nnjit_studio.bench.peers.sweep import Swept, sweep
from nnjit_studio.bench.peers.tflite_models import write_tflite
from nnjit_studio.bench.server import serve, visit
from nnjit_studio.bench.statistics import geomean, ratios, spread
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.spelling import WorkloadSpec, program_for, seeded_input
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.errors import UserError
from nnjit_studio.records import TIERS
from nnjit_studio.verdict.figures import relative_error
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.jobs import export

PEERS = {
    "ort": ("onnxruntime-web",),
    "tfjs": ("@tensorflow/tfjs-core", "@tensorflow/tfjs-backend-wasm"),
    "litert": ("@litertjs/core", "@litertjs/wasm-utils"),
}
"""npm packages of each peer."""
SHAPES = {
    "K0": "matmul:384x768x768:f32",
    "K1": "matmul:640x768x3072:f32",
    "K2": "batch_matmul:12x384x384x64:f32",
    "K3": "batch_matmul:120x64x64x64:f32",
    "row": "matmul:1x768x3072:f32",
    "odd1": "matmul:197x197x77:f32",
    "odd2": "matmul_var:77x333x50:f32",
    "odd3": "matmul:1x1000x1000:f32",
    "ffn": "matmul:128x384x1536:f32+bias+gelu",
}
"""Measured by default: the paper's K0 to K3, a row, odd shapes, a fused layer."""
MATMULS = ("matmul", "matmul_var", "batch_matmul")
SHAPE_TIMEOUT_S = 180.0
POLICY = RoundsPolicy(rounds=15, min_sample_ms=20.0, warmup_ms=700.0, max_warmup_ms=3000.0)


@dataclass(frozen=True)
class Prepared:
    """A shape, tuned and written to the folder that the page reads."""

    name: str
    spec: WorkloadSpec
    program: Program
    inputs: Mapping[str, NDArray[np.float32]]
    best: Swept
    flops: int


def listed(text: str) -> list[str]:
    """The words of a comma list."""
    return [word for word in text.split(",") if word]


def parse_shapes(
    text: str | None, known: Mapping[str, str] = SHAPES
) -> list[tuple[str, WorkloadSpec]]:
    """A comma list of known names or spellings; all that are known without."""
    words = known if text is None else listed(text)
    return [(w, WorkloadSpec.parse(known.get(w, w))) for w in words]


def parse_peers(text: str) -> list[str]:
    """A comma list of :data:`PEERS`, or ``none``."""
    words = [] if text == "none" else listed(text)
    for word in words:
        if word not in PEERS:
            raise UserError(f"There is no peer {word!r}.", f"Use {', '.join(PEERS)} or none.")
    return words


def find_node_modules(
    peers: Sequence[str], given: Path | None, packages_of: Mapping[str, Sequence[str]] = PEERS
) -> tuple[Path | None, dict[str, str]]:
    """The folder that holds the peers' packages by npm's names, and their versions.

    Looked for at ``given``, else in ``benchmarks/`` here or of the source tree.

    Raises
    ------
    UserError
        When a peer's package is in none of them.
    """
    places = [given] if given else [Path.cwd(), Path(nnjit_studio.__file__).parents[1]]
    folders = [given] if given else [place / "benchmarks/node_modules" for place in places]
    packages = [package for peer in peers for package in packages_of[peer]]
    for folder in folders:
        manifests = {p: folder / p / "package.json" for p in packages}
        if all(m.is_file() for m in manifests.values()):
            return folder, {p: json.loads(m.read_text())["version"] for p, m in manifests.items()}
    raise UserError(
        f"The npm packages of the peers ({', '.join(packages)}) are not installed.",
        "Run `npm ci --prefix benchmarks` in a checkout of the Studio, or give --peers none.",
    )


def prepare(
    bench: Workbench,
    shapes: Iterable[tuple[str, WorkloadSpec]],
    seconds: float,
    folder: Path,
    peers: Sequence[str],
    note: Note,
) -> list[Prepared]:
    """Tune each shape in the page, and write bundle, models of the peers and inputs of each."""
    shapes = list(shapes)
    for _, spec in shapes:
        if spec.kind not in MATMULS:
            raise UserError(
                f"The peers' models are written for products only, not for {spec}.",
                f"Use {', '.join(MATMULS)}.",
            )
    device = bench.page.connect()
    prepared = []
    for index, (name, spec) in enumerate(shapes):
        program = program_for(spec)
        opened = bench.open_workload(str(spec))
        (workload,) = opened.workloads
        packable = workload.key in opened.packable
        best = sweep(bench.compiler, bench.page.runner, device, workload, packable, seconds)
        bench.model.choose(workload.key, best.candidate)
        place = folder / str(index)
        place.mkdir()
        with zipfile.ZipFile(export(bench.model, place / "bundle.zip", samples=False)) as archive:
            archive.extractall(place / "bundle")
        buffers = [b for b in program.buffers if b.role == "input"]
        inputs = {b.name: seeded_input(str(spec), b.name, b.shape) for b in buffers}
        for buffer_name, data in inputs.items():
            (place / f"{buffer_name}.bin").write_bytes(data.tobytes())
        output = next(b for b in program.buffers if b.role == "output")
        given = [(b, inputs[b.name]) for b in buffers]
        write_onnx(place / "model.onnx", spec, given, output)
        if "litert" in peers:
            write_tflite(place / "model.tflite", spec, given, output)
        note(
            f"{name}: {best.candidate}, the best of {best.measured} measured "
            f"({best.candidates} in the lite space)"
        )
        prepared.append(Prepared(name, spec, program, inputs, best, workload.flops))
    return prepared


def peak_gflops(bench: Workbench) -> dict[str, float]:
    """Peak multiply-add rate by tier: the better of two probes, because load only lowers it."""
    first = bench.page.connect().peak_gflops
    second = bench.page.runner.probe(bench.process.peak_kernels(TIERS)).peak_gflops
    return {tier: max(rate, second.get(tier, 0.0)) for tier, rate in first.items()}


def compare(
    prepared: Sequence[Prepared],
    threads: int,
    peak: Mapping[str, float],
    options: BenchOptions,
    note: Note,
    policy: RoundsPolicy = POLICY,
) -> dict[str, Any]:
    """Measure ours and the peers in one page of one browser; the benchmark's JSON document.

    Raises
    ------
    TargetError, PageError
    """
    job = {
        "threads": threads,
        "peers": options.peers,
        "policy": asdict(policy),
        "shapes": [_shape_json(i, p) for i, p in enumerate(prepared)],
    }
    (options.folder / "job.json").write_text(json.dumps(job))
    load_before = load_average()
    rows: list[dict[str, Any]] = []
    with serve(options) as server, visit(server, "kernels.html", options) as running:
        for message in server.rows(SHAPE_TIMEOUT_S):
            outputs = {
                name: np.frombuffer(server.uploads.pop(f"{message['index']}-{name}"), np.float32)
                for name in message["samples_ms"]
            }
            row = _row(prepared[message["index"]], message, outputs, threads, peak)
            rows.append(row)
            note(row_text(row))
    return {
        "ok": True,
        "browser": server.done["user_agent"],
        "flags": running.flags,
        **measured_now(load_before, server.done["versions"]),
        "threads": threads,
        "peak_gflops": dict(peak),
        "rows": rows,
        "geomean": geomeans(rows, options.peers),
    }


def geomeans(rows: Sequence[Mapping[str, Any]], peers: Sequence[str]) -> dict[str, float | None]:
    """Geometric means of the ratios, and of the ratio to the better peer of each row."""
    result = {peer: geomean(row["ratio"][peer] for row in rows) for peer in peers}
    if peers:
        result["better_peer"] = geomean(min(row["ratio"].values()) for row in rows)
        result["worst_to_better_peer"] = min(min(row["ratio"].values()) for row in rows)
    return result


def _shape_json(index: int, p: Prepared) -> dict[str, Any]:
    inputs = [b for b in p.program.buffers if b.role == "input"]
    return {
        "spec": str(p.spec),
        "epilogue": list(p.spec.epilogue),
        "manifest": f"{index}/bundle/manifest.json",
        "onnx": f"{index}/model.onnx",
        "tflite": f"{index}/model.tflite",
        "inputs": [
            {
                "name": b.name,
                "dims": list(b.shape),
                "constant": b.constant,
                "file": f"{index}/{b.name}.bin",
            }
            for b in inputs
        ],
    }


def _row(
    p: Prepared,
    message: Mapping[str, Any],
    outputs: Mapping[str, NDArray[np.float32]],
    threads: int,
    peak: Mapping[str, float],
) -> dict[str, Any]:
    (reference,) = evaluate(p.program, p.inputs).values()
    errors = {name: relative_error(got, reference.reshape(-1)) for name, got in outputs.items()}
    ms = {name: spread(samples) for name, samples in message["samples_ms"].items()}
    tier = message["tier"]
    gflops = {name: p.flops / row["median"] / 1e6 for name, row in ms.items()}
    share = gflops["ours"] / peak[tier] / threads if peak.get(tier) else None
    return {
        "name": p.name,
        "workload": str(p.spec),
        "threads": threads,
        "peers_threads": {n: t for n, t in message["threads"].items() if n != "ours"},
        "tier": tier,
        "candidate": str(p.best.candidate),
        "candidates": {"measured": p.best.measured, "space": p.best.candidates},
        "kernel_ms": p.best.ms,
        "ms": ms,
        "ratio": ratios(ms),
        "gflops": gflops,
        "peak_share": share,
        "max_rel_err": errors["ours"],
        "peers_max_rel_err": {name: e for name, e in errors.items() if name != "ours"},
        "samples_ms": message["samples_ms"],
    }


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    times = "  ".join(f"{name} {ms['median']:8.3f} ms" for name, ms in row["ms"].items())
    ratio = "  ".join(f"{name} {x:5.2f}x" for name, x in row["ratio"].items())
    return f"{row['workload']:<36} {times}  {row['gflops']['ours']:6.1f} GFLOP/s  {ratio}"
