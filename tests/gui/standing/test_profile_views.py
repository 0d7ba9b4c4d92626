"""What stands beside the table of steps: findings with buttons, ledgers, memory, trace, compare."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gui_fakes import COLD_MS, profile_of
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent

from nnjit_studio.analysis.profile.findings import (
    DIFF,
    IN_THE_PAGE,
    LEDGER,
    MEMORY,
    SHOW,
    TUNE,
    findings,
)
from nnjit_studio.analysis.profile.trace import trace_events
from nnjit_studio.ui.profile.compare import _tone
from nnjit_studio.ui.profile.ledger import cold_bars, warm_bars
from nnjit_studio.ui.profile.roofline import StepRoofline
from nnjit_studio.ui.profile.timeline import LABELS_WIDTH, Timeline, _tick_us, processes
from nnjit_studio.ui.profile.trace import BOTH, TraceView
from nnjit_studio.ui.widgets.theme import LIGHT


@pytest.fixture
def profiled(qtbot, window, model_file):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    profile(qtbot, window)
    return window


def profile(qtbot, window) -> None:
    with qtbot.waitSignal(window.session.done):
        window.actions_by_id["profile"].trigger()


def button_of(panel, what):
    return next(b for (_, w), b in panel.findings.buttons.items() if w == what)


def selected(panel):
    (index,) = panel.view.selectionModel().selectedRows()
    return panel.row_at(index)


# Findings


def test_findings_are_told_in_order_with_what_may_follow(profiled):
    panel = profiled.profile
    assert panel.findings.text() == "\n".join(findings(panel.result))
    whats = {what for _, what in panel.findings.buttons}
    assert {TUNE, SHOW, DIFF, MEMORY} <= whats


def test_a_finding_shows_its_step_everywhere(profiled):
    panel = profiled.profile
    button_of(panel, SHOW).click()
    node = next(f.node for f in panel.findings.found if SHOW in f.then)
    assert selected(panel).node == node == profiled.graph.view.current.name
    assert panel.trace.timeline.selected == node


def test_a_finding_tunes_with_its_workload_selected(qtbot, profiled, workbench):
    panel = profiled.profile
    finding = next(f for f in panel.findings.found if TUNE in f.then)
    with qtbot.waitSignal(profiled.session.done):
        button_of(panel, TUNE).click()
        assert not button_of(panel, TUNE).isEnabled()
    assert len(workbench.tuned_seconds) == 1
    (node,) = (n for n in workbench.model.graph.nodes if n.name == finding.node)
    assert profiled.session.state.selected == node.workload


def test_a_finding_opens_the_numerical_diff_of_its_step(qtbot, profiled, workbench):
    finding = next(f for f in profiled.profile.findings.found if DIFF in f.then)
    with qtbot.waitSignal(profiled.session.done):
        button_of(profiled.profile, DIFF).click()
    assert workbench.compared == [finding.node]
    assert profiled.docks["diff"].seen


def test_findings_of_memory_and_the_cold_start_open_their_tabs(qtbot, profiled):
    panel = profiled.profile
    button_of(panel, MEMORY).click()
    assert panel.tabs.currentWidget() is panel.memory_plot
    with qtbot.waitSignal(profiled.session.done):
        panel.ledger.button.click()
    button_of(panel, LEDGER).click()
    assert panel.tabs.currentWidget() is panel.ledger


# Cold and warm


def test_the_cold_start_is_measured_on_request(qtbot, profiled, workbench):
    ledger = profiled.profile.ledger
    assert not ledger.unknown.isHidden() and not ledger.cold.bars
    with qtbot.waitSignal(profiled.session.done):
        ledger.button.click()
    assert workbench.profiled == [False, True]
    page = {name: ms for name, ms in COLD_MS.items() if name in IN_THE_PAGE}
    assert page and [(b.name, b.ms) for b in ledger.cold.bars] == list(page.items())
    seconds = sum(page.values()) / 1e3
    assert ledger.cold_title.text() == (
        f"Cold start of the page: {seconds:.2f} s, without the download"
    )
    assert {b.name for b in ledger.imported.bars} == COLD_MS.keys() - page.keys()
    compiled = COLD_MS["compiling kernels"] / 1e3
    before = f"import {2 - seconds - compiled:.1f} s, kernels {compiled:.1f} s"
    assert ledger.imported_title.text() == f"In the Studio, not shipped: {before}"
    assert ledger.unknown.isHidden()


def test_the_warm_ledger_adds_up_to_the_run(workbench):
    found = profile_of(workbench.model)
    bars = warm_bars(found)
    assert [b.name for b in bars] == ["matmul (3)", "add (1)", "between the steps"]
    assert sum(b.ms for b in bars) == pytest.approx(found.warm.median_ms)
    assert cold_bars(found, True) == ()
    assert all(b.tip for b in bars)


# Memory


def test_the_memory_timeline_names_its_peak(profiled):
    plot = profiled.profile.memory_plot
    live = profiled.profile.result.memory.live_bytes
    x, y = plot.line.getOriginalDataset()
    assert max(y) == max(live) / 2**20 and max(x) == len(live)
    assert "Peak: 512.0 KiB live at step 3 (n3, matmul)" in plot.here.text()
    assert plot.table()[1] == list(enumerate(live))
    place = plot.item.getViewBox().mapViewToScene(QPointF(1.5, 0.1))
    plot._moved(place)
    assert plot.here.text().startswith("Here: 128.0 KiB live at step 1 (n1")


def test_the_roofline_has_the_steps_that_compute(profiled):
    header, rows = profiled.profile.roofline.table()
    assert header[0] == "step" and [row[0] for row in rows] == ["n0", "n1", "n2", "n3"]
    assert all(row[1] > 0 and row[2] > 0 for row in rows)
    x, _ = profiled.profile.roofline.points.getOriginalDataset()
    assert len(x) == 4


def test_the_name_of_the_roof_is_not_cut_in_a_low_plot(qtbot, workbench):
    plot = StepRoofline(LIGHT)
    qtbot.addWidget(plot)
    plot.show_profile(profile_of(workbench.model))
    plot.resize(700, 190)
    plot.show()
    plot.grab()
    box = plot.item.getViewBox()
    name = plot.limits[0]
    top = name.mapRectToScene(name.boundingRect()).top()
    assert top >= box.mapRectToScene(box.boundingRect()).top()


# Trace


def test_the_timeline_has_the_bars_of_the_trace_file(profiled, tmp_path):
    panel = profiled.profile
    panel.save_trace(tmp_path / "t.json")
    written = processes(json.loads((tmp_path / "t.json").read_text()))
    assert written == panel.trace._tracks
    (tracks,) = written.values()
    assert [s.step for s in tracks[0].spans] == [s.node for s in panel.result.steps]
    assert panel.trace.choice.count() == 1, "without a cold start there is the run alone"


def test_helpers_have_tracks_and_the_cold_start_is_a_choice(qtbot, profiled, workbench):
    found = profile_of(workbench.model, COLD_MS)
    steps = tuple(replace(s, chunks=(3, 1), threads=2) for s in found.steps)
    found = replace(found, threads=2, steps=steps)
    panel = profiled.profile
    panel.show_result(found)
    assert [t.name for t in panel.trace.timeline.tracks] == ["engine worker", "helper 1"]
    panel.trace.choice.setCurrentIndex(0)
    (track,) = panel.trace.timeline.tracks
    assert [s.name for s in track.spans] == list(COLD_MS)
    assert panel.trace.timeline.end_us == pytest.approx(2e6)


def test_a_click_on_a_bar_selects_its_step(qtbot, profiled):
    panel = profiled.profile
    panel.tabs.setCurrentWidget(panel.trace)
    line = panel.trace.timeline
    span = line.tracks[0].spans[1]
    x = line._x((span.start_us + span.end_us) / 2)
    qtbot.mouseClick(line, Qt.MouseButton.LeftButton, pos=QPoint(int(x), 30))
    assert selected(panel).node == span.step == line.selected
    assert profiled.graph.view.current.name == span.step


def test_the_timeline_zooms_at_the_pointer_and_stays_inside(qtbot, workbench):
    line = Timeline(LIGHT)
    qtbot.addWidget(line)
    line.resize(LABELS_WIDTH + 1008, 80)
    (tracks,) = processes(trace_events(profile_of(workbench.model))).values()
    line.show_tracks(tracks)
    place = QPointF(LABELS_WIDTH + 250, 30)
    before = line._time(place.x())
    wheel = QWheelEvent(
        place, place, QPoint(), QPoint(0, 240), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    line.wheelEvent(wheel)
    assert line._time(place.x()) == pytest.approx(before)
    assert line.to_us - line.from_us == pytest.approx(line.end_us / 1.25**2)
    for _ in range(40):
        qtbot.keyClick(line, Qt.Key.Key_Left)
    assert line.from_us == 0.0
    qtbot.keyClick(line, Qt.Key.Key_Minus)
    for _ in range(8):
        qtbot.keyClick(line, Qt.Key.Key_Minus)
    assert (line.from_us, line.to_us) == (0.0, line.end_us)
    for _ in range(80):
        qtbot.keyClick(line, Qt.Key.Key_Plus)
    assert line.to_us - line.from_us == pytest.approx(0.5)
    line.select(tracks[0].spans[-1].step)
    assert line.from_us >= tracks[0].spans[-1].start_us - 1 and line.selected
    qtbot.keyClick(line, Qt.Key.Key_Home)
    assert (line.from_us, line.to_us) == (0.0, line.end_us)


def test_many_bars_cost_one_for_each_pixel(qtbot, workbench):
    found = profile_of(workbench.model)
    found = replace(found, steps=found.steps * 5000)
    line = Timeline(LIGHT)
    qtbot.addWidget(line)
    line.resize(800, 80)
    (tracks,) = processes(trace_events(found)).values()
    line.show_tracks(tracks)
    line.grab()
    assert len(tracks[0].spans) == 20_000 and 0 < line.drawn < 2000


def test_a_long_bar_behind_a_tiny_one_is_drawn(qtbot, workbench):
    found = profile_of(workbench.model)
    ms = (1e-5, 5.0, 1e-5, 5.0)
    steps = tuple(replace(s, ms=t) for s, t in zip(found.steps, ms, strict=True))
    line = Timeline(LIGHT)
    qtbot.addWidget(line)
    line.resize(800, 80)
    (tracks,) = processes(trace_events(replace(found, steps=steps))).values()
    line.show_tracks(tracks)
    assert {s.step for s in line._in_sight(0)} >= {"n1", "n3"}
    line.zoom(4.0)
    assert {s.step for s in line._in_sight(0)} >= {"n1", "n3"}, "cut at both ends"


def test_ticks_are_round():
    assert [_tick_us(v) for v in (0.9, 1.1, 30, 600)] == pytest.approx([1, 2, 50, 1000])


# Compare


def test_a_saved_profile_is_compared_step_by_step(qtbot, profiled, tmp_path):
    panel = profiled.profile
    found = panel.result
    ends = {name: 2 * getattr(found.warm, name) for name in ("median_ms", "low_ms", "high_ms")}
    slower = replace(
        found,
        steps=tuple(replace(s, ms=2 * s.ms) for s in found.steps),
        warm=replace(found.warm, **ends),
    )
    (tmp_path / "p.json").write_text(json.dumps(slower.to_json()))
    panel.compare.compare_with_file(tmp_path / "p.json")
    qtbot.waitUntil(lambda: panel.compare.result is not None)
    gains = [d.gain_ms for d in panel.compare.model.rows]
    assert gains == sorted(gains, reverse=True) and all(g > 0 for g in gains)
    assert "2.00 times as fast" in panel.compare.caption.text()
    assert {_tone(delta) for delta in panel.compare.model.rows} == {"good"}
    panel.compare.view.selectRow(0)
    assert profiled.graph.view.current.name == panel.compare.model.rows[0].node


def test_the_second_profile_is_compared_with_the_first(qtbot, profiled):
    panel = profiled.profile
    first = panel.result
    assert panel.compare.result is None and "press F6 again" in panel.compare.caption.text()
    profile(qtbot, profiled)
    assert panel.compare.before is first and panel.compare.after is panel.result
    assert panel.compare.model.rowCount() == 4
    assert panel.compare.caption.text().endswith("not told apart"), "these were no pairs"
    assert {_tone(delta) for delta in panel.compare.model.rows} == {"muted"}


def test_a_file_that_is_no_profile_is_told_and_changes_nothing(qtbot, profiled, tmp_path):
    panel = profiled.profile
    profile(qtbot, profiled)
    kept = panel.compare.result
    (tmp_path / "x.json").write_text("{}")
    with qtbot.waitSignal(panel.compare.problem):
        panel.compare.compare_with_file(tmp_path / "x.json")
    assert "no profile" in profiled.message.text.text()
    assert panel.compare.result is kept


# Layers, search, two runs


@pytest.fixture
def layered(qtbot, workbench):
    """A profile whose steps lie in two layers, and the one before it."""
    found = profile_of(workbench.model)
    names = ("/model/a/n1", "/model/a/n2", "/model/b/n3", "/model/b/n4")
    steps = tuple(replace(s, node=n) for s, n in zip(found.steps, names, strict=True))
    view = TraceView(LIGHT)
    qtbot.addWidget(view)
    view.resize(900, 300)
    view.show()
    view.show_profile(replace(found, steps=steps))
    view.show_before(replace(found, steps=tuple(replace(s, ms=2 * s.ms) for s in steps)))
    return view


def test_layers_stand_above_the_steps_and_a_click_fills_the_width(qtbot, layered):
    line = layered.timeline
    assert [t.name for t in line.tracks] == ["layers", "engine worker"]
    (a, b) = line.tracks[0].spans
    assert (a.name, b.name) == ("a", "b") and a.args["steps"] == 2
    assert a.end_us == pytest.approx(line.tracks[1].spans[1].end_us)
    line.resize(800, 200)
    qtbot.mouseClick(line, Qt.MouseButton.LeftButton, pos=QPoint(int(line._x(b.end_us - 1)), 30))
    assert (line.from_us, line.to_us) == pytest.approx((b.start_us, b.end_us))


def test_the_timeline_finds_steps_and_layers(qtbot, layered):
    layered.field.setText("n3")
    assert [s.step for s in layered.timeline.found] == ["/model/b/n3"]
    assert layered.hits.text() == "1 found"
    with qtbot.waitSignal(layered.timeline.picked):
        layered.field.returnPressed.emit()
    assert layered.timeline.selected == "/model/b/n3" and layered.hits.text() == "1 of 1"
    layered.timeline.grab()


def test_two_runs_share_an_axis(layered):
    layered.choice.setCurrentText(BOTH)
    line = layered.timeline
    assert [t.name for t in line.tracks] == [
        "before: layers", "before: engine worker", "now: layers", "now: engine worker",
    ]  # fmt: skip
    assert line.end_us == pytest.approx(2 * line.tracks[3].spans[-1].end_us)
