"""One bundle of MiniLM for any length: against bundles of one length, and ONNX Runtime Web.

    python benchmarks/any_size.py --markdown benchmarks/results.md

All contenders run in turns in one page of Chromium. A module that is compiled while the bundle for
any size runs is counted; a storm of random lengths at the end shows what becomes of memory.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_now
from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.report import Report, Table, append
from nnjit_studio.bench.server import serve, visit
from nnjit_studio.bench.statistics import geomean
from nnjit_studio.engine.browsers.flags import GPU_MODES
from nnjit_studio.samples.minilm import write_minilm

TIMEOUT_S = 3600.0
IDS = "input_ids"
MODEL = {
    "dim": "sequence",
    "vocabulary": 30000,
    "output": "sentence_embedding",
    "inputs": [
        {"name": name, "ids": name == IDS, "dims": [1, "sequence"]}
        for name in (IDS, "attention_mask", "token_type_ids")
    ],
}


def main(options: argparse.Namespace) -> int:
    began_s, folder = time.monotonic(), options.out / provider_of(options)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model.onnx").exists():
        write_minilm(folder / "model.onnx", None)
    rng = random.Random(options.seed)
    drawn = sorted(rng.sample(range(1, 513), options.lengths))
    lengths = drawn[options.shard :: options.shards]
    static = [n for n in spread(drawn, options.static) if n in lengths]
    exported(folder, "any", options)
    fixed = {}
    for n in rng.sample(static, len(static)):
        if time.monotonic() - began_s < 30 * options.minutes:  # the other half is to measure
            fixed[n] = exported(folder, f"fixed-{n}", options, f"sequence={n}")
    job = {
        "model": MODEL,
        "lengths": sorted(rng.sample(lengths, len(lengths)), key=lambda n: n not in fixed),
        "fixed": fixed,
        "warm": options.warm,
        "seconds": 60 * options.minutes - (time.monotonic() - began_s),
        "storm": [rng.randint(1, options.longest) for _ in range(options.storm)],
    }
    document = measured(folder, job, options)
    if not document["rows"]:
        sys.exit(f"No length was measured within {options.minutes:g} minutes.")
    report = report_of(document, options)
    print(report.text())
    if options.markdown:
        append(options.markdown, report.markdown())
    return 0


def spread(lengths: Sequence[int], count: int) -> Sequence[int]:
    """So many of the lengths, evenly from the shortest on."""
    return lengths[:: max(1, len(lengths) // max(1, count))][:count]


def provider_of(options: argparse.Namespace) -> str:
    return "webgpu" if options.gpu else "wasm"


def place_of(options: argparse.Namespace) -> str:
    """As a title says it."""
    if options.gpu:
        return "WebGPU"
    return f"{options.threads} thread{'s' if options.threads > 1 else ''}"


def measured(folder: Path, job: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """A job of the page of lengths, the model and its bundles in ``folder``: rows and facts."""
    policy = {
        "rounds": options.rounds, "min_sample_ms": 5.0, "warmup_ms": 300.0,
        "max_warmup_ms": 3000.0,
    }  # fmt: skip
    whole = {
        **job, "threads": options.threads, "policy": policy, "provider": provider_of(options),
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(whole))
    bench = BenchOptions(
        folder, options.target, ("ort",), options.node_modules, options.no_sandbox, options.gpu
    )
    names = {"any": "any/manifest.json", **job["fixed"]}
    weights = {name: weights_of(folder / path) for name, path in names.items()}
    before, rows = load_average(), []
    with serve(bench) as server, visit(server, "sizes/lengths.html", bench):
        while (message := server.next_message(TIMEOUT_S))["type"] == "length":
            rows.append(row_of(message, weights))
            print(rows[-1], flush=True)
    document = {
        "rows": sorted(rows, key=lambda row: int(row["length"])),
        **message,
        "browser": message["user_agent"],
        **measured_now(before, message["versions"]),
    }
    (folder / "lengths.json").write_text(json.dumps(document))
    return document


def exported(folder: Path, name: str, options: argparse.Namespace, dim: str = "") -> str:
    """The manifest of an unpacked bundle, made with the command line, at one size of a ``dim``."""
    if not (folder / name / "manifest.json").exists():
        out, model = folder / f"{name}.zip", folder / "model.onnx"
        command = [sys.executable, "-m", "nnjit_studio", "export", str(model), "-o", str(out)]
        command += [*["--webgpu"] * bool(options.gpu), *(["--dim", dim] if dim else [])]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        with zipfile.ZipFile(out) as archive:
            archive.extractall(folder / name)
        out.unlink()
    return f"{name}/manifest.json"


def weights_of(manifest: Path) -> int:
    """Bytes of the weights of a bundle."""
    return int(json.loads(manifest.read_text())["weights"]["nbytes"])


def row_of(message: Mapping[str, Any], weights: Mapping[Any, int]) -> dict[str, Any]:
    ms = {name: statistics.median(samples) for name, samples in message["samples_ms"].items()}
    spread = {n: statistics.quantiles(s, n=4) for n, s in message["samples_ms"].items()}
    memory, again = message["memory"], message["again_ms"]
    one = memory["fixed"]
    room = one - weights.get(message["length"], 0), memory["forecast"] - weights["any"]
    return {
        "length": message["length"],
        "ms": ms,
        "iqr_ms": {name: q[2] - q[0] for name, q in spread.items()},
        "first_over_steady": message["first_ms"] / ms["any"],
        "first_over_again": message["first_ms"] / statistics.median(again),
        "again_over_others": [
            one / statistics.median([*again[:at], *again[at + 1 :]]) for at, one in enumerate(again)
        ],
        "over_fixed": ms["any"] / ms["fixed"] if "fixed" in ms else None,
        "ort_over_any": ms["ort"] / ms["any"],
        "memory_over_fixed": memory["forecast"] / one if one else None,
        "arena_over_fixed": room[1] / room[0] if one and room[0] > 0 else None,
        "difference": max(message["differences"]),
    }


def told(ratios: Sequence[float]) -> str:
    """The median, and what nine of ten do not exceed."""
    most = sorted(ratios)[math.ceil(0.9 * len(ratios)) - 1]
    return f"{statistics.median(ratios):.2f} (nine of ten at most {most:.2f})"


def report_of(document: Mapping[str, Any], options: argparse.Namespace) -> Report:
    rows: Sequence[Mapping[str, Any]] = document["rows"]
    head = "length;ms;IQR;one length, ms;any / one;ORT Web, ms;ORT / any;first / steady"
    table = Table(
        head.split(";"),
        tuple(
            (
                str(row["length"]), f"{row['ms']['any']:.2f}", f"{row['iqr_ms']['any']:.2f}",
                f"{row['ms']['fixed']:.2f}" if "fixed" in row["ms"] else "",
                f"{row['over_fixed']:.2f}" if row["over_fixed"] else "",
                f"{row['ms']['ort']:.2f}", f"{row['ort_over_any']:.2f}",
                f"{row['first_over_steady']:.2f}",
            )
            for row in rows
        ),
    )  # fmt: skip
    fixed = [row["over_fixed"] for row in rows if row["over_fixed"]]
    memory = [row["memory_over_fixed"] for row in rows if row["memory_over_fixed"]]
    arena = [row["arena_over_fixed"] for row in rows if row["arena_over_fixed"]]
    first = [row["first_over_steady"] for row in rows]
    later = [row["first_over_again"] for row in rows]
    others = [ratio for row in rows for ratio in row["again_over_others"]]
    storm = document["memory"]
    alone = (
        f"Any length over one length: median {statistics.median(fixed):.2f}, largest "
        f"{max(fixed):.2f}, at {len(fixed)} lengths; memory at most {max(memory):.2f} times"
        f"{f', without weights {max(arena):.2f} times' if arena else ''}. "
        if fixed
        else ""
    )
    facts = [
        f"{alone}ONNX Runtime Web over any length: geometric mean "
        f"{geomean(row['ort_over_any'] for row in rows):.2f}, least "
        f"{min(row['ort_over_any'] for row in rows):.2f}, at {len(rows)} lengths. First run of a "
        f"length over a steady one, after {document['warm_runs']} runs of "
        f"warmUp ({document['warm_ms']:.0f} ms), in the midst of runs of another length: median "
        f"{told(first)}; over the median of later single runs so: {told(later)}; one of those over "
        f"the others: {told(others)}. "
        f"Modules and pipelines compiled in runs: {document['compiled_in_runs']}. Largest "
        f"difference of an output: {max(row['difference'] for row in rows):.1e}."
    ]
    if storm:
        heaps = [point["heap"] / 2**20 for point in storm]
        facts.append(
            f"{100 * len(storm)} random lengths: {'GPU buffers' if options.gpu else 'Wasm memory'} "
            f"{storm[0]['wasm'] / 2**20:.1f} MiB "
            f"after the first 100, {storm[-1]['wasm'] / 2**20:.1f} at the end; JavaScript heap "
            f"{min(heaps):.1f} to {max(heaps):.1f} MiB, {heaps[-1]:.1f} at the end."
        )
    title = f"MiniLM at any length, {place_of(options)}"
    about = "benchmarks/any_size.py; contenders in turns in one page, medians."
    return Report(document, title, about, (table, *facts))


def parser_of(about: str | None, out: str, rounds: int) -> argparse.ArgumentParser:
    """With what every measurement of lengths takes."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--node-modules", type=Path, default=Path("benchmarks/node_modules"))
    parser.add_argument("--target", default="chromium")
    parser.add_argument("--no-sandbox", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--gpu", choices=GPU_MODES, default="", help="on WebGPU, on this adapter")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--markdown", type=Path)
    return parser


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, "out/any-size", 9)
    parser.add_argument("--lengths", type=int, default=30)
    parser.add_argument("--static", type=int, default=8, help="lengths with a bundle of their own")
    parser.add_argument("--storm", type=int, default=1000, help="random lengths at the end")
    parser.add_argument("--longest", type=int, default=512, help="of the lengths at the end")
    parser.add_argument("--warm", type=int, default=128, help="length at which kernels run ahead")
    parser.add_argument("--minutes", type=float, default=600.0, help="no length is begun later")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1, help="parts that the lengths are cut into")
    parser.add_argument("--shard", type=int, default=0, help="the part that is measured, from 0 on")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(arguments()))
