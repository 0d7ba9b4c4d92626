"""Compile times as a trace for Perfetto or Chrome: one line for each compiler tier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nnjit_studio.inspection.report import Tiers
from nnjit_studio.inspection.survey import Survey
from nnjit_studio.support.files import write_json


def trace_events(survey: Survey, tiers: Tiers) -> list[dict[str, Any]]:
    """Functions one after the other, the slowest first, as complete events in microseconds.

    Engines compile on several threads at once: places on the time axis are not when
    a function was compiled, lengths are how long that took.
    """
    events: list[dict[str, Any]] = []
    names = sorted({tier for costs in tiers.values() for tier in costs})
    for thread, tier in enumerate(names, 1):
        label = {"name": tier}
        events.append({"ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": label})
        known = {index: costs[tier] for index, costs in tiers.items() if tier in costs}
        start = 0.0
        for index in sorted(known, key=lambda i: -known[i]["ms"]):
            length = 1000 * known[index]["ms"]
            event = {"ph": "X", "pid": 1, "tid": thread, "ts": start, "dur": length}
            name = f"{index} {survey.name(index)}".strip()
            events.append({**event, "name": name, "cat": tier, "args": dict(known[index])})
            start += length
    return events


def write_trace(path: Path, survey: Survey, tiers: Tiers) -> None:
    """Write the trace as JSON.

    Raises
    ------
    UserError
        When the file cannot be written.
    """
    write_json(path, {"traceEvents": trace_events(survey, tiers), "displayTimeUnit": "ms"})
