"""Results as text for a terminal and as a dated section of Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnjit_studio.support.files import replacing

TITLE = (
    "# Results\n\nEach section is one run, newest last; how to repeat one: benchmarks/README.md.\n"
)


def append(path: Path, section: str) -> None:
    """Add a section to a file of results; the file is made when missing."""
    before = path.read_text(encoding="utf-8") if path.exists() else TITLE
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(f"{before.rstrip()}\n\n{section.strip()}\n", encoding="utf-8")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; the first to the left, numbers to the right."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, *rows)
    )


def conditions(result: Mapping[str, Any]) -> str:
    """When, where and under which load a result was measured."""
    load = result.get("load_average") or {}
    versions = ", ".join(f"{name} {v}" for name, v in result["versions"].items())
    return (
        f"{result['date']}; {result['cpu']}, {result['cores']} cores; "
        f"{result.get('browser', 'no browser')}; {versions}; "
        f"load average (1, 5, 15 min) before {load.get('before')}, after {load.get('after')}."
    )


def _kernel_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    names = list(result["rows"][0]["ms"]) if result["rows"] else ["ours"]
    peers = names[1:]
    head = ["workload", *(f"{n} ms (min; IQR)" for n in names)]
    head += [*(f"{p} / ours" for p in peers), "GFLOP/s", "of peak", "error"]
    rows = []
    for row in result["rows"]:
        times = [
            f"{ms['median']:.3f} ({ms['min']:.3f}; {ms['iqr']:.3f})" for ms in row["ms"].values()
        ]
        share = "-" if row["peak_share"] is None else f"{row['peak_share']:.0%}"
        rows.append(
            [
                row["workload"],
                *times,
                *(f"{row['ratio'][p]:.2f}" for p in peers),
                f"{row['gflops']['ours']:.1f}",
                share,
                f"{row['max_rel_err']:.1e}",
            ]
        )
    return head, rows


def _geomean_text(result: Mapping[str, Any]) -> str:
    words = {
        "ort": "ONNX Runtime Web / ours",
        "tfjs": "TensorFlow.js / ours",
        "better_peer": "better peer / ours",
        "worst_to_better_peer": "worst row, better peer / ours",
    }
    found = [f"{words[k]} {v:.2f}" for k, v in result["geomean"].items() if v is not None]
    return "Geometric means: " + "; ".join(found) + "." if found else ""


def kernels_text(result: Mapping[str, Any]) -> str:
    return "\n".join((text_table(*_kernel_rows(result)), _geomean_text(result))).strip()


def kernels_markdown(result: Mapping[str, Any]) -> str:
    peak = ", ".join(f"{tier} {rate:.1f}" for tier, rate in result["peak_gflops"].items())
    fewer = {
        name: count
        for row in result["rows"]
        for name, count in row["peers_threads"].items()
        if count != row["threads"]
    }
    told = "".join(f" {name} runs on {count} of them." for name, count in fewer.items())
    candidates = "; ".join(f"`{r['workload']}` {r['candidate']}" for r in result["rows"])
    return (
        f"## {result['date'][:10]}: kernels, {result['threads']} thread"
        f"{'s' if result['threads'] > 1 else ''}\n\n{conditions(result)} "
        f"Measured multiply-add peak of one thread, GFLOP/s: {peak}.{told}\n\n"
        f"{markdown_table(*_kernel_rows(result))}\n\n{_geomean_text(result)}\n\n"
        f"Candidates: {candidates}."
    )


def _compile_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    linkers = list(result["rows"][0]["conventional_ms"])
    head = ["workload", "candidates", "median ms", "p99 ms", "max ms", "bytes"]
    rows = []
    for row in result["rows"]:
        ms = row["ms"]
        ways = row["conventional_ms"].values()
        rows.append(
            [
                row["workload"],
                str(row["candidates"]),
                *(f"{ms[key]:.2f}" for key in ("median", "p99", "max")),
                f"{row['nbytes']['median']:.0f}",
                *("not installed" if way is None else f"{way['median']:.0f}" for way in ways),
            ]
        )
    return [*head, *(f"TVM + LLVM + {linker} ms" for linker in linkers)], rows


def _pass_split(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    names = list(result["rows"][0]["pass_ms"])
    rows = [
        [row["workload"], *(f"{row['pass_ms'][name]:.3f}" for name in names)]
        for row in result["rows"]
    ]
    return ["median ms of", *names], rows


def compile_text(result: Mapping[str, Any]) -> str:
    tables = (text_table(*_compile_rows(result)), text_table(*_pass_split(result)))
    return "\n\n".join(tables)


def compile_markdown(result: Mapping[str, Any]) -> str:
    return (
        f"## {result['date'][:10]}: compile times, settings to bytes\n\n{conditions(result)}\n\n"
        f"{markdown_table(*_compile_rows(result))}\n\n{markdown_table(*_pass_split(result))}"
    )


def _passes_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["passes", "compile ms", "bytes", "kernel ms (min; IQR)", "over all passes", "says"]
    rows = []
    for row in result["rows"]:
        ms, slow = row["ms"], row["slowdown"]
        rows.append(
            [
                row["variant"],
                f"{row['compile_ms']:.2f}",
                str(row["nbytes"]),
                f"{ms['median']:.3f} ({ms['min']:.3f}; {ms['iqr']:.3f})",
                f"{slow['median']:.3f} ({slow['low']:.3f}..{slow['high']:.3f})",
                "the same bytes" if row["same_bytes"] else row["verdict"],
            ]
        )
    return head, rows


def passes_text(result: Mapping[str, Any]) -> str:
    return text_table(*_passes_rows(result))


def passes_markdown(result: Mapping[str, Any]) -> str:
    return (
        f"## {result['date'][:10]}: the passes, after Table 5 of the paper\n\n"
        f"{conditions(result)} Target {result['target']}, `{result['workload']}`, "
        f"{result['candidate']}, {result['tier']}.\n\n"
        f"{markdown_table(*_passes_rows(result))}"
    )


def _model_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    names = list(result["rows"][0]["ms"]) if result["rows"] else ["ours"]
    peers = names[1:]
    head = ["model", "threads", *(f"{n} ms (min; IQR)" for n in names)]
    head += [*(f"{p} / ours" for p in peers), "file MiB", *(f"{n} MiB" for n in names)]
    head += [*(f"{n} cold ms" for n in names), "error"]
    rows = []
    for row in result["rows"]:
        error = row["max_rel_err"]
        rows.append(
            [
                row["model"],
                str(row["threads"]),
                *(
                    f"{ms['median']:.1f} ({ms['min']:.1f}; {ms['iqr']:.1f})"
                    for ms in row["ms"].values()
                ),
                *(f"{row['ratio'][p]:.2f}" for p in peers),
                f"{row['file_bytes'] / 2**20:.0f}",
                *(f"{row['memory_bytes'][n] / 2**20:.0f}" for n in names),
                *(f"{row['cold_ms'][n]:.0f}" if n in row["cold_ms"] else "-" for n in names),
                "-" if error is None else f"{error:.1e}",
            ]
        )
    return head, rows


def _model_ratios(result: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{name}: geometric mean {means['geomean']:.2f}, worst {means['worst']:.2f}."
        for name, means in result["ratios"].items()
    )


def models_text(result: Mapping[str, Any]) -> str:
    return "\n".join((text_table(*_model_rows(result)), _model_ratios(result))).strip()


def models_markdown(result: Mapping[str, Any]) -> str:
    return (
        f"## {result['date'][:10]}: models\n\n{conditions(result)}\n\n"
        f"{markdown_table(*_model_rows(result))}\n\n{_model_ratios(result)}"
    )


def _serving_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["", "inferences", "p50 ms", "p95 ms", "p99 ms", "max ms", "rounds/s"]
    sides = {"without tuning": "off", "tuning": "on", "full speed": "full_speed"}
    rows = []
    for name, key in sides.items():
        side = result[key]
        times = [f"{side[f'{p}_ms']:.2f}" for p in ("p50", "p95", "p99", "max")]
        rounds = "-" if key == "off" else f"{side['rounds_per_s']:.2f}"
        rows.append([name, str(side["inferences"]), *times, rounds])
    return head, rows


def _serving_ratio(result: Mapping[str, Any]) -> str:
    if result["p95_ratio"] is None:
        return "No generation of kernels served long enough on both sides: give more seconds."
    each = ", ".join(f"{row['p95_ratio']:.3f}" for row in result["generations"])
    return (
        f"p95 while tuning over p95 without: {result['p95_ratio']:.3f}, each latency as a multiple "
        f"of its kernels' median without tuning ({result['covered']:.0%} of the inferences while "
        f"tuning); generation by generation {each}."
    )


def serving_text(result: Mapping[str, Any]) -> str:
    return f"{text_table(*_serving_rows(result))}\n\n{_serving_ratio(result)}"


def serving_markdown(result: Mapping[str, Any]) -> str:
    pace = f"every {result['interval_ms']:g} ms" if result["interval_ms"] else "back to back"
    threads = f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}"
    return (
        f"## {result['date'][:10]}: tuning while {result['model']} serves, {threads}\n\n"
        f"{conditions(result)} Served {pace}, budget {result['budget']:.0%} of p95; "
        f"{result['on']['seconds']:.0f} s of tuning, {result['swaps']} swaps.\n\n"
        f"{markdown_table(*_serving_rows(result))}\n\n{_serving_ratio(result)}"
    )


def _regret_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["shape", "workload", "rounds", "to best", "lite regret", "of", "wide regret", "of"]
    rows = []
    for row in result["rows"]:
        reached, regret, of = row["rounds_to_best"], row["regret"], row["candidates"]
        rows.append(
            [
                row["shape"],
                row["workload"],
                str(row["rounds"]),
                "never" if reached is None else str(reached),
                f"{regret['lite']:.1%}",
                str(of["lite"]),
                f"{regret['wide']:.1%}",
                str(of["wide"]),
            ]
        )
    return head, rows


def _regret_summary(result: Mapping[str, Any]) -> str:
    s = result["summary"]
    return (
        f"{s['shapes']} shapes, mean regret {s['lite']['mean']:.1%} (worst "
        f"{s['lite']['worst']:.1%}) against the lite space, {s['wide']['mean']:.1%} (worst "
        f"{s['wide']['worst']:.1%}) against the wide one; the best, within 3 %, after at most "
        f"{result['rounds']} rounds on {s['found_in_time']:.0%} of the shapes."
        + (f" Not settled, as the machine was too busy: {s['unsettled']}." * bool(s["unsettled"]))
    )


def regret_text(result: Mapping[str, Any]) -> str:
    return f"{text_table(*_regret_rows(result))}\n\n{_regret_summary(result)}"


def regret_markdown(result: Mapping[str, Any]) -> str:
    return (
        f"## {result['date'][:10]}: regret of the tuner\n\n{conditions(result)}\n\n"
        f"{markdown_table(*_regret_rows(result))}\n\n{_regret_summary(result)}"
    )
