"""Results of the GPU's benchmarks as text for a terminal and as dated sections of Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnjit_studio.bench.gpu.kernels import STYLES
from nnjit_studio.bench.tables import conditions, markdown_table, text_table

Table = tuple[list[str], list[list[str]]]


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


def _median(value: Mapping[str, float]) -> str:
    return f"{value['median']:.4f} ({value['min']:.4f}; {value['iqr']:.4f})"


def _kernel_table(result: Mapping[str, Any]) -> Table:
    names = [
        n for n in ("ours", "ort", "tfjs") if any(n in r["pass"]["gpu_ms"] for r in result["rows"])
    ]
    head = ["workload", "submitted", *(f"{n} GPU ms (min; IQR)" for n in names)]
    head += [f"{n} / ours" for n in names[1:]]
    rows = []
    for row in result["rows"]:
        for style, words in STYLES.items():
            found = row[style]
            rows.append(
                [
                    row["workload"],
                    words if style == "submit" else f"{row['depth']} per submit",
                    *(_median(found["gpu_ms"][n]) if n in found["gpu_ms"] else "-" for n in names),
                    *(
                        f"{found['ratio'][n]:.2f}" if n in found["ratio"] else "-"
                        for n in names[1:]
                    ),
                ]
            )
    return head, rows


def _page_table(result: Mapping[str, Any]) -> Table:
    names = [
        n for n in ("ours", "ort", "tfjs") if any(n in r["pass"]["gpu_ms"] for r in result["rows"])
    ]
    head = ["workload", "call", *(f"{n} ms" for n in names), *(f"{n} / ours" for n in names[1:])]
    rows = []
    for row in result["rows"]:
        calls = {
            "one per submit, pipelined": (row["submit"]["wall_ms"], row["submit"]["wall_ratio"]),
            f"{row['depth']} per submit, pipelined": (
                row["pass"]["wall_ms"],
                row["pass"]["wall_ratio"],
            ),
            "one, with its result read": (row["readback_ms"], row["readback_ratio"]),
        }
        for words, (ms, ratio) in calls.items():
            rows.append(
                [
                    row["workload"],
                    words,
                    *(f"{ms[n]['median']:.4f}" if n in ms else "-" for n in names),
                    *(f"{ratio[n]:.2f}" if n in ratio else "-" for n in names[1:]),
                ]
            )
    return head, rows


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
    return head, rows


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


def gpu_kernels_text(result: Mapping[str, Any]) -> str:
    tables = (_kernel_table, _page_table, _kernel_facts)
    parts = [adapter_text(result), *(text_table(*t(result)) for t in tables)]
    parts += [_passes(result), _failures(result)]
    return "\n\n".join(filter(None, parts))


def gpu_kernels_markdown(result: Mapping[str, Any]) -> str:
    native = result["native"]
    told = f" cuBLAS: {native['library']} on {native['device']}, {native['how']}." if native else ""
    parts = [
        f"## {result['date'][:10]}: WebGPU kernels beside their peers"
        + ("" if result["dtype"] == "float32" else f", {result['dtype']} by a lab mode"),
        f"{conditions(result)} {adapter_text(result)}{told}",
        "GPU time by timestamps around each compute pass:",
        markdown_table(*_kernel_table(result)),
        _passes(result),
        "As the page sees a call:",
        markdown_table(*_page_table(result)),
        markdown_table(*_kernel_facts(result)),
        _failures(result),
    ]
    return "\n\n".join(filter(None, parts))
