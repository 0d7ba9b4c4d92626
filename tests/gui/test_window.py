"""The window with a workbench that plays sessions."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from gui_fakes import GAIN, FakeWorkbench, encoder_model, engine_label, finish, record, small_model
from gui_window import StudioWindow
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl, Signal
from PySide6.QtGui import QDropEvent, QGuiApplication, QHelpEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QLabel,
    QLineEdit,
    QPushButton,
    QTableView,
)
from waiting import PATIENCE_S

from nnjit_studio.engine.browsers.sandbox import Confinement, Sandbox
from nnjit_studio.errors import ModelError
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.page.keeper import MOST_DEATHS
from nnjit_studio.ui.state.jobs import export_bundle
from nnjit_studio.ui.widgets.theme import DARK, LIGHT
from nnjit_studio.ui.widgets.worker import BATCH, Worker
from nnjit_studio.ui.window.features import ACTIONS


def open_it(qtbot, window, path):
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "open"):
        assert window.open_model(path)


def tune_it(qtbot, window):
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "tune"):
        assert window.start_tuning()


def drop(window, *paths):
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(p)) for p in paths])
    event = QDropEvent(
        QPointF(50, 50), Qt.DropAction.CopyAction, mime,
        Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    window.dropEvent(event)


def test_dropping_a_model_opens_it(qtbot, window, model_file):
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "open"):
        drop(window, model_file)
    assert window.header.model.text() == "tiny.onnx"
    assert len([b for b in window.graph.view.boxes.values() if b.node]) == 4
    assert "tiny.onnx" in window.windowTitle()


def test_wrong_drops_are_answered_in_one_sentence(qtbot, window, tmp_path):
    for names, sentence in (
        (["cat.jpg"], "cat.jpg cannot be read"),
        (["a.onnx", "b.onnx"], "2 files were dropped"),
        (["gone.onnx"], "There is no gone.onnx in "),
    ):
        window.message.hide()
        drop(window, *(tmp_path / name for name in names))
        qtbot.waitUntil(window.message.isVisible)
        assert window.message.text.text().startswith(sentence)
        assert not window.session.busy


def test_a_failed_open_leaves_the_old_model_shown(qtbot, window, workbench, model_file, tmp_path):
    open_it(qtbot, window, model_file)
    before = window.session.state.model
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"")
    workbench.open_error = ModelError("bad.onnx is not valid ONNX.", "Export it again.")
    with qtbot.waitSignal(window.session.problem):
        window.open_model(bad)
    assert window.session.state.model is before
    assert window.header.model.text() == "tiny.onnx"
    assert window.message.text.text() == "bad.onnx is not valid ONNX. Export it again."
    window.message.copy_button.click()
    assert "ModelError" in QGuiApplication.clipboard().text()
    assert recent.recent(window.settings) == [model_file]


def test_an_unexpected_error_is_told_with_a_next_step(qtbot, window, workbench, model_file):
    workbench.open_error = RuntimeError("boom")
    with qtbot.waitSignal(window.session.problem):
        window.open_model(model_file)
    assert "boom" in window.message.text.text() and "bug report" in window.message.text.text()


def test_a_session_fills_all_views(qtbot, window, workbench, model_file):
    workload = workbench.model.workloads[0]
    workbench.stored = [record(workload, "default", "default", 11.0, 20)]
    open_it(qtbot, window, model_file)
    assert "neutral" in window.graph.legend.words
    with qtbot.waitSignal(window.session.records):
        tune_it(qtbot, window)
    state = window.session.state
    assert window.space.model.rowCount() == len(state.workloads[state.selected].candidates) > 10
    assert "candidates of 1.2e9 in the naive space, 7 known" in window.space.summary.text()
    assert any(row.state == "incumbent" for row in window.space.model.rows)
    dots, line = window.rounds.items[state.selected]
    assert len(dots.getData()[0]) == sum(
        p.gflops > 0 for p in state.workloads[state.selected].rounds
    )
    assert line.yData.max() == state.workloads[state.selected].rounds[-1].best_gflops
    assert window.latency.line.yData[-1] == state.latency[-1][1]
    qtbot.waitUntil(lambda: window.database.model.rowCount() == 1)
    assert "Share of time per box: 0.0 to" in window.graph.legend.words
    boxes = [b for b in window.graph.view.boxes.values() if b.node]
    tips = [window.graph.tip(b) for b in boxes]
    assert all(b.fill is not None for b in boxes) and all(", in the last" in t for t in tips)
    assert "GFLOP/s" in tips[0] and "/fc1/MatMul" in tips[0]
    assert window.header.speedup.number.text() == f"{GAIN:.2f}×"  # noqa: RUF001
    assert window.header.speedup.note == state.gain.interval
    assert window.header.speedup.number.objectName() == "good"
    assert window.header.phase.text().startswith("Done")


def test_selection_is_the_same_everywhere(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    last = list(window.graph.view.boxes.values())[-2].node.workload
    window.graph.view.clicked.emit(last)
    assert window.space.chooser.currentData() == last
    assert {b.node.workload for b in window.graph.view.boxes.values() if b.selected} == {last}
    window.rounds.scope.setCurrentText("selected workload")
    shown = {key for key, (dots, _) in window.rounds.items.items() if dots.isVisible()}
    assert shown == {last}
    window.actions_by_id["previous"].trigger()
    assert window.session.state.selected != last


def test_cancel_stops_the_session(qtbot, window, workbench, model_file):
    workbench.hold = True
    open_it(qtbot, window, model_file)
    window.start_tuning(7.0)
    qtbot.waitUntil(lambda: window.session.state.latency != [])
    assert window.header.button.text() == "Stop"
    assert not window.actions_by_id["tune"].isEnabled()
    with qtbot.waitSignal(window.session.done):
        window.header.button.click()
    assert workbench.tuned_seconds == [7.0]
    assert window.header.button.text() == "Start tuning"
    assert window.actions_by_id["tune"].isEnabled()


def test_a_failed_session_is_told(qtbot, window, workbench, model_file):
    error = {"ok": False, "kind": "user", "error": "The page was lost.", "hint": "Open it again."}
    workbench.script = [ev.Failed(1.0, error)]
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    assert window.message.text.text() == "The page was lost. Open it again."
    assert window.header.phase.text() == "Tuning failed"


def test_export_tells_where_and_what_went_wrong(qtbot, window, model_file, tmp_path):
    open_it(qtbot, window, model_file)
    with qtbot.waitSignal(window.session.done):
        window.session.run(export_bundle(tmp_path / "b.zip"))
    assert (tmp_path / "b.zip").is_file() and "b.zip" in window.message.text.text()
    with qtbot.waitSignal(window.session.problem):
        window.session.run(export_bundle(tmp_path / "no" / "b.zip"))
    assert "no is not a folder" in window.message.text.text()


def test_recent_models_are_kept_and_missing_ones_marked(qtbot, window, model_file, tmp_path):
    open_it(qtbot, window, model_file)
    recent.remember(window.settings, tmp_path / "gone.onnx")
    window.menus.recent.aboutToShow.emit()
    first, second = window.menus.recent.actions()[:2]
    assert "gone.onnx  (missing)" in first.text() and not first.isEnabled()
    assert "tiny.onnx" in second.text() and second.isEnabled()
    recent.remember(window.settings, model_file)
    assert recent.recent(window.settings)[0] == model_file
    assert len(recent.recent(window.settings)) == 2


def fill_database(qtbot, window, workbench):
    w = workbench.model.workloads[0]
    workbench.stored = [
        record(w, "a", "slower", 9.0, 3),
        record(w, "b", "wrong", 0.0, 2),
        record(w, "c", "won", 30.0, 1),
    ]
    qtbot.waitUntil(lambda: not window.session.reader.job)
    window.actions_by_id["refresh"].trigger()
    qtbot.waitUntil(lambda: window.database.model.rowCount() == 3)
    return window.database


def shown(panel, title):
    column = [c.title for c in panel.model.columns].index(title)
    return [panel.model.index(i, column).data() for i in range(panel.model.rowCount())]


def test_tables_sort_by_value_and_leave_gaps_last(qtbot, window, workbench):
    panel = fill_database(qtbot, window, workbench)
    column = [c.title for c in panel.model.columns].index("GFLOP/s")
    panel.view.sortByColumn(column, Qt.SortOrder.AscendingOrder)
    assert shown(panel, "settings") == ["a", "c", "b"]
    panel.view.sortByColumn(column, Qt.SortOrder.DescendingOrder)
    assert shown(panel, "settings") == ["c", "a", "b"]


def test_tables_filter_copy_and_export(qtbot, window, workbench, tmp_path):
    panel = fill_database(qtbot, window, workbench)
    panel.filter.setText("won EPYC")
    assert shown(panel, "settings") == ["c"]
    panel.copy_button.click()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 2 and lines[0].startswith("workload\tsettings\tstate\tGFLOP/s")
    assert lines[1].split("\t")[1:4] == ["c", "faster", "30.0"]
    panel.filter.clear()
    panel.export_csv(tmp_path / "t.csv")
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 4


def test_plots_switch_axis_and_export(qtbot, window, model_file, tmp_path):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    rounds = window.session.state.workloads[window.session.state.selected].rounds
    window.rounds.axis.setCurrentText("by seconds")
    _, line = window.rounds.items[window.session.state.selected]
    assert line.xData[0] == rounds[0].t_s
    window.rounds.export_csv(tmp_path / "r.csv")
    header, *rows = (tmp_path / "r.csv").read_text().splitlines()
    assert header == "workload,round,seconds,candidate,GFLOP/s,best GFLOP/s"
    assert len(rows) == sum(len(w.rounds) for w in window.session.state.workloads.values())
    window.latency.export_png(tmp_path / "l.png")
    assert (tmp_path / "l.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OSError, match="could not be written"):
        window.latency.export_png(tmp_path / "no" / "l.png")


def test_the_plot_keeps_the_view_that_the_user_chose(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    box = window.latency.item.getViewBox()
    box.setYRange(3, 4, padding=0)
    box.sigRangeChangedManually.emit(box.mouseEnabled())
    tune_it(qtbot, window)
    assert box.viewRange()[1] == pytest.approx([3, 4])
    window.actions_by_id["reset_plots"].trigger()
    assert box.viewRange()[1][1] == pytest.approx(window.latency.line.yData.max() * 1.4, rel=0.2)


def test_themes_reach_every_view_and_are_remembered(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    window.menus.choose_theme("dark")
    app = QGuiApplication.instance()
    assert app.palette().window().color().name() == DARK.window
    assert window.graph.view.theme is window.space.model.theme is window.log.theme is DARK
    _, line = window.rounds.items[window.session.state.selected]
    assert line.opts["pen"].color().name() in DARK.series
    assert window.settings.value("theme") == "dark"
    window.menus.choose_theme("light")
    assert window.graph.legend.theme is LIGHT


def test_a_line_without_room_ends_in_an_ellipsis_and_its_tooltip_says_all(
    qtbot, window, model_file
):
    open_it(qtbot, window, model_file)
    label = window.header.details
    label.setFixedWidth(2000)
    qtbot.waitUntil(lambda: label.shown() == label.text())
    label.setFixedWidth(90)
    assert label.shown().endswith("…") and len(label.shown()) < len(label.text())
    QGuiApplication.sendEvent(label, QHelpEvent(QEvent.Type.ToolTip, QPoint(), QPoint()))
    assert label.toolTip().splitlines() == [label.text(), "parse: 400 ms", "fuse: 700 ms"]


def test_plots_take_the_ground_of_a_theme_at_once(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    for theme in (LIGHT, DARK, LIGHT):
        window.menus.choose_theme(theme.name)
        for plot in (window.rounds.plot, window.latency.plot):
            image = plot.grab().toImage()
            assert image.pixelColor(image.width() - 3, image.height() - 3).name() == theme.surface


def test_the_legend_stands_above_the_lines_or_not_at_all(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    panel, box = window.rounds, window.rounds.item.getViewBox()
    assert panel.legend.isVisible()
    best = max(
        w.rounds[-1].best_gflops for w in window.session.state.workloads.values() if w.rounds
    )
    top = box.mapViewToScene(QPointF(0, best)).y()
    assert panel.legend.mapRectToScene(panel.legend.boundingRect()).bottom() <= top
    window.docks["rounds"].widget().setFixedHeight(150)
    QGuiApplication.processEvents()
    assert not panel.legend.isVisible()


def test_the_layout_is_remembered_and_can_be_reset(qtbot, window, workbench, settings, monkeypatch):
    size = window.size()
    window.docks["log"].hide()
    finish(qtbot, workbench, window)
    # The offscreen screen is smaller, and would cut the geometry: another size has its own layout.
    monkeypatch.setattr(StudioWindow, "restoreGeometry", lambda w, _: w.resize(size))
    again = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(again, before_close_func=lambda w: finish(qtbot, workbench, w))
    again.show()
    assert again.docks["log"].isHidden() and not again.docks["graph"].isHidden()
    again.docks.reset()
    assert not again.docks["log"].isHidden()


def test_the_window_fits_a_small_screen_with_every_dock_open(qtbot, window):
    for key in window.docks:
        window.docks.show(key)
    qtbot.waitUntil(lambda: all(dock.made is not None for dock in window.docks.values()))
    least = window.minimumSizeHint()
    assert least.width() <= 1280 and least.height() <= 680  # 1280x720 less a title bar


def test_two_graphs_side_by_side_leave_the_layout_as_it_is(qtbot, window):
    window.resize(1600, 800)
    window.docks.bring_forward()
    dock = window.docks["graph"]
    before = dock.size()
    window.docks.panel("graph").set_split(True)
    qtbot.wait(50)
    assert dock.size() == before
    window.docks.panel("graph").set_split(False)
    qtbot.wait(50)
    assert dock.size() == before


def test_no_job_begins_in_a_window_that_closes(qtbot, window, workbench, model_file, caplog):
    """Quitting in an import showed the welcome page, whose examination then failed in the log."""
    workbench.holds_import = True
    assert window.open_model(model_file)
    qtbot.waitUntil(lambda: bool(workbench.fed))
    with qtbot.waitSignal(window.closed):
        window.close()
    assert not [r for r in caplog.records if "examine" in r.getMessage()]


def test_closing_while_tuning_cancels_and_waits_for_the_thread(
    qtbot, window, workbench, model_file
):
    workbench.hold = True
    open_it(qtbot, window, model_file)
    window.start_tuning()
    qtbot.waitUntil(lambda: window.session.state.latency != [])
    with qtbot.waitSignal(window.closed):
        window.close()
    assert workbench.cancelled.is_set()
    assert window.session.worker.wait(0)


def test_a_thread_that_never_ends_does_not_keep_the_window(qtbot, window, monkeypatch):
    monkeypatch.setattr("nnjit_studio.ui.window.closing.CLOSE_WAIT_S", 0.1)
    stuck = threading.Event()
    window.session.worker.start("tune", lambda emit: stuck.wait(PATIENCE_S))
    with qtbot.waitSignal(window.closed):
        window.close()
    stuck.set()
    assert window.session.worker.wait(PATIENCE_S)


def test_a_burst_of_events_is_drawn_in_few_refreshes(qtbot, window, workbench, model_file):
    key = workbench.model.workloads[0].key
    workbench.script = [
        ev.RoundDone(i / 100, key, i, "default", 5.0, 5.0, "default", 0) for i in range(1000)
    ]
    open_it(qtbot, window, model_file)
    refreshed = []
    window.session.refreshed.connect(refreshed.append)
    before = window.session.worker.refreshes
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "tune"):
        assert window.start_tuning()
        assert window.session.worker.wait(PATIENCE_S), "the whole burst waits to be drawn"
    assert len(window.session.state.workloads[key].rounds) == 1000
    assert window.session.worker.refreshes - before == 1000 / BATCH
    assert len(refreshed) <= 1000 / BATCH + 3


def test_a_full_queue_is_emptied_in_bounded_batches(qtbot):
    worker = Worker()
    sizes = []
    worker.yielded.connect(lambda items: sizes.append(len(items)))
    with qtbot.waitSignal(worker.returned):
        worker.start("burst", lambda emit: iter(range(3 * BATCH)))
        worker.wait(PATIENCE_S)
    assert sizes == [BATCH, BATCH, BATCH]


def test_a_worker_runs_one_job_at_a_time(qtbot):
    worker = Worker()
    go = threading.Event()
    with qtbot.waitSignal(worker.returned) as returned:
        assert worker.start("one", lambda emit: go.wait(PATIENCE_S))
        assert not worker.start("two", lambda emit: None)
        go.set()
    assert returned.args == ["one", True]
    with qtbot.waitSignal(worker.failed) as failed:
        worker.start("three", lambda emit: 1 // 0)
    assert failed.args[0] == "three" and isinstance(failed.args[1], ZeroDivisionError)


def test_the_log_shows_lines_of_any_thread_and_filters(qtbot, window):
    log = logging.getLogger("nnjit_studio.test")
    thread = threading.Thread(target=lambda: log.warning("a spill <was> seen"))
    thread.start()
    thread.join()
    log.info("all is well")
    window.log.take()
    seen = window.log.view.toPlainText()
    assert "a spill <was> seen" in seen and "info" in seen and "test: all is well" in seen
    window.log.level.setCurrentText("warning")
    assert "all is well" not in window.log.view.toPlainText()
    window.log.level.setCurrentText("info")
    window.log.filter.setText("well")
    assert window.log.view.toPlainText().count("\n") == 0


def test_the_graph_finds_nodes_and_walks_by_keys(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    window.actions_by_id["find"].trigger()
    window.graph.search.field.setText("add/add")
    assert window.graph.search.hits.text() == "1 found"
    qtbot.keyClick(window.graph.search.field, Qt.Key.Key_Return)
    assert window.session.state.selected.startswith("add:8x16")
    view = window.graph.view
    qtbot.keyClick(view, Qt.Key.Key_Down)
    assert window.session.state.selected.startswith("matmul:8x16x4"), "the node after the found one"
    scale = view.transform().m11()
    qtbot.keyClick(view, Qt.Key.Key_Plus)
    assert view.transform().m11() > scale
    window.actions_by_id["fit"].trigger()
    assert view.mapToScene(view.viewport().rect()).boundingRect().contains(view.sceneRect())


def test_clicking_a_box_selects_its_workload(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    window.graph.view.fit()
    box = window.graph.view.boxes["n2"]
    place = window.graph.view.mapFromScene(box.pos()) + QPoint(1, 1)
    qtbot.mouseClick(window.graph.view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert window.session.state.selected == box.node.workload


def test_weights_are_not_drawn(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    assert set(window.graph.view.boxes) == {"in:x", "n0", "n1", "n2", "n3", "out:y"}


def test_every_action_is_in_a_menu_with_a_shortcut_of_its_own(window):
    shortcuts = [s.shortcut for s in ACTIONS if s.shortcut]
    assert len(shortcuts) == len(set(shortcuts))
    assert {a.objectName() for m in window.menus.bar.actions() for a in m.menu().actions()} >= {
        s.id for s in ACTIONS
    }


def test_controls_have_accessible_names(window):
    panels = (window.header, window.message, *(d.panel() for d in window.docks.values()))
    ours = [
        w
        for panel in panels
        for kind in (QPushButton, QCheckBox, QComboBox, QLineEdit, QTableView)
        for w in panel.findChildren(kind)
    ]
    assert len(ours) > 25
    # The line inside a spin box goes by the name of the box.
    ours = [w.parent() if w.objectName() == "qt_spinbox_lineedit" else w for w in ours]
    assert [w for w in ours if not w.accessibleName()] == []


def test_dialogs_are_not_modal(qtbot, window):
    for name in ("shortcuts", "about", "open"):
        window.actions_by_id[name].trigger()
    dialogs = [w for w in window.findChildren(QDialog) if w.isVisible()]
    assert len(dialogs) == 3
    assert not any(dialog.isModal() for dialog in dialogs)


def test_badges_are_shown_with_their_reason(qtbot, window, workbench):
    def tips():
        return {w.toolTip() for w in window.header.findChildren(object, "badge") if w.isVisible()}

    assert tips() == {"The sandbox is off, by the option it was started with."}
    half = Sandbox(seen=Confinement(namespaces=True, filtered=False))
    for known in (half, replace(half, seen=Confinement(True, True))):  # once the page is there
        workbench.sandbox = known
        window.header.show_state()
        expected = set() if known.on else {f"The sandbox is {known}."}
        qtbot.waitUntil(lambda expected=expected: tips() == expected)


def test_a_model_of_many_nodes_is_drawn(qtbot, settings, tmp_path):
    path = tmp_path / "big.onnx"
    path.write_bytes(b"")
    bench = FakeWorkbench(encoder_model(path, layers=12))
    window = StudioWindow(bench, engine_label, settings)
    qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, bench, w))
    open_it(qtbot, window, path)
    tune_it(qtbot, window)
    drawn = len(bench.model.graph.nodes) + 3
    qtbot.waitUntil(lambda: len(window.graph.view.boxes) == drawn)
    assert len(window.rounds.legend.items) <= 8


def test_two_models_after_each_other(qtbot, window, workbench, model_file, tmp_path):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    other = tmp_path / "other.onnx"
    other.write_bytes(b"")
    workbench.model = encoder_model(Path("other.onnx"), layers=1)
    open_it(qtbot, window, other)
    assert window.space.model.rowCount() == 0 and window.rounds.items == {}
    assert window.header.now.number.text() == "–"  # noqa: RUF001
    assert small_model().graph.nodes[0].workload not in window.session.state.workloads


def test_the_log_tells_of_swaps_and_of_wrong_candidates(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    window.log.take()
    lines = window.log.view.toPlainText().splitlines()
    wrong = [line for line in lines if "is wrong: error 3.1 times the bound" in line]
    assert wrong and all("warning" in line for line in wrong)
    assert any(" now runs x0=" in line for line in lines)


def test_the_target_is_named(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    assert "on emb" in window.header.detail.text()
    window.session.state.target = "embedded"
    window.header.show_state()
    assert "embedded" not in window.header.detail.text(), "the usual one takes no room"


class LostPage(QLabel):
    page_lost = Signal(str)

    def __init__(self, url, parent):
        super().__init__(parent)
        self.starts = 0

    def start(self):
        self.starts += 1

    def shut_down(self):
        pass


def test_a_lost_page_comes_back_and_the_session_goes_on(qtbot, workbench, settings, model_file):
    window = StudioWindow(workbench, LostPage, settings)
    qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, workbench, w))
    qtbot.waitUntil(lambda: window.page.view.starts == 1)
    open_it(qtbot, window, model_file)
    workbench.hold = True
    assert window.start_tuning()
    window.page.view.page_lost.emit("The page's process ended.")
    qtbot.waitUntil(lambda: window.page.view.starts == 2)
    assert "goes on" in window.message.text.text()
    assert workbench.pages_expected == [(True, ""), (True, "The page's process ended.")]
    with qtbot.waitSignal(window.session.done):
        workbench.release.set()
    assert window.session.state.summary is not None


def test_a_page_that_dies_again_and_again_is_given_up(qtbot, workbench, settings):
    window = StudioWindow(workbench, LostPage, settings)
    qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, workbench, w))
    for starts in range(1, MOST_DEATHS + 1):
        qtbot.waitUntil(lambda starts=starts: window.page.view.starts == starts)
        window.page.view.page_lost.emit("It trapped.")
    assert workbench.pages_expected[-1] == (False, "It trapped.")
    assert "start the Studio again" in window.message.text.text()
    qtbot.wait(1)
    assert window.page.view.starts == MOST_DEATHS


def test_a_recent_model_that_cannot_be_looked_at_counts_as_missing(window, tmp_path):
    recent.remember(window.settings, tmp_path / f"{'x' * 300}.onnx")
    window.menus.recent.aboutToShow.emit()
    assert "(missing)" in window.menus.recent.actions()[0].text()
    assert not window.open_model(tmp_path / f"{'x' * 300}.onnx")


def test_a_link_that_is_dropped_is_answered_in_words(window):
    mime = QMimeData()
    mime.setUrls([QUrl("https://example.org/model.onnx")])
    event = QDropEvent(
        QPointF(50, 50), Qt.DropAction.CopyAction, mime,
        Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    window.dropEvent(event)
    assert window.message.text.text().startswith("That is a link, not a file")


def test_the_log_shows_debug_lines_when_asked(window):
    logging.getLogger("nnjit_studio.test").debug("a detail")
    window.log.take()
    assert "a detail" not in window.log.view.toPlainText()
    window.log.level.setCurrentText("debug")
    assert "a detail" in window.log.view.toPlainText()


def test_a_wrong_log_call_breaks_nobody(window, capsys):
    wrong = logging.LogRecord("nnjit", logging.INFO, "a.py", 1, "%d workloads", ("many",), None)
    window.log.handler.handle(wrong)
    assert "Logging error" in capsys.readouterr().err
    logging.getLogger("nnjit_studio.test").info("and on it goes")
    window.log.take()
    assert "and on it goes" in window.log.view.toPlainText()
