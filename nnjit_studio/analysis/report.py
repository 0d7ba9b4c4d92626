"""The report of a tuning session, as HTML or Markdown, and a table for the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnjit_studio.analysis.line_plot import Plot, Series, line_plot
from nnjit_studio.analysis.session_events import (
    SessionEvents,
    read_events,
    render,
    short_name,
    speed_series,
    tuned_workloads,
    words,
)
from nnjit_studio.errors import UserError
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER, WON, shown_outcome
from nnjit_studio.support.files import replacing
from nnjit_studio.support.tables import text_table
from nnjit_studio.support.terminal import printable
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.text import COLUMNS as VERDICT_COLUMNS
from nnjit_studio.verdict.text import cells, explanation, headline

TEMPLATES = {False: "report.html.j2", True: "report.md.j2"}
"""By whether it is Markdown."""
PLOTTED_WORKLOADS = 6
NAMED = 3
"""Workloads without a check that are told by name."""
MINOR_SHARE = 0.01
"""Workloads that were not tuned and take less of the time than this are summed up."""

COLUMNS = ("workload", "uses", "rounds", "tried", "GFLOP/s before", "after", "gain", "share")

NONE = "–"  # noqa: RUF001
NOT_CHECKED = "not checked"

TARGET_FIELDS = (
    ("target", "Target", ""),
    ("device_id", "Device", ""),
    ("user_agent", "Browser", ""),
    ("flags", "Flags", ""),
    ("tier", "Instruction tier", ""),
    ("cores", "Cores", ""),
    ("threads", "Threads", ""),
    ("vector_registers", "Vector registers", ""),
    ("timer_quantum_ms", "Timer quantum", "ms"),
)


def write_report(
    out: Path,
    events: Sequence[Mapping[str, Any]],
    *,
    created: str,
    versions: Mapping[str, str] | None = None,
    verdict: Verdict | None = None,
) -> Path:
    """Write the report of a session as one file without external resources.

    A name that ends in ``.md`` gets Markdown, every other one HTML with plots.

    Parameters
    ----------
    events
        The session's events in their JSON form, in order. Without a
        ``summary`` (cancelled, failed) the report shows what there is.
    created
        Date for the header, ISO 8601. Equal arguments give equal bytes.
    versions
        Program to version, for the footer.
    verdict
        The model in each engine, which the report then begins with.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    UserError
        When there are no events or the file cannot be written.
    """
    if not events:
        raise UserError("There is nothing to report: the session has no events.", "Tune a model.")
    session = read_events(events)
    summary = session.summary
    target = summary["target"]
    markdown = out.suffix.lower() in (".md", ".markdown")
    progress = speed_series(session, tuned_workloads(session, PLOTTED_WORKLOADS))
    text = render(
        TEMPLATES[markdown],
        not markdown,
        FILTERS,
        session=session,
        summary=summary,
        error=session.error,
        created=created,
        versions=sorted((versions or {}).items()),
        speedup=model_gain(summary),
        gained=(summary.get("gain") or {}).get("outcome") == FASTER,
        times=model_times(summary, "→"),
        warning=summary.get("warning", ""),
        notes=[n for n in (text(summary) for text in NOTES) if n],
        clock=_clock(target),
        measured=sum(len(verdicts) for verdicts in session.measured.values()),
        latency=_latency_plot(session),
        progress=line_plot("Best GFLOP/s so far, by round", "round", "GFLOP/s", progress),
        facts=[
            (label, f"{target[name]} {unit}".strip())
            for name, label, unit in TARGET_FIELDS
            if target.get(name) not in (None, "")
        ],
        peaks=sorted(target.get("peak_gflops", {}).items()),
        dash=NONE,
        compared=None if verdict is None else _compared(verdict),
    )
    with replacing(out, "The report") as part:
        part.write_text(text, encoding="utf-8", newline="\n")
    return out


def _compared(verdict: Verdict) -> dict[str, Any]:
    """A verdict for the templates; bars in percent of their room."""
    most = max((row.ms.high for row in verdict.rows if row.ms), default=0.0) or 1.0
    share = 72.0 / most
    rows = [
        {
            "who": row.who,
            "cells": cells(row, verdict.busy),
            "bar": [share * t for t in (row.ms.median, row.ms.low, row.ms.high)] if row.ms else [],
        }
        for row in verdict.rows
    ]
    return {
        "headline": headline(verdict),
        "tone": verdict.state if verdict.state in ("faster", "slower") and not verdict.busy else "",
        "busy": verdict.busy,
        "explanation": explanation(verdict),
        "columns": VERDICT_COLUMNS,
        "rows": rows,
        "created": verdict.created[:19],
    }


def _latency_plot(session: SessionEvents) -> Plot:
    points = [(t["t_s"], t["ms"]) for t in session.timings]
    return line_plot("Model latency over time", "s", "ms", [Series("model", points, steps=True)])


def number(value: float | str | None, digits: int = 3) -> str:
    """At least ``digits`` significant digits, never an exponent; a dash where there is none."""
    # Infinity travels as text in the events' JSON.
    value = math.nan if value is None else float(value)
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(decimals, 6)}f}"


def percent(share: float) -> str:
    """A share of 1 in percent."""
    return f"{share * 100:.1f} %" if math.isfinite(share) else NONE


def markdown_cell(words: str) -> str:
    """Text for a cell of a Markdown table: one line, nothing in it is markup."""
    line = " ".join(printable(str(words)).split())
    return re.sub(r"([\\|`*_<>\[\]#])", r"\\\1", line)


def gain(workload: Mapping[str, Any]) -> str:
    """How much faster a workload of a summary is by its duels; a dash where none tells."""
    if not workload.get("checked", True):
        return NOT_CHECKED
    speedup = workload.get("speedup")
    if speedup is None:
        return NONE
    value, low, high = speedup
    if value == low == high == 1:
        return "unchanged"
    return f"{value:.2f}× ({low:.2f} to {high:.2f})"  # noqa: RUF001


FILTERS = {
    **{"number": number, "gain": gain, "outcome": shown_outcome, "percent": percent},
    **{"words": words, "cell": markdown_cell},
}
"""Of the templates."""


def model_gain(summary: Mapping[str, Any]) -> str:
    """What pairs of the whole model say; nothing else is a gain. A dash in older files."""
    told = summary.get("gain") or {}
    outcome = str(told.get("outcome") or NONE)
    ends = (told.get("low"), told.get("high"))
    span = "" if None in ends else f"{ends[0]:.2f} to {ends[1]:.2f}"
    if told.get("ratio") is None or outcome == NOT_TOLD_APART:
        return f"{outcome} ({span})" if span else outcome
    return f"{told['ratio']:.2f}× ({span}, {told['pairs']} pairs)"  # noqa: RUF001


def model_times(summary: Mapping[str, Any], arrow: str = "->") -> str:
    """Milliseconds before and after where pairs tell them apart, or else of now alone."""
    ms, told = summary["model_ms"], summary.get("gain") or {}
    now = f"{number(ms['after'])} ms"
    if told.get("ratio") is None or told.get("outcome") == NOT_TOLD_APART:
        return now
    return f"{number(ms['before'])} ms {arrow} {now}"


def candidates_text(summary: Mapping[str, Any]) -> str:
    """``128 tried, 2 kept, 89 slower, 30 not told apart``; empty in older files."""
    counts = summary.get("outcomes") or {}
    if not counts:
        return ""
    broken = sum(counts.get(state, 0) for state in ("wrong", "impossible", "failed"))
    kinds = (
        (summary.get("kept", 0), "kept"),
        (counts.get(WON, 0) + counts.get(FASTER, 0), "faster in a duel"),
        (counts.get(SLOWER, 0), "slower"),
        (counts.get(NOT_TOLD_APART, 0), "not told apart"),
        (broken, "wrong or failed"),
    )
    told = ", ".join(f"{n} {kind}" for n, kind in kinds if n or kind == "kept")
    return f"{sum(counts.values())} tried: {told}"


def unchecked_text(summary: Mapping[str, Any]) -> str:
    """Which workloads were left as they were, since no check allowed more; empty without any."""
    left = [w for w in summary["workloads"] if not w.get("checked", True)]
    if not left:
        return ""
    names = ", ".join(short_name(w["workload"]) for w in left[:NAMED])
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    which = "its check" if len(left) == 1 else "their checks"
    return f"{names}{more} not tuned: {which} did not end within the budget"


def left_text(summary: Mapping[str, Any]) -> str:
    """That nothing is left to gain, or that noise hides it; empty where something was gained, or
    time was short."""
    won = (summary.get("outcomes") or {}).get(WON)
    if won or summary["reason"] not in ("converged", "exhausted"):
        return ""
    if undecided := summary.get("undecided"):
        tried = sum(summary["outcomes"].values())
        return f"noise hides whether {undecided} of {tried} candidates are faster: tune again"
    if summary.get("warning"):
        return "no candidate was proven faster while the machine was busy: tune again"
    ways = sum(workload["candidates"] for workload in summary["workloads"])
    return f"nothing is left to gain: the best of {ways} known ways is in use" if ways else ""


def peak_text(summary: Mapping[str, Any]) -> str:
    """How far the kernels are from the machine's peak; empty where that is not known, or rough."""
    of_peak = summary.get("of_peak")
    timed = summary.get("model_ms", {}).get("after", 1)
    if not of_peak or not timed or summary.get("warning"):
        return ""
    which = "tuned" if summary.get("kept") else "untuned"
    return f"the {which} kernels run at {of_peak:.0%} of this machine's peak"


