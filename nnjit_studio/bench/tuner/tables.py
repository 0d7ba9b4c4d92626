"""Reports of the benchmarks of serving and of the tuner's regret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnjit_studio.bench.conditions import threads_text
from nnjit_studio.bench.report import Report, Table

_SIDES = {"without tuning": "off", "tuning": "on", "full speed": "full_speed"}


def serving_report(result: Mapping[str, Any]) -> Report:
    head = ["", "inferences", "p50 ms", "p95 ms", "p99 ms", "max ms", "rounds/s"]
    rows = []
    for name, key in _SIDES.items():
        side = result[key]
        times = [f"{side[f'{p}_ms']:.2f}" for p in ("p50", "p95", "p99", "max")]
        rounds = "-" if key == "off" else f"{side['rounds_per_s']:.2f}"
        rows.append([name, str(side["inferences"]), *times, rounds])
    pace = f"every {result['interval_ms']:g} ms" if result["interval_ms"] else "back to back"
    about = (
        f"Served {pace}, budget {result['budget']:.0%} of p95; "
        f"{result['on']['seconds']:.0f} s of tuning, {result['swaps']} swaps."
    )
    title = f"tuning while {result['model']} serves, {threads_text(result['threads'])}"
    return Report(result, title, about, (Table(head, rows), _serving_ratio(result)))


def _serving_ratio(result: Mapping[str, Any]) -> str:
    if result["p95_ratio"] is None:
        return "No generation of kernels served long enough on both sides: give more seconds."
    each = ", ".join(f"{row['p95_ratio']:.3f}" for row in result["generations"])
    return (
        f"p95 while tuning over p95 without: {result['p95_ratio']:.3f}, each latency as a multiple "
        f"of its kernels' median without tuning ({result['covered']:.0%} of the inferences while "
        f"tuning); generation by generation {each}."
    )


def regret_report(result: Mapping[str, Any]) -> Report:
    head = ["shape", "workload", "rounds", "to best", "lite regret", "of", "wide regret", "of"]
    rows = []
    for row in result["rows"]:
        reached, regret, of = row["rounds_to_best"], row["regret"], row["candidates"]
        spaces = [(f"{regret[space]:.1%}", str(of[space])) for space in ("lite", "wide")]
        rows.append(
            [
                row["shape"],
                row["workload"],
                str(row["rounds"]),
                "never" if reached is None else str(reached),
                *spaces[0],
                *spaces[1],
            ]
        )
    s = result["summary"]
    summary = (
        f"{s['shapes']} shapes, mean regret {s['lite']['mean']:.1%} (worst "
        f"{s['lite']['worst']:.1%}) against the lite space, {s['wide']['mean']:.1%} (worst "
        f"{s['wide']['worst']:.1%}) against the wide one; the best, within 3 %, after at most "
        f"{result['rounds']} rounds on {s['found_in_time']:.0%} of the shapes."
        + (f" Not settled, as the machine was too busy: {s['unsettled']}." * bool(s["unsettled"]))
    )
    return Report(result, "regret of the tuner", "", (Table(head, rows), summary))
