"""Reports of the GPU's benchmarks: the adapter, and the tables of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnjit_studio.bench.report import Report, Table, spread_text


def adapter_text(result: Mapping[str, Any]) -> str:
    """Which adapter, driver and flags a result is of; software is called so."""
    a = result["adapter"]
    kind = "Software adapter, no GPU" if a["is_fallback"] else "GPU"
    named = a["description"] or a["device"] or "unnamed"
    more = [f"vendor {a['vendor'] or 'not told'}"]
    more += [f"{what} {a[what]}" for what in ("architecture", "driver") if a[what]]
    return (
        f"{kind}: {named} ({', '.join(more)}). Timestamps in steps of "
        f"{a['timestamp_quantum_ns']:.0f} ns. Flags: `{result['flags']}`."
    )


def kernels_report(result: Mapping[str, Any]) -> Report:
    native = result["native"]
    told = f"cuBLAS: {native['library']} on {native['device']}, {native['how']}." if native else ""
    title = "WebGPU kernels, compared with their peers"
    if result["dtype"] != "float32":
        title += f", {result['dtype']} by a lab mode"
    parts: list[Table | str] = [
        adapter_text(result),
        "GPU time by timestamps around each compute pass:",
        _gpu_table(result),
        _passes(result),
        "The page's time of a call:",
        _page_table(result),
        _kernel_facts(result),
        _failures(result),
    ]
    return Report(result, title, told, parts)


def _contenders(result: Mapping[str, Any]) -> list[str]:
    rows = result["rows"]
    return [n for n in ("ours", "ort", "tfjs") if any(n in r["pass"]["gpu_ms"] for r in rows)]


def _ratios(found: Mapping[str, float], names: list[str]) -> list[str]:
    return [f"{found[n]:.2f}" if n in found else "-" for n in names]


def _gpu_table(result: Mapping[str, Any]) -> Table:
    names = _contenders(result)
    head = ["workload", "submitted", *(f"{n} GPU ms (min; IQR)" for n in names)]
    rows = [
        [
            row["workload"],
            how,
            *(spread_text(ms[n], 4) if n in (ms := row[style]["gpu_ms"]) else "-" for n in names),
            *_ratios(row[style]["ratio"], names[1:]),
        ]
        for row in result["rows"]
        for style, how in (("submit", "one per submit"), ("pass", f"{row['depth']} per submit"))
    ]
    return Table([*head, *(f"{n} / ours" for n in names[1:])], rows)


def _page_table(result: Mapping[str, Any]) -> Table:
    names = _contenders(result)
    head = ["workload", "call", *(f"{n} ms" for n in names), *(f"{n} / ours" for n in names[1:])]
    rows = []
    for row in result["rows"]:
        one, many = row["submit"], row["pass"]
        for call, ms, ratio in (
            ("one per submit, pipelined", one["wall_ms"], one["wall_ratio"]),
            (f"{row['depth']} per submit, pipelined", many["wall_ms"], many["wall_ratio"]),
            ("one, with its result read", row["readback_ms"], row["readback_ratio"]),
        ):
            times = [f"{ms[n]['median']:.4f}" if n in ms else "-" for n in names]
            rows.append([row["workload"], call, *times, *_ratios(ratio, names[1:])])
    return Table(head, rows)


def _kernel_facts(result: Mapping[str, Any]) -> Table:
    head = ["workload", "TFLOP/s", "cuBLAS ms", "of cuBLAS", "error", "peers' errors"]
    head += ["by their own clocks, ms", "kernels tried", "wrong", "best at", "best candidate"]
    rows = []
    for row in result["rows"]:
        peers = ", ".join(f"{n} {e:.1e}" for n, e in row["peers_max_rel_err"].items()) or "-"
        clocks = row["own_clock_ms"].items()
        native = row["native_ms"]
        tried = row["candidates"]
        rows.append(
            [
                row["workload"],
                f"{row['tflops']:.2f}",
                "-" if native is None else f"{native:.4f}",
                "-" if native is None else f"{row['native_share']:.0%}",
                f"{row['max_rel_err']:.1e}",
                peers,
                ", ".join(f"{n} {ms['median']:.4f}" for n, ms in clocks),
                str(tried["measured"]),
                str(tried["wrong"]),
                str(tried["best_at"]),
                row["candidate"],
            ]
        )
    return Table(head, rows)


def _failures(result: Mapping[str, Any]) -> str:
    lines = [
        f"{name} failed on {row['workload']}: {why}."
        for row in result["rows"]
        for name, why in row["failed"].items()
    ]
    return "\n".join(lines)


def _passes(result: Mapping[str, Any]) -> str:
    """How many passes each takes: a pass costs a GPU some microseconds."""
    found: dict[str, set[float]] = {}
    for row in result["rows"]:
        for name, each in row["pass"]["each"].items():
            found.setdefault(name, set()).add(round(each["passes"], 2))
    told = "; ".join(
        f"{name} {', '.join(f'{n:g}' for n in sorted(ns))}" for name, ns in found.items()
    )
    return f"Compute passes for a product where many share a submit: {told}."