NOTES = (candidates_text, unchecked_text, peak_text)


def _clock(target: Mapping[str, Any]) -> str:
    """What a model's milliseconds hold on a GPU, besides its kernels' own."""
    return " by the page's clock, its result read back" if target.get("gpu") else ""


def summary_table(finished: Mapping[str, Any]) -> str:
    """The summary of a session as plain text, for a terminal.

    Parameters
    ----------
    finished
        The JSON form of a ``Finished`` event.
    """
    target = finished["target"]
    where = " ".join(short_name(str(target[k])) for k in ("target", "tier") if target.get(k))
    told = "the session ended before the model was timed"
    if finished["model_ms"]["after"]:
        told = f"{model_times(finished)}{_clock(target)}: {model_gain(finished)}"
    lines = [
        f"{short_name(finished['model'])} on {where}: {told}",
        *_sentence(finished.get("warning", "")),
        "",
    ]
    workloads = finished["workloads"]
    minor = [w["share"] for w in workloads if _is_minor(w)]
    rows = (
        (
            short_name(w["workload"]),
            f"{w['uses']:.0f}",
            w["rounds"],
            w["candidates"],
            number(w["gflops"]["before"]),
            number(w["gflops"]["after"]),
            gain(w),
            percent(w["share"]),
        )
        for w in workloads
        if not _is_minor(w)
    )
    lines.append(text_table(COLUMNS, rows))
    if minor:
        lines.append(f"and {len(minor)} more, not tuned, {percent(sum(minor))} of the time")
    compile_ms = finished["compile_ms"]
    lines += [
        "",
        f"Compiling took {number(compile_ms['median'])} ms a candidate (p99 "
        f"{number(compile_ms['p99'])} ms); the best was there after "
        f"{number(finished['seconds_to_best'])} s.",
        *_sentence(candidates_text(finished)),
        *_sentence(unchecked_text(finished)),
        *_sentence(left_text(finished)),
        *_sentence(peak_text(finished)),
    ]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> list[str]:
    """The text as a line of its own; none for nothing."""
    return [f"{text[:1].upper()}{text[1:]}."] if text else []


def _is_minor(workload: Mapping[str, Any]) -> bool:
    return not workload["rounds"] and bool(workload["share"] < MINOR_SHARE)
