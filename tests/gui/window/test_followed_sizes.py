"""The stage follows the window's size: no dock over another, and what the user arranged stays."""

from __future__ import annotations

import pytest
from gui_fakes import encoder_model, engine_label, finish
from gui_window import StudioWindow, wait_job
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget
from verdicts import FASTER

LARGE, WIDE, SMALL = (1600, 1000), (1280, 720), (800, 490)
DRAWER = {"space", "database", "device", "log", "plan"}


@pytest.fixture
def fake_model(model_file):
    return encoder_model(model_file)


@pytest.fixture
def opened(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    window.verdict.panel.show_verdict(FASTER)
    resize(qtbot, window, WIDE)
    return window


def resize(qtbot, window, size, steps=1):
    width, height = window.width(), window.height()
    for step in range(1, steps + 1):
        share = step / steps
        window.resize(
            round(width + share * (size[0] - width)), round(height + share * (size[1] - height))
        )
        qtbot.wait(1)
    qtbot.wait(50)


def trigger(qtbot, window, action):
    window.actions_by_id[action].trigger()
    window.message.hide()
    qtbot.wait(50)


def places(window):
    """Of each dock that has one of its own: where it is."""
    docks = window.docks.stage.findChildren(QDockWidget)
    seen = [d for d in docks if d.isVisible() and not d.isFloating() and d.y() >= 0]
    return {dock.objectName(): dock.geometry() for dock in seen}


def check_room(window):
    room = window.docks.stage.rect()
    found = places(window)
    for name, box in found.items():
        assert room.contains(box), (name, box, room)
        assert not any(box.intersects(other) for key, other in found.items() if key != name), found


def shown(window):
    return {key for key, dock in window.docks.items() if not dock.isHidden()}


@pytest.mark.parametrize("steps", [1, 12])
@pytest.mark.parametrize("layout", ["reset_layout", "layout_tune", "layout_compare", "layout_wasm"])
def test_a_window_that_shrinks_has_no_dock_over_another(qtbot, opened, layout, steps):
    """Plots lay over the lite space, and that over the engine's tile."""
    trigger(qtbot, opened, layout)
    before = shown(opened)
    resize(qtbot, opened, SMALL, steps)
    assert (opened.width(), opened.height()) == SMALL
    check_room(opened)
    assert shown(opened) == before
    resize(qtbot, opened, (922, 490))
    check_room(opened)


def test_a_window_that_grows_again_has_the_places_of_its_size(qtbot, opened):
    trigger(qtbot, opened, "layout_tune")
    wide = places(opened)
    resize(qtbot, opened, SMALL)
    assert places(opened).keys() < wide.keys()
    resize(qtbot, opened, WIDE)
    assert places(opened) == wide
    resize(qtbot, opened, SMALL, steps=5)
    resize(qtbot, opened, WIDE, steps=5)
    assert places(opened).keys() == wide.keys()
    resize(qtbot, opened, LARGE)
    area = Qt.DockWidgetArea
    assert opened.docks.stage.dockWidgetArea(opened.docks["rounds"]) == area.RightDockWidgetArea
    check_room(opened)
    resize(qtbot, opened, SMALL)
    check_room(opened)


def test_what_is_in_front_stays_there(qtbot, opened):
    trigger(qtbot, opened, "layout_tune")
    opened.docks["kernel"].raise_()
    opened.docks["database"].raise_()
    resize(qtbot, opened, SMALL)
    assert opened.docks["kernel"].seen
    resize(qtbot, opened, WIDE)
    assert opened.docks["kernel"].seen and opened.docks["database"].seen


def test_inspecting_in_a_window_that_shrinks_has_no_drawer_until_it_grows(qtbot, opened):
    """The log took the lower half, findings and steps had no pixel."""
    trigger(qtbot, opened, "layout_inspect")
    before = shown(opened)
    assert before & DRAWER
    resize(qtbot, opened, SMALL, steps=4)
    assert not shown(opened) & DRAWER and opened.docks["profile"].seen
    check_room(opened)
    opened.docks.show("log")
    resize(qtbot, opened, (820, 500))
    assert "log" in shown(opened), "it was asked for"
    resize(qtbot, opened, WIDE)
    assert shown(opened) == before


def test_what_the_user_arranged_stays_where_it_has_room(qtbot, opened):
    stage, docks = opened.docks.stage, opened.docks
    trigger(qtbot, opened, "layout_tune")
    stage.splitDockWidget(docks["tuning"], docks["log"], Qt.Orientation.Vertical)
    docks["latency"].setFloating(True)
    for size in ((1100, 650), (1300, 1000), WIDE):
        resize(qtbot, opened, size)
        assert stage.dockWidgetArea(docks["log"]) == Qt.DockWidgetArea.RightDockWidgetArea
        assert stage.dockWidgetArea(docks["rounds"]) == Qt.DockWidgetArea.BottomDockWidgetArea
        assert docks["latency"].isFloating()
        check_room(opened)
    beside = places(opened)
    resize(qtbot, opened, SMALL, steps=3)
    check_room(opened)
    assert stage.dockWidgetArea(docks["log"]) == Qt.DockWidgetArea.RightDockWidgetArea
    assert docks["space"] in stage.tabifiedDockWidgets(docks["rounds"])
    resize(qtbot, opened, WIDE, steps=3)
    assert places(opened).keys() == beside.keys()
    assert docks["space"] not in stage.tabifiedDockWidgets(docks["rounds"])
    check_room(opened)


def test_undo_in_a_smaller_window_puts_back_what_fits_it(qtbot, opened):
    trigger(qtbot, opened, "layout_tune")
    trigger(qtbot, opened, "layout_compare")
    resize(qtbot, opened, SMALL)
    opened.actions_by_id["undo"].trigger()
    opened.message.hide()
    qtbot.wait(50)
    assert not opened.docks["space"].isHidden()
    check_room(opened)


def test_a_layout_for_a_file_is_not_kept(
    qtbot, window, workbench, settings, tmp_path, model_file, monkeypatch
):
    """The next model had neither graph nor tuning."""
    resize(qtbot, window, WIDE)
    window.docks["latency"].hide()
    before = shown(window)
    wasm = tmp_path / "a.wasm"
    wasm.write_bytes(b"\0asm\1\0\0\0")
    window.dropped.drop([wasm])
    qtbot.waitUntil(lambda: shown(window) == {"wasm"})
    window.close()
    monkeypatch.setattr(StudioWindow, "restoreGeometry", lambda w, _: w.resize(*WIDE))
    later = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(later, before_close_func=lambda w: finish(qtbot, workbench, w))
    later.show()
    assert shown(later) == before
    later.dropped.drop([wasm])
    qtbot.waitUntil(lambda: shown(later) == {"wasm"})
    wait_job(qtbot, later, "open", lambda: later.open_model(model_file))
    assert shown(later) == before, "nor is it that of a model"


def test_a_layout_for_a_file_that_the_user_took_too_is_kept(qtbot, window, tmp_path, model_file):
    wasm = tmp_path / "a.wasm"
    wasm.write_bytes(b"\0asm\1\0\0\0")
    window.dropped.drop([wasm])
    qtbot.waitUntil(lambda: "graph" not in shown(window))
    window.actions_by_id["layout_wasm"].trigger()
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    assert "graph" not in shown(window)
