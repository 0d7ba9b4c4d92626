"""The progress of a tuning session as one picture, after Fig. 13, 14 and 16 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nnjit_studio.analysis.line_plot import HEIGHT, WIDTH, Plot, Series, line_plot
from nnjit_studio.analysis.session_events import (
    SessionEvents,
    read_events,
    render,
    short_name,
    speed_series,
    tuned_workloads,
    words,
)

COLOURS = (
    "#0072b2", "#c43d00", "#00805c", "#b4508a", "#a38600", "#6a4ca3", "#3d9fd6", "#444a54",
)  # fmt: skip
"""After Okabe and Ito's colour-blind-safe set, as in the window."""
_TITLE_HEIGHT, _GAP, _LEGEND_ROW = 60, 24, 18


def progress_svg(events: Sequence[Mapping[str, Any]]) -> str:
    """Four plots: GFLOP/s of the workloads and ms of the model, by rounds and by seconds.

    Parameters
    ----------
    events
        The session's events in their JSON form, in order. The workloads drawn
        are the heaviest, one for each of :data:`COLOURS`.
    """
    session = read_events(events)
    shown = tuned_workloads(session, len(COLOURS))
    began_s = min((space["t_s"] for space in session.spaces.values()), default=0.0)
    rounds, seconds = "tuning round of the workload", "seconds since the session began"
    title = "Best so far, and every candidate"
    plots = [
        line_plot(title, rounds, "GFLOP/s", speed_series(session, shown)),
        line_plot(title, seconds, "GFLOP/s", speed_series(session, shown, "t_s", began_s)),
        _model_plot(session, "round", "tuning round of the session"),
        _model_plot(session, "t_s", seconds),
    ]
    step = HEIGHT + _GAP
    legend_top = _TITLE_HEIGHT + 2 * step + 8
    target = session.summary["target"]
    where = " ".join(str(target[k]) for k in ("target", "tier") if target.get(k))
    return render(
        "figure.svg.j2",
        True,
        {},
        title=f"{short_name(session.summary['model'])} on {where}",
        plots=plots,
        names=[words(w) for w in shown],
        colours=COLOURS,
        width=2 * WIDTH,
        height=legend_top + math.ceil(len(shown) / 2) * _LEGEND_ROW,
        top=_TITLE_HEIGHT,
        step=step,
        legend_top=legend_top,
    )


def _model_plot(session: SessionEvents, axis: str, label: str) -> Plot:
    """The estimate after each round; the dots are measured runs of the whole model."""
    rounds = sorted((r for rs in session.rounds.values() for r in rs), key=lambda r: r["t_s"])
    estimate = [
        (float(n) if axis == "round" else r["t_s"], r["model_ms"])
        for n, r in enumerate(rounds, 1)
        if r.get("model_ms")
    ]
    begun = [r["t_s"] for r in rounds]
    runs = [
        (
            float(sum(t < timing["t_s"] for t in begun)) if axis == "round" else timing["t_s"],
            timing["ms"],
        )
        for timing in session.timings
    ]
    return line_plot("Model", label, "ms", [Series("model", estimate or runs, runs, steps=True)])
