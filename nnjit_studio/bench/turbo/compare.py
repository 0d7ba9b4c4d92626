"""``nnjit bench turbo``: builds of a library's module in turns, in one page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_now, threads_text
from nnjit_studio.bench.options import Note
from nnjit_studio.bench.report import Report, Table, spread_text
from nnjit_studio.bench.statistics import spread
from nnjit_studio.bench.turbo.cases import DEFAULT, case_of
from nnjit_studio.bench.turbo.tensorflow import CASES, is_tensorflow, run_operators
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.turbo.gate.gain import gain_of
from nnjit_studio.turbo.models import ModelRun, RoundsPolicy, differences, run_model, runtime_of

ORIGINAL = "original"


Runs = Iterator[tuple[str, int, int, ModelRun]]
"""Name, floating-point operations, threads, what the page told."""


@dataclass(frozen=True)
class Comparison:
    """What is compared where; ``cases`` are all by default."""

    original: Path
    builds: Mapping[str, Path]
    cases: Sequence[str] | None
    threads: Sequence[int]
    target: str
    no_sandbox: bool


def compare(what: Comparison, folder: Path, note: Note) -> dict[str, Any]:
    """The benchmark's document: a row for each case and number of threads.

    Raises
    ------
    UserError, TargetError, PageError
    """
    before = load_average()
    rows: list[dict[str, Any]] = []
    run = None
    runs = _operators(what, folder) if is_tensorflow(what.original) else _models(what, folder)
    for name, flops, threads, run in runs:
        rows.append(_row(name, flops, threads, run, list(what.builds)))
        note(row_text(rows[-1]))
    return {
        "ok": True,
        "browser": run.browser if run else "",
        **measured_now(before, run.versions if run else {}),
        "rows": rows,
    }


def _models(what: Comparison, folder: Path) -> Runs:
    runtime, browser = runtime_of(what.original), browsers.find(what.target)
    builds = {ORIGINAL: what.original, **what.builds}
    for name in what.cases or DEFAULT:
        case = case_of(name, folder)
        for count in what.threads:
            run = run_model(
                runtime,
                builds,
                case.model,
                case.feeds,
                browser,
                what.no_sandbox,
                count,
                RoundsPolicy(),
            )
            yield case.name, case.flops, count, run


def _operators(what: Comparison, folder: Path) -> Runs:
    builds = {ORIGINAL: what.original, **what.builds}
    cases = what.cases or list(CASES)
    yield from run_operators(what.original, builds, cases, what.target, what.no_sandbox, folder)


def _row(name: str, flops: int, threads: int, run: ModelRun, builds: list[str]) -> dict[str, Any]:
    ms = {build: spread(samples) for build, samples in run.samples_ms.items()}
    gains = {b: gain_of(run.samples_ms[ORIGINAL], run.samples_ms[b]).to_json() for b in builds}
    return {
        "case": name,
        "threads": threads,
        "ms": ms,
        "gain": gains,
        "gain_of_least": {b: ms[ORIGINAL]["min"] / ms[b]["min"] for b in builds},
        "gflops": {b: flops / row["median"] / 1e6 for b, row in ms.items()} if flops else {},
        "differences": {b: differences(run, b, ORIGINAL) for b in builds},
        "samples_ms": run.samples_ms,
    }


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    times = "  ".join(f"{name} {ms['median']:.2f} ms" for name, ms in row["ms"].items())
    gains = "  ".join(
        f"{_gain_text(gain)}, least {row['gain_of_least'][name]:.2f}x"
        for name, gain in row["gain"].items()
    )
    return f"{row['case']:<28} {row['threads']}T  {times}  {gains}"


def _gain_text(gain: Mapping[str, float]) -> str:
    return f"{gain['median']:.2f}x ({gain['low']:.2f}..{gain['high']:.2f})"


def report(result: dict[str, Any]) -> Report:
    """Medians with spread, gains with intervals, and how outputs differ."""
    names = list(result["rows"][0]["ms"])
    head = ["case", "threads", *(f"{n} ms (min; IQR)" for n in names)]
    head += [part for n in names[1:] for part in (f"{n} gain", "of least times", "outputs")]
    lines = []
    for row in result["rows"]:
        line = [row["case"], str(row["threads"]), *(spread_text(m, 2) for m in row["ms"].values())]
        for name in names[1:]:
            worst = max(row["differences"][name].values())
            line += [
                _gain_text(row["gain"][name]),
                f"{row['gain_of_least'][name]:.2f}x",
                f"differ by {worst:.0e}" if worst else "bit-identical",
            ]
        lines.append(line)
    threads = " and ".join(threads_text(n) for n in sorted({r["threads"] for r in result["rows"]}))
    about = (
        "All builds run in turns in one page. A gain is the median of the ratios of samples taken "
        "in the same round, with its 95 % interval; on a busy machine the gain of the least times "
        "is steadier."
    )
    return Report(result, f"turbo, {threads}", about, (Table(head, lines),))
