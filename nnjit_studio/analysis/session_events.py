"""Events of a tuning session, sorted by what reports and pictures show of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from nnjit_studio.analysis.line_plot import Series
from nnjit_studio.model.readable import words_of
from nnjit_studio.support.terminal import printable


@dataclass
class SessionEvents:
    """The event stream, sorted by what the report shows."""

    summary: dict[str, Any]
    started: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    timings: list[dict[str, Any]] = field(default_factory=list)
    spaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    compiled: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    measured: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    rounds: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    seconds: float = 0.0


def read_events(events: Sequence[Mapping[str, Any]]) -> SessionEvents:
    """Sort the events of a session; one that was cut short gets a summary from what is there."""
    session = SessionEvents({})
    for item in map(dict, events):
        session.seconds = max(session.seconds, item.get("t_s", 0.0))
        match item.get("event"):
            case "started":
                session.started = item
            case "space":
                session.spaces[item["workload"]] = item
            case "model":
                session.timings.append(item)
            case "compiled":
                session.compiled[item["workload"], item["candidate"]] = item
            case "measured":
                session.measured[item["workload"]].append(item)
            case "round":
                session.rounds[item["workload"]].append(item)
            case "failed":
                session.error = item["error"]
            case "summary":
                session.summary = item
    session.summary = session.summary or _unfinished(session)
    return session


def _unfinished(session: SessionEvents) -> dict[str, Any]:
    """What a session knows before its end, in the form of a ``Finished`` event."""
    timings = [t["ms"] for t in session.timings] or [math.nan]
    workloads = []
    for workload, verdicts in session.measured.items():
        default = [m["gflops"] for m in verdicts if m["state"] == "default"]
        rounds = session.rounds.get(workload, [])
        best = rounds[-1] if rounds else {}
        before = default[0] if default else math.nan
        workloads.append(
            {
                "workload": workload,
                "uses": math.nan,
                "rounds": len(rounds),
                "candidates": len(verdicts),
                "gflops": {"before": before, "after": best.get("best_gflops", before)},
                "ms": {"before": math.nan, "after": math.nan},
                "best": best.get("best_candidate", ""),
                "share": math.nan,
                "speedup": None,
            }
        )
    times = [c["ms"] for c in session.compiled.values() if not c["error"]] or [math.nan]
    median, p99 = map(float, np.percentile(times, (50, 99)))
    return {
        "reason": "unfinished",
        "model": session.started.get("model", ""),
        "model_ms": {"before": timings[0], "after": timings[-1]},
        "compile_ms": {"median": median, "p99": p99},
        "seconds_to_best": math.nan,
        "workloads": workloads,
        "target": session.started.get("target", {}),
    }


def tuned_workloads(session: SessionEvents, most: int) -> list[str]:
    """Workloads with rounds, in the order of the summary: the heaviest first."""
    order = [w["workload"] for w in session.summary["workloads"]]
    return [w for w in order if session.rounds.get(w)][:most]


def speed_series(
    session: SessionEvents, workloads: Sequence[str], axis: str = "round", began: float = 0.0
) -> list[Series]:
    """For each workload the best GFLOP/s so far, and each candidate's as a dot.

    Parameters
    ----------
    axis
        Field of the rounds that is x: ``round`` or ``t_s``.
    began
        Its value at the kernel of the default schedule, where a line begins.
    """
    before = {w["workload"]: w["gflops"]["before"] for w in session.summary["workloads"]}
    series = []
    for workload in workloads:
        rounds = session.rounds[workload]
        start = [(began, before[workload])] if before.get(workload, 0.0) > 0 else []
        best = [(float(r[axis]), r["best_gflops"]) for r in rounds]
        tried = [(float(r[axis]), r["gflops"]) for r in rounds if r["gflops"] > 0]
        series.append(Series(words(workload), start + best, tried, steps=True))
    return series


def words(workload: str) -> str:
    """A workload in words, without characters that steer a terminal."""
    return printable(str(words_of(workload)))


def short_name(workload: str) -> str:
    """A workload without its fingerprint and without characters that steer a terminal."""
    return printable(workload.rsplit("#", 1)[0])


def render(template: str, autoescape: bool, filters: Mapping[str, Any], **values: Any) -> str:
    """Fill in a template of ``resources/report``."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=autoescape, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    source = (files("nnjit_studio.resources") / "report" / template).read_text("utf-8")
    return environment.from_string(source).render(**values)
