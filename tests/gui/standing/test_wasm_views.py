"""The views of a Wasm file that is shown: sorted, compared, coloured, exported, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import wasm_builder as build
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from test_wasm_dock import BODIES, indices

from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.inspection.cost.records import Compilation, CompileCost, TierCost
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA, SCHEDULE
from nnjit_studio.support.stopping import check
from nnjit_studio.ui.wasm import jobs, turbo
from nnjit_studio.ui.wasm.colours import FINDINGS, VECTORS
from nnjit_studio.ui.wasm.speed import BUILDS
from nnjit_studio.ui.wasm.tables import finding_columns, rows_of

pytestmark = pytest.mark.usefixtures("read_once")


@pytest.fixture
def shown(qtbot, window, tmp_path):
    file = tmp_path / "kernels.wasm"
    file.write_bytes(build.module(BODIES, {0: "gemm"}))
    wasm = window.wasm
    wasm.functions.filter.clear()
    assert window.dropped.drop([file])
    # waitUntil takes None for true
    qtbot.waitUntil(lambda: getattr(wasm.survey, "path", "") == file and not wasm.busy)
    return wasm


def test_rows_sort_and_filter(shown):
    titles = [c.title for c in shown.functions.model.columns]
    shown.functions.view.sortByColumn(titles.index("vector ops"), Qt.SortOrder.DescendingOrder)
    assert indices(shown)[0] == 0
    shown.functions.view.sortByColumn(titles.index("spills"), Qt.SortOrder.AscendingOrder)
    assert indices(shown)[0] == 0
    shown.functions.filter.setText("gemm SPILLS")
    assert indices(shown) == [0]
    assert "gemm" in shown.functions.as_text([0], "excel")


def test_names_take_no_room_where_functions_have_none(shown):
    def titles(*rows):
        shown.functions.show_rows(rows)
        return [c.title for c in shown.functions.model.columns]

    rows = rows_of(shown.survey, {})
    nameless = [replace(row, name="") for row in rows]
    assert titles(*rows[:1])[1] == "name" and titles(*rows[:1], *nameless)[-1] == "name"
    assert "name" not in titles(*nameless)
    assert "name" not in [c.title for c in finding_columns(shown.survey, ())]


def test_table_and_treemap_call_a_function_alike(shown):
    """Where few functions have names, the table had "160" and the map "PadV2"."""
    rows = rows_of(shown.survey, {})
    shown.functions.show_rows([rows[0], *(replace(row, name="") for row in rows[1:])])
    model = shown.functions.model
    said = [model.index(i, 0).data() for i in range(len(model.rows))]
    assert said == ["2", "0 gemm", "1"]
    assert shown.functions.as_text([1], "excel").splitlines()[1].startswith("0,")
    assert "gemm" in {cell.title for cell in shown.treemap.cells}


def test_treemap_and_table_show_the_same_function(shown):
    treemap = shown.treemap
    treemap.resize(600, 300)
    assert [cell.index for cell in treemap.cells] == [2, 0, 1]
    QTest.mouseClick(treemap, Qt.MouseButton.LeftButton, pos=QPoint(20, 20))
    assert treemap.selected == 2
    QTest.keyClick(treemap, Qt.Key.Key_Right)
    assert treemap.selected == 0
    (index,) = shown.functions.view.selectionModel().selectedRows()
    assert shown.functions.row_at(index).facts.index == 0
    assert "2 spill" in shown.details.text()
    shown.findings.picked.emit(shown.findings.model.rows[0])
    assert treemap.selected == 2
    assert not treemap.grab().isNull()


def test_two_builds(qtbot, shown, tmp_path):
    other = tmp_path / "older.wasm"
    other.write_bytes(build.module((build.products(4, 4), *BODIES[1:]), {0: "gemm"}))
    assert shown.compare_with(other)
    qtbot.waitUntil(lambda: shown.comparison is not None)
    assert "2 functions the same, 1 changed" in shown.builds_caption.text()
    assert [p.after.index for p in shown.builds.model.rows] == [0]


def test_reading_tells_how_far_it_is_and_can_be_stopped(qtbot, window, shown, monkeypatch):
    def read(path, note):
        note(f"Reading {path.name}: 3 of 16 parts.")
        while True:
            check()

    monkeypatch.setattr("nnjit_studio.ui.wasm.dock.survey_file", read)
    assert shown.open(shown.survey.path)
    qtbot.waitUntil(lambda: "3 of 16 parts" in shown.caption.text())
    assert not shown.open(shown.survey.path)
    assert "stop it or wait" in window.message.text.text()
    assert not shown.stop_button.isHidden() and not shown.open_button.isEnabled()
    assert "browser" not in shown.stop_button.toolTip()
    shown.stop_button.click()
    qtbot.waitUntil(lambda: not shown.busy)
    assert shown.caption.text().startswith("Reading was stopped. kernels.wasm")
    assert shown.stop_button.isHidden() and shown.open_button.isEnabled()


def test_a_file_that_became_another_costs_a_sentence_in_its_tab(qtbot, window, shown):
    shown.survey.path.write_bytes(b"\0asm\1\0\0\0\1\6\xff\xff\xff\xff\x0f\x60")
    shown.turbo.engines.setCurrentText("node")
    shown.turbo.turbo_button.click()
    qtbot.waitUntil(lambda: not shown.turbo.busy)
    assert "promises 4294967295 entries" in shown.turbo.caption.text()
    assert indices(shown) == [2, 0, 1] and shown.turbo.turbo_button.isEnabled()


def test_each_change_of_turbo_has_words_and_the_speed_table_has_room_for_them(shown):
    panel = shown.turbo
    for passed, words in ((SCHEDULE, "order of instructions"), (FMA, "fused multiply-adds")):
        panel.model.set_rows([{"index": 1, "name": "", "pass": passed, "gain": 1.5, "kept": True}])
        assert words in [cell.data() for cell in map(panel.model.index, [0] * 5, range(5))]
    speed = panel.speed.view
    for words in BUILDS.values():
        assert speed.columnWidth(2) > speed.fontMetrics().horizontalAdvance(words) + 12


def costs(survey, name, unsafe, note):
    note("compiling")
    times = {0: TierCost((0.5,), 900), 1: TierCost((5.0,), 700), 2: TierCost((500.0,), 50)}
    return CompileCost(name, f"{name} 1", (Compilation("turbofan", "trace", times, 600.0),))


def test_compile_times_become_columns_colours_and_a_trace(
    qtbot, window, shown, monkeypatch, tmp_path
):
    monkeypatch.setattr(jobs, "compile_times", costs)
    shown.turbo.engines.addItem("toy")
    shown.turbo.show_survey(shown.survey)
    with qtbot.waitSignal(shown.turbo.compiled):
        shown.turbo.compile_button.click()
    titles = [c.title for c in shown.functions.model.columns]
    assert {"turbofan ms", "turbofan code"} <= set(titles)
    choices = [shown.colours.itemText(i) for i in range(shown.colours.count())]
    assert choices == ["turbofan compile time", FINDINGS, VECTORS]
    heat = window.themes.current.heat
    assert [shown.treemap.colour(i).name() for i in (2, 0)] == [heat[-1], heat[0]]
    shown.colours.setCurrentText(FINDINGS)
    assert shown.treemap.colour(0).name() == window.themes.current.bad
    saved = tmp_path / "trace.json"
    monkeypatch.setattr(window.host.saver, "ask", lambda title, name, write: write(saved))
    shown.trace_button.click()
    assert len(json.loads(saved.read_text())["traceEvents"]) == 2 + 3


def test_a_refusal_of_turbo_is_said_and_the_buttons_come_back(
    qtbot, window, shown, monkeypatch, tmp_path
):
    def nothing(*given):
        raise UserError("Nothing in it gains.", "Try another engine.")

    monkeypatch.setattr(turbo, "turbo", nothing)
    shown.turbo.engines.addItem("toy")
    work = SimpleNamespace(file=shown.survey.path, candidates=())
    shown.turbo.write(tmp_path / "out.wasm", turbo.TurboOptions(), work)
    qtbot.waitUntil(lambda: not shown.turbo.busy)
    assert "Nothing in it gains." in shown.turbo.caption.text()
    assert shown.turbo.turbo_button.isEnabled()


def test_turbo_asks_for_a_name_only_where_something_may_gain(
    qtbot, window, shown, monkeypatch, tmp_path
):
    asked, other = [], tmp_path / "other.wasm"
    other.write_bytes(build.module([build.nops(5)], {}))
    monkeypatch.setattr(window.host.saver, "ask", lambda *given: asked.append(given[1]))
    for path in (shown.survey.path, other):
        shown.turbo.show_survey(replace(shown.survey, path=path))
        shown.turbo.engines.setCurrentText("node")
        shown.turbo.turbo_button.click()
        qtbot.waitUntil(lambda: not shown.turbo.busy)
    assert asked == ["kernels.turbo.wasm"]
    assert "nothing to gain" in shown.turbo.caption.text()
