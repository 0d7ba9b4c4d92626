"""The docks Profile and Numerical diff: their jobs, tables, and the way to and from the graph."""

from __future__ import annotations

import json
import math

import pytest
from gui_fakes import diff_of, profile_of
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QMenu

from nnjit_studio.analysis.diff import merged
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.errors import ModelError
from nnjit_studio.ui.diff.dock import BAD, FIRST_BAD, NOT_COMPARED, WITHIN, rows_of
from nnjit_studio.ui.dock.job_table import NO_MODEL, OUTDATED
from nnjit_studio.ui.profile.dock import profile_job
from nnjit_studio.ui.widgets import text


@pytest.fixture
def opened(qtbot, window, model_file):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    return window


def run(qtbot, window, action):
    with qtbot.waitSignal(window.session.done):
        window.actions_by_id[action].trigger()


def column(panel, title):
    place = [c.title for c in panel.model.columns].index(title)
    return [panel.model.index(i, place).data() for i in range(panel.model.rowCount())]


def selected(panel):
    (index,) = panel.view.selectionModel().selectedRows()
    return panel.row_at(index)


def test_before_a_model_both_say_what_to_do(window):
    told = window.profile.nothing.words.text()
    assert "press F6" in told and told.startswith(NO_MODEL)
    assert "F7" in window.diff.nothing.words.text()
    for panel in (window.profile, window.diff):
        assert not panel.button.isEnabled()
    assert not window.profile.trace_button.isEnabled()
    assert not window.session.run(profile_job()) and not window.diff.compare()


def test_f6_profiles_and_shows_the_slowest_step_first(qtbot, opened):
    run(qtbot, opened, "profile")
    panel = opened.profile
    assert opened.docks["profile"].seen
    expected = sorted(profile_of(opened.session.state.model).steps, key=lambda s: -s.ms)
    assert column(panel, "step") == [s.node for s in expected]
    assert column(panel, "time")[0] == text.time(expected[0].ms)
    assert sum(map(float, column(panel, "share %"))) == pytest.approx(100, abs=0.3)
    assert "/fc1/MatMul" in column(panel, "fused from")
    assert "of the time in" in panel.findings.text().splitlines()[0]
    assert "(min " in panel.caption.text()
    assert "Wasm memory: forecast 64.0 KiB, measured 64.0 KiB" in panel.memory.text()
    slowest = opened.graph.view.boxes[expected[0].node]
    assert slowest.fill == QColor(opened.themes.current.heat[-1])
    assert opened.graph.cost(slowest).startswith(text.time(expected[0].ms))
    assert not opened.message.isVisible()


def test_a_step_without_operations_has_no_rate(qtbot, opened, workbench):
    run(qtbot, opened, "profile")
    rates = dict(
        zip(column(opened.profile, "step"), column(opened.profile, "% of roof"), strict=True)
    )
    assert rates["n2"] == "–" and rates["n0"] != "–"  # noqa: RUF001


def test_trace_and_profile_are_saved_and_a_wrong_place_is_told(qtbot, opened, tmp_path):
    run(qtbot, opened, "profile")
    save = opened.host.saver.guarded
    save(opened.profile.save_trace)(tmp_path / "t.json")
    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) > 4
    assert "Written" in opened.message.text.text()
    save(opened.profile.save_profile)(tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text())
    assert ModelProfile.from_json(document) == opened.profile.result
    save(opened.profile.save_trace)(tmp_path / "no" / "t.json")
    assert "cannot be written" in opened.message.text.text()
    assert opened.message.property("tone") == "bad"


@pytest.mark.parametrize("job", ["profile", "diff"])
def test_the_button_tells_the_phase_and_stops(qtbot, opened, workbench, job):
    panel = getattr(opened, job)
    workbench.hold = True
    before = panel.button.text()
    panel.button.click()
    qtbot.waitUntil(lambda: panel.caption.text().startswith(("Timing", "Starting")))
    assert panel.button.text() == "Stop" and panel.button.isEnabled()
    other = opened.diff if job == "profile" else opened.profile
    assert other.button.isEnabled()
    other.button.click()
    assert opened.message.steps.itemAt(0).widget().text().startswith("Stop and ")
    with qtbot.waitSignal(opened.session.problem):
        panel.button.click()
    assert "was cancelled" in opened.message.text.text()
    assert opened.message.property("tone") == "plain", "who stops a job needs no warning"
    assert panel.button.text() == before and panel.button.isEnabled()
    assert panel.result is None and "yet" in panel.nothing.words.text()
    assert opened.header.phase.text() == "Ready to tune"


def test_an_error_is_one_sentence_and_what_was_shown_stays(qtbot, opened, workbench):
    run(qtbot, opened, "diff")
    rows = column(opened.diff, "tensor")
    workbench.job_error = ModelError("ONNX Runtime cannot run it.", "Export it again.")
    with qtbot.waitSignal(opened.session.problem):
        opened.actions_by_id["diff"].trigger()
    assert opened.message.text.text() == "ONNX Runtime cannot run it. Export it again."
    assert column(opened.diff, "tensor") == rows


def test_the_whole_model_is_shown_worst_first_and_the_first_bad_step_marked(qtbot, opened):
    run(qtbot, opened, "diff")
    panel = opened.diff
    assert [r.state for r in panel.model.rows] == [FIRST_BAD, BAD, BAD, WITHIN, NOT_COMPARED]
    assert column(panel, "step")[:4] == ["n1", "n2", "n3", "n0"]
    assert column(panel, "max relative")[0] == "inf" and column(panel, "NaN")[0] == "3/0"
    assert column(panel, "max absolute")[-1] == "–"  # noqa: RUF001
    assert "fused into step 'n0'" in column(panel, panel.model.columns[-1].title)[-1]
    assert "3 of 4 tensors differ" in panel.caption.text()
    assert "1 are not compared" in panel.caption.text()


