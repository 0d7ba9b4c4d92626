"""``nnjit bench turbo``: builds of a library's module in turns, in one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_now, threads_text
from nnjit_studio.bench.options import Note
from nnjit_studio.bench.report import Report, Table, spread_text
from nnjit_studio.bench.statistics import spread
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.opening import in_browser
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.foreign_wasm.turbo.gate.gain import gain_of
from nnjit_studio.foreign_wasm.turbo.models import ModelRun, differences
from nnjit_studio.foreign_wasm.turbo.speed.compare import ORIGINAL, POLICY, case_names, run_cases


@dataclass(frozen=True)
class Comparison:
    """What is compared where: by default all cases, and not for their outputs alone."""

    original: Path
    builds: Mapping[str, Path]
    cases: Sequence[str] | None
    threads: Sequence[int]
    target: str
    no_sandbox: bool
    timed: bool = True

    @property
    def policy(self) -> RoundsPolicy | None:
        return POLICY if self.timed else None


def compare(what: Comparison, folder: Path, note: Note) -> dict[str, Any]:
    """The benchmark's document: a row for each case and number of threads.

    Raises
    ------
    UserError, TargetError, PageError
    """
    before = load_average()
    rows: list[dict[str, Any]] = []
    run = None
    opening = in_browser(browsers.find(what.target), what.no_sandbox)
    cases = what.cases or case_names(what.original)
    given = what.original, what.builds, cases, what.threads, opening, folder, what.policy
    for case in run_cases(*given):
        run = case.run
        rows.append(_row(case.name, case.flops, case.threads, run, list(what.builds)))
        note(row_text(rows[-1]))
    return {
        "ok": True,
        "browser": run.browser if run else "",
        **measured_now(before, run.versions if run else {}),
        "rows": rows,
    }


def _row(name: str, flops: int, threads: int, run: ModelRun, builds: list[str]) -> dict[str, Any]:
    ms = {build: spread(samples) for build, samples in run.samples_ms.items()}
    timed = builds if ms else []
    gains = {b: gain_of(run.samples_ms[ORIGINAL], run.samples_ms[b]).to_json() for b in timed}
    return {
        "case": name,
        "threads": threads,
        "ms": ms,
        "gain": gains,
        "gain_of_least": {b: ms[ORIGINAL]["min"] / ms[b]["min"] for b in timed},
        "gflops": {b: flops / row["median"] / 1e6 for b, row in ms.items()} if flops else {},
        "differences": {b: differences(run, b, ORIGINAL) for b in builds},
        "samples_ms": run.samples_ms,
    }


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    times = "  ".join(f"{name} {ms['median']:.2f} ms" for name, ms in row["ms"].items())
    told = "  ".join(f"{name} {' '.join(_gain_parts(row, name))}" for name in row["differences"])
    return f"{row['case']:<28} {row['threads']}T  {times}  {told}"


def _gain_parts(row: Mapping[str, Any], build: str) -> list[str]:
    """Gain, gain of the least times, outputs; the first two of a row with times."""
    worst = max(row["differences"][build].values())
    gain = row["gain"].get(build)
    timed = [_gain_text(gain), f"{row['gain_of_least'][build]:.2f}x"] if gain else []
    return [*timed, f"differ by {worst:.0e}" if worst else "bit-identical"]


def _gain_text(gain: Mapping[str, float]) -> str:
    return f"{gain['median']:.2f}x ({gain['low']:.2f}..{gain['high']:.2f})"


def report(result: dict[str, Any]) -> Report:
    """Medians with spread, gains with intervals, and how outputs differ."""
    first = result["rows"][0]
    head = ["case", "threads", *(f"{n} ms (min; IQR)" for n in first["ms"])]
    for name in first["differences"]:
        head += [f"{name} gain", "of least times"] if first["ms"] else []
        head.append(f"{name} outputs")
    lines = []
    for row in result["rows"]:
        line = [row["case"], str(row["threads"]), *(spread_text(m, 2) for m in row["ms"].values())]
        for name in row["differences"]:
            line += _gain_parts(row, name)
        lines.append(line)
    threads = " and ".join(threads_text(n) for n in sorted({r["threads"] for r in result["rows"]}))
    about = (
        "All builds run in turns in one page. A gain is the median of the ratios of samples taken "
        "in the same round, with its 95 % interval; on a busy machine the gain of the least times "
        "is steadier."
    )
    timed = about if first["ms"] else "Outputs of all builds in one page, compared bit by bit."
    return Report(result, f"turbo, {threads}", timed, (Table(head, lines),))
