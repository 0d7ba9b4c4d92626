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
)
from nnjit_studio.errors import UserError
from nnjit_studio.support.files import replacing
from nnjit_studio.support.tables import text_table
from nnjit_studio.support.terminal import printable

TEMPLATES = {False: "report.html.j2", True: "report.md.j2"}
"""By whether it is Markdown."""
PLOTTED_WORKLOADS = 6
MINOR_SHARE = 0.01
"""Workloads that were not tuned and take less of the time than this are summed up."""

COLUMNS = ("workload", "uses", "rounds", "tried", "GFLOP/s before", "after", "gain", "share")

NONE = "–"  # noqa: RUF001

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

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    UserError
        When there are no events or the file cannot be written.
    """
    text = render_report(
        events,
        created=created,
        versions=versions or {},
        markdown=out.suffix.lower() in (".md", ".markdown"),
    )
    with replacing(out, "The report") as part:
        part.write_text(text, encoding="utf-8", newline="\n")
    return out


def render_report(
    events: Sequence[Mapping[str, Any]],
    *,
    created: str,
    versions: Mapping[str, str],
    markdown: bool = False,
) -> str:
    """The report as text: see :func:`write_report`."""
    if not events:
        raise UserError("There is nothing to report: the session has no events.", "Tune a model.")
    session = read_events(events)
    summary = session.summary
    target = summary["target"]
    filters = {
        "number": number,
        "gain": gain,
        "percent": percent,
        "short": short_name,
        "cell": markdown_cell,
    }
    progress = speed_series(session, tuned_workloads(session, PLOTTED_WORKLOADS))
    return render(
        TEMPLATES[markdown],
        not markdown,
        filters,
        session=session,
        summary=summary,
        error=session.error,
        created=created,
        versions=sorted(versions.items()),
        speedup=ratio(summary["model_ms"]["before"], summary["model_ms"]["after"]),
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
    )


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


def ratio(over: float, under: float) -> str:
    """``over / under`` as a factor such as ``1.56x``; a dash where there is none."""
    if not (math.isfinite(over) and math.isfinite(under)) or over <= 0 or under <= 0:
        return NONE
    return f"{over / under:.2f}×"  # noqa: RUF001


def percent(share: float) -> str:
    """A share of 1 in percent."""
    return f"{share * 100:.1f} %" if math.isfinite(share) else NONE


def markdown_cell(words: str) -> str:
    """Text for a cell of a Markdown table: one line, nothing in it is markup."""
    line = " ".join(printable(str(words)).split())
    return re.sub(r"([\\|`*_<>\[\]#])", r"\\\1", line)


def gain(workload: Mapping[str, Any]) -> str:
    """How much faster a workload of a summary is: by its times, or else by its rates."""
    ms, gflops = workload["ms"], workload["gflops"]
    by_time = ratio(ms["before"], ms["after"])
    return ratio(gflops["after"], gflops["before"]) if by_time == NONE else by_time


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
    ms = finished["model_ms"]
    target = finished["target"]
    where = " ".join(short_name(str(target[k])) for k in ("target", "tier") if target.get(k))
    lines = [
        f"{short_name(finished['model'])} on {where}: {number(ms['before'])} ms -> "
        f"{number(ms['after'])} ms ({ratio(ms['before'], ms['after'])}){_clock(target)}",
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
    ]
    return "\n".join(lines) + "\n"


def _is_minor(workload: Mapping[str, Any]) -> bool:
    return not workload["rounds"] and bool(workload["share"] < MINOR_SHARE)
