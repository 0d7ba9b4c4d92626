"""Reports of the benchmarks of kernels, models, compile times and passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnjit_studio.bench.conditions import threads_text
from nnjit_studio.bench.peers.models import BASELINE, ratio_text, share_text
from nnjit_studio.bench.report import Report, Table, spread_text

_MEANS = {
    "ort": "ONNX Runtime Web / ours",
    "tfjs": "TensorFlow.js / ours",
    "litert": "LiteRT.js / ours",
    "better_peer": "better peer / ours",
    "worst_to_better_peer": "worst row, better peer / ours",
}


def kernels_report(result: Mapping[str, Any]) -> Report:
    names = _contenders(result)
    head = ["workload", *(f"{n} ms (min; IQR)" for n in names)]
    head += [*(f"{p} / ours" for p in names[1:]), "GFLOP/s", "of peak", "error"]
    rows = [
        [
            row["workload"],
            *map(spread_text, row["ms"].values()),
            *(f"{row['ratio'][p]:.2f}" for p in names[1:]),
            f"{row['gflops']['ours']:.1f}",
            "-" if row["peak_share"] is None else f"{row['peak_share']:.0%}",
            f"{row['max_rel_err']:.1e}",
        ]
        for row in result["rows"]
    ]
    means = "; ".join(f"{_MEANS[k]} {v:.2f}" for k, v in result["geomean"].items() if v is not None)
    peak = ", ".join(f"{tier} {rate:.1f}" for tier, rate in result["peak_gflops"].items())
    fewer = {
        name: count
        for row in result["rows"]
        for name, count in row["peers_threads"].items()
        if count != row["threads"]
    }
    told = "".join(f" {name} runs on {count} of them." for name, count in fewer.items())
    candidates = "; ".join(f"`{r['workload']}` {r['candidate']}" for r in result["rows"])
    about = (
        f"Measured multiply-add peak of one thread, GFLOP/s: {peak}.{told} "
        f"Candidates: {candidates}."
    )
    parts = (Table(head, rows), f"Geometric means: {means}." if means else "")
    return Report(result, f"kernels, {threads_text(result['threads'])}", about, parts)


def _contenders(result: Mapping[str, Any]) -> list[str]:
    """Ours, then the peers."""
    return list(result["rows"][0]["ms"]) if result["rows"] else ["ours"]


def compile_report(result: Mapping[str, Any]) -> Report:
    first = result["rows"][0]
    head = ["workload", "candidates", "median ms", "p99 ms", "max ms", "bytes"]
    head += [f"TVM + LLVM + {linker} ms" for linker in first["conventional_ms"]]
    rows = []
    for row in result["rows"]:
        ways = row["conventional_ms"].values()
        rows.append(
            [
                row["workload"],
                str(row["candidates"]),
                *(f"{row['ms'][key]:.2f}" for key in ("median", "p99", "max")),
                f"{row['nbytes']['median']:.0f}",
                *("not installed" if way is None else f"{way['median']:.0f}" for way in ways),
            ]
        )
    passes = list(first["pass_ms"])
    split = [
        [row["workload"], *(f"{row['pass_ms'][name]:.3f}" for name in passes)]
        for row in result["rows"]
    ]
    parts = (Table(head, rows), Table(["median ms of", *passes], split))
    return Report(result, "compile times, settings to bytes", "", parts)


def passes_report(result: Mapping[str, Any]) -> Report:
    head = ["passes", "compile ms", "bytes", "kernel ms (min; IQR)", "over all passes", "verdict"]
    rows = []
    for row in result["rows"]:
        slow = row["slowdown"]
        rows.append(
            [
                row["variant"],
                f"{row['compile_ms']:.2f}",
                str(row["nbytes"]),
                spread_text(row["ms"]),
                f"{slow['median']:.3f} ({slow['low']:.3f}..{slow['high']:.3f})",
                "the same bytes" if row["same_bytes"] else row["verdict"],
            ]
        )
    about = (
        f"Target {result['target']}, `{result['workload']}`, {result['candidate']}, "
        f"{result['tier']}."
    )
    return Report(result, "the passes, after Table 5 of the paper", about, (Table(head, rows),))


def models_report(result: Mapping[str, Any]) -> Report:
    names = _contenders(result)
    peers = [n for n in names[1:] if n != BASELINE]
    beside = BASELINE in names
    head = ["model", "threads", *(f"{n} ms (min; IQR)" for n in names)]
    head += [*(f"{p} / ours" for p in peers), *([f"ours / {BASELINE}"] if beside else [])]
    head += ["file MiB", *(f"{n} MiB" for n in names)]
    head += [*(f"{n} cold ms" for n in names), *(f"{n} error" for n in names)]
    rows = []
    for row in result["rows"]:
        errors, cold = row["native_err"], row["cold_ms"]
        rows.append(
            [
                row["model"],
                str(row["threads"]),
                *(spread_text(ms, 1) for ms in row["ms"].values()),
                *(ratio_text(row, p) if p in row["ratio"] else "wrong" for p in peers),
                *([share_text(row)] if beside else []),
                f"{row['file_bytes'] / 2**20:.0f}",
                *(f"{row['memory_bytes'][n] / 2**20:.0f}" for n in names),
                *(f"{cold[n]:.0f}" if n in cold else "-" for n in names),
                *(f"{errors[n]:.1e}" if n in errors else "-" for n in names),
            ]
        )
    means = "\n".join(
        f"{name}: geometric mean {means['geomean']:.2f}, worst {means['worst']:.2f}."
        for name, means in result["ratios"].items()
    )
    return Report(result, "models", "", (Table(head, rows), means))