def test_infinite_errors_are_the_worst_in_every_order_and_in_the_csv(qtbot, opened, tmp_path):
    run(qtbot, opened, "diff")
    panel = opened.diff
    place = [c.title for c in panel.model.columns].index("max relative")
    panel.view.sortByColumn(place, Qt.SortOrder.DescendingOrder)
    assert column(panel, "step")[0] == "n1" and column(panel, "tensor")[-1] == "inner"
    panel.view.sortByColumn(place, Qt.SortOrder.AscendingOrder)
    assert column(panel, "step")[:4] == ["n0", "n3", "n2", "n1"]
    panel.export_csv(tmp_path / "d.csv")
    assert ",inf," in (tmp_path / "d.csv").read_text()


def test_a_row_selects_its_node_in_the_graph(qtbot, opened):
    run(qtbot, opened, "diff")
    opened.diff.view.selectRow(1)
    assert opened.graph.view.current.name == "n2"
    assert opened.session.state.selected == opened.graph.view.current.workload
    opened.diff.view.selectRow(4)
    assert opened.graph.view.current.name == "n0", "by the ONNX node that was fused into it"
    run(qtbot, opened, "profile")
    opened.profile.view.selectRow(0)
    assert opened.graph.view.current.name == opened.profile.model.shown[0].node


def test_the_selected_node_alone_is_compared_and_its_row_selected(qtbot, opened, workbench):
    opened.graph.go_to("n3")
    run(qtbot, opened, "diff_node")
    assert workbench.compared == ["n3"]
    assert [r.state for r in opened.diff.model.rows] == [BAD], "the first bad step is not known"
    assert selected(opened.diff).node == "n3"
    assert "y: largest error 6.25e-03 of its scale, beyond 0.001" in opened.diff.caption.text()
    opened.graph.go_to("n0")
    opened.diff.filter.setText("nothing like it")
    run(qtbot, opened, "diff_node")
    assert column(opened.diff, "step") == ["n3", "n0"], "one is added to the other"
    assert selected(opened.diff).node == "n0" and "within 0.001" in opened.diff.caption.text()


def test_one_node_replaces_its_row_of_the_whole_diff(qtbot, opened, workbench):
    run(qtbot, opened, "diff")
    workbench.off = "none"
    opened.graph.go_to("n1")
    run(qtbot, opened, "diff_node")
    states = {r.node: r.state for r in opened.diff.model.rows}
    assert states == {
        "n0": WITHIN, "n1": WITHIN, "n2": FIRST_BAD, "n3": BAD, "/fc1/MatMul": NOT_COMPARED,
    }  # fmt: skip
    assert selected(opened.diff).node == "n1"


def test_without_a_selected_node_the_next_step_is_told(opened, workbench):
    opened.actions_by_id["diff_node"].trigger()
    assert opened.message.text.text().startswith("Select a node in the graph first")
    assert workbench.compared == []


def test_the_context_menu_of_a_node_compares_it(qtbot, opened, workbench):
    view = opened.graph.view
    view.fit()
    box = view.boxes["n2"]
    place = view.mapFromScene(box.pos()) + QPoint(1, 1)
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.RightButton, pos=place)
    port = view.mapFromScene(view.boxes["in:x"].pos())
    corner = view.mapFromScene(view.sceneRect().topLeft())
    for at, menus in ((corner, 0), (port, 0), (place, 1)):
        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, view.mapToGlobal(at))
        QGuiApplication.sendEvent(view.viewport(), event)
        assert len(view.findChildren(QMenu)) == menus
    (menu,) = view.findChildren(QMenu)
    action = menu.actions()[0]
    assert action.iconText() == "Numerical diff of this tensor"
    with qtbot.waitSignal(opened.session.done):
        action.trigger()
    menu.close()
    assert workbench.compared == ["n2"] and selected(opened.diff).node == "n2"


def test_tuning_makes_both_outdated_and_the_next_node_starts_afresh(qtbot, opened, workbench):
    run(qtbot, opened, "profile")
    run(qtbot, opened, "diff")
    with qtbot.waitSignal(opened.session.done):
        opened.start_tuning()
    for panel in (opened.profile, opened.diff):
        assert panel.caption.text().startswith(OUTDATED)
    opened.graph.go_to("n3")
    run(qtbot, opened, "diff_node")
    assert column(opened.diff, "step") == ["n3"]
    assert not opened.diff.caption.text().startswith(OUTDATED)
    assert opened.profile.caption.text().startswith(OUTDATED)


def test_another_model_has_neither(qtbot, opened, model_file):
    run(qtbot, opened, "profile")
    run(qtbot, opened, "diff")
    with qtbot.waitSignal(opened.session.done):
        opened.open_model(model_file)
    for panel in (opened.profile, opened.diff):
        assert panel.result is None and panel.model.rowCount() == 0
    assert opened.profile.findings.text() == "" and not opened.profile.trace_button.isEnabled()


def test_merging_keeps_the_order_and_forgets_older_figures(workbench):
    whole, one = diff_of(workbench.model), diff_of(workbench.model, "n3", off="none")
    found = merged(whole, one)
    assert [t.node for t in found.tensors] == ["n1", "n2", "n0", "n3"]
    assert math.isinf(found.tensors[0].max_rel) and found.missing == whole.missing
    assert [r.state for r in rows_of(found, whole=False)][:2] == [BAD, BAD]


def test_a_table_without_a_result_asks_for_a_model_only_while_none_is_open(opened):
    assert opened.profile.nothing.words.text().startswith("No profile yet: press F6")
    assert (
        opened.diff.nothing.isVisibleTo(opened.diff) and not opened.diff.nothing.button.isVisible()
    )
