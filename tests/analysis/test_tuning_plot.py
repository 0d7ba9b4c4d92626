"""The picture of a session's progress."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from test_report import session

from nnjit_studio.analysis.session_events import words
from nnjit_studio.analysis.tuning_plot import progress_svg
from nnjit_studio.cli import tune as cli_tune
from nnjit_studio.errors import UserError

SVG = "{http://www.w3.org/2000/svg}"


def test_every_tuned_workload_has_a_line_by_rounds_and_by_seconds() -> None:
    events = session()
    root = ET.fromstring(progress_svg(events))
    tuned = {e["workload"] for e in events if e["event"] == "round"}
    plots = [g for g in root.iter(f"{SVG}g") if g.get("transform", "").startswith("translate(")]
    lines = [len(list(g.iter(f"{SVG}path"))) for g in plots[:4]]
    assert lines == [len(tuned), len(tuned), 1, 1]
    texts = {t.text for t in root.iter(f"{SVG}text")}
    assert {words(w) for w in tuned} <= texts
    assert {"GFLOP/s", "ms"} <= texts


def test_the_estimate_of_the_model_is_the_line_and_its_runs_the_dots() -> None:
    events = session()
    for number, event in enumerate(e for e in events if e["event"] == "round"):
        event["model_ms"] = 40.0 - number
    runs = sum(e["event"] == "model" for e in events)
    root = ET.fromstring(progress_svg(events))
    model = next(g for g in root.iter(f"{SVG}g") if len(list(g.iter(f"{SVG}path"))) == 1)
    assert len(list(model.iter(f"{SVG}circle"))) == runs


def test_a_session_cut_short_and_hostile_names() -> None:
    events = session(("matmul:<script>&#1",))[:-1]
    assert "<script>" not in progress_svg(events)
    ET.fromstring(progress_svg(events))


def test_the_picture_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no picture"):
        cli_tune.check_plot(tmp_path / "a.pdf")
    with pytest.raises(UserError, match="no folder"):
        cli_tune.check_plot(tmp_path / "missing" / "a.png")


def test_svg_is_written_as_it_is(tmp_path: Path) -> None:
    events = session()
    cli_tune.write_plot(tmp_path / "a.svg", events)
    assert (tmp_path / "a.svg").read_text() == progress_svg(events)
