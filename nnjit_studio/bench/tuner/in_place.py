"""``nnjit bench in-place``: do winners of duels hold inside the model?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.bench.report import Report, Table
from nnjit_studio.bench.statistics import geomean
from nnjit_studio.errors import CompileError
from nnjit_studio.records import Kernel, MeasurePolicy
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.gpu_candidate import candidate_of
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER
from nnjit_studio.tuner import TuneOptions
from nnjit_studio.tuner.evaluator import at_once
from nnjit_studio.tuner.events import Failed, Measured
from nnjit_studio.tuner.in_place import InPlace, try_in_place
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.tuning import session_of

LOOKS = (4, 8, 16, 32, 64)
POLICY = MeasurePolicy(pairs=LOOKS[-1], min_sample_ms=4.0, warmup_ms=30.0, max_ms=24000.0)
"""More than a session spends on one winner: this is the judge of what it decided."""


@dataclass(frozen=True)
class Winner:
    """A kernel that won its duel, and the one that it beat."""

    workload: str
    settings: str
    beaten: str
    speedup: float
    low: float
    high: float


def bench_in_place(
    bench: Workbench,
    models: Sequence[Path],
    seconds: float,
    confirm: bool,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Tune each model, then run it with each winner and with what that winner beat, in turns.

    Everything else of the model runs the kernels that the session ended with.

    Raises
    ------
    CompileError, PageError, NnjitError
        When a session fails.
    """
    before, rows = load_average(), []
    for path in models:
        opened = bench.open_model(path)
        found = tuple(_tuned(bench, seconds, confirm))
        note(f"{opened.graph.name}: {len(found)} winners")
        bench.model.register_best()
        for winner in found:
            place = _judged(bench, winner)
            rows.append({"model": opened.graph.name, **asdict(winner), "in_place": asdict(place)})
            note(f"  {winner.workload.split('#')[0]} hot {winner.speedup:.3f}x, {place}")
    device = bench.page.connect()
    return {
        "ok": True,
        **measured_on(device, before, bench.compiler.version),
        "threads": device.threads,
        "tier": device.best_tier,
        "seconds": seconds,
        "confirm": confirm,
        "rows": rows,
        "summary": summary(rows),
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many winners hold, how many do not, and the mean gain hot and in place."""
    outcomes = [row["in_place"]["outcome"] for row in rows]
    timed = [row for row in rows if row["in_place"]["speedup"] > 0]
    return {
        "winners": len(rows),
        **{name.replace(" ", "_"): outcomes.count(name) for name in _OUTCOMES},
        "hold": outcomes.count(FASTER) / len(rows) if rows else None,
        "hot": geomean(row["speedup"] for row in timed),
        "in_place": geomean(row["in_place"]["speedup"] for row in timed),
    }


_OUTCOMES = (FASTER, NOT_TOLD_APART, SLOWER)


def _tuned(bench: Workbench, seconds: float, confirm: bool) -> Iterator[Winner]:
    """The winners of a session on the open model, in the order of their duels."""
    running: dict[str, str] = {}
    for event in session_of(bench.model, TuneOptions(seconds=seconds, confirm=confirm)).run():
        if isinstance(event, Failed):
            raise CompileError(event.error["error"], event.error["hint"])
        if isinstance(event, Measured) and event.state == "won":
            beaten = running.get(event.workload, DEFAULT_SETTINGS)
            running[event.workload] = event.candidate
            ends = event.speedup_low, event.speedup_high
            yield Winner(event.workload, event.candidate, beaten, event.speedup, *ends)


def _judged(bench: Workbench, winner: Winner) -> InPlace:
    model = bench.model
    (last,) = (k for k in model.kernels(_tier(bench)) if k.workload == winner.workload)
    model.page.runner.register([_kernel(bench, winner.workload, winner.beaten)])
    challenger = _kernel(bench, winner.workload, winner.settings)
    place = at_once(try_in_place(model.page.runner, model.feeds, [challenger], POLICY, looks=LOOKS))
    model.page.runner.register([last])
    return place


def _tier(bench: Workbench) -> tuple[str]:
    return (bench.page.connect().best_tier,)


def _kernel(bench: Workbench, workload: str, settings: str) -> Kernel:
    candidate = candidate_of(settings)
    return bench.compiler.kernels(bench.model.workload(workload), candidate, _tier(bench))[0]


def in_place_report(result: Mapping[str, Any]) -> Report:
    """The winners, and how many of them hold."""
    head = ["model", "workload", "winner", "hot", "in place", "interval", "whole model", "outcome"]
    rows = []
    for row in result["rows"]:
        place = row["in_place"]
        whole = f"{place['run_speedup']:.3f}" if place["run_speedup"] else "-"
        ends = f"{place['low']:.3f}..{place['high']:.3f}"
        cells = [row["model"], row["workload"].split("#")[0], row["settings"]]
        times = [f"{row['speedup']:.3f}", f"{place['speedup']:.3f}", ends, whole]
        rows.append([*cells, *times, place["error"] or place["outcome"]])
    s = result["summary"]
    text = "No kernel won a duel."
    if s["winners"]:
        text = (
            f"{s['faster']} of {s['winners']} winners ({s['hold']:.0%}) are faster in the model "
            f"too, {s['not_told_apart']} are not told apart there, {s['slower']} are slower."
        )
    if s["hot"]:
        text += f" Geometric means: hot {s['hot']:.3f}x, in place {s['in_place']:.3f}x."
    confirmed = "confirmed in place" if result["confirm"] else "of duels alone"
    about = (
        f"Sessions of {result['seconds']:g} s, winners {confirmed}; then each winner against the "
        "kernel that it beat, inside the tuned model, in turns in one page; 95 % intervals."
    )
    return Report(result, "winners in place", about, (Table(head, rows), text))
