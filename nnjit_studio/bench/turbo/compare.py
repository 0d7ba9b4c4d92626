"""``nnjit bench turbo``: builds of ONNX Runtime Web's module in turns, in one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_now, threads_text
from nnjit_studio.bench.options import Note
from nnjit_studio.bench.report import Report, Table, spread_text
from nnjit_studio.bench.statistics import spread
from nnjit_studio.bench.turbo.cases import case_of
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.turbo.gate.gain import gain_of
from nnjit_studio.turbo.models import ModelRun, RoundsPolicy, differences, run_model, runtime_of

ORIGINAL = "original"


def compare(
    original: Path,
    builds: Mapping[str, Path],
    cases: Sequence[str],
    threads: Sequence[int],
    target: str,
    no_sandbox: bool,
    folder: Path,
    note: Note,
) -> dict[str, Any]:
    """The benchmark's document: a row for each case and number of threads.

    Raises
    ------
    UserError, TargetError, PageError
    """
    runtime, browser = runtime_of(original), browsers.find(target)
    before = load_average()
    rows: list[dict[str, Any]] = []
    run = None
    for name in cases:
        case = case_of(name, folder)
        for count in threads:
            run = run_model(
                runtime,
                {ORIGINAL: original, **builds},
                case.model,
                case.feeds,
                browser,
                no_sandbox,
                count,
                RoundsPolicy(),
            )
            rows.append(_row(case.name, case.flops, count, run, list(builds)))
            note(row_text(rows[-1]))
    return {
        "ok": True,
        "browser": run.browser if run else "",
        **measured_now(before, run.versions if run else {}),
        "rows": rows,
    }


def _row(name: str, flops: int, threads: int, run: ModelRun, builds: list[str]) -> dict[str, Any]:
    ms = {build: spread(samples) for build, samples in run.samples_ms.items()}
    gains = {b: gain_of(run.samples_ms[ORIGINAL], run.samples_ms[b]).to_json() for b in builds}
    return {
        "case": name,
        "threads": threads,
        "ms": ms,
        "gain": gains,
        "gflops": {b: flops / row["median"] / 1e6 for b, row in ms.items()} if flops else {},
        "differences": {b: differences(run, b, ORIGINAL) for b in builds},
        "samples_ms": run.samples_ms,
    }


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    times = "  ".join(f"{name} {ms['median']:.2f} ms" for name, ms in row["ms"].items())
    gains = "  ".join(_gain_text(gain) for gain in row["gain"].values())
    return f"{row['case']:<28} {row['threads']}T  {times}  {gains}"


def _gain_text(gain: Mapping[str, float]) -> str:
    return f"{gain['median']:.2f}x ({gain['low']:.2f}..{gain['high']:.2f})"


def report(result: dict[str, Any]) -> Report:
    """Medians with spread, gains with intervals, and how outputs differ."""
    names = list(result["rows"][0]["ms"])
    head = ["case", "threads", *(f"{n} ms (min; IQR)" for n in names)]
    head += [part for n in names[1:] for part in (f"{n} gain", f"{n} outputs")]
    lines = []
    for row in result["rows"]:
        line = [row["case"], str(row["threads"]), *(spread_text(m, 2) for m in row["ms"].values())]
        for name in names[1:]:
            worst = max(row["differences"][name].values())
            line += [
                _gain_text(row["gain"][name]),
                f"differ by {worst:.0e}" if worst else "bit-identical",
            ]
        lines.append(line)
    threads = " and ".join(threads_text(n) for n in sorted({r["threads"] for r in result["rows"]}))
    about = (
        "All builds run in turns in one page. A gain is the median of the ratios of samples taken "
        "in the same round, with its 95 % interval."
    )
    return Report(result, f"turbo, {threads}", about, (Table(head, lines),))
