"""The keys are where the eyes are: in the list or picture in front, never on a setting."""

from __future__ import annotations

import threading

import pytest
from gui_window import wait_job
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QWidget

from nnjit_studio.ui.widgets.tab_order import next_in_sight


def focused(window):
    return window.focusWidget().accessibleName()


@pytest.fixture
def opened(qtbot, window, model_file):
    window.welcome.page.sample_button.setFocus()
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    return window


def test_opening_a_model_leaves_the_keys_to_the_graph(opened):
    assert opened.focusWidget() is opened.panel("graph").view
    budget = opened.panel("tuning").budget.value()
    QTest.keyClick(opened.focusWidget(), Qt.Key.Key_Left)
    assert opened.panel("tuning").budget.value() == budget


def test_a_dock_that_comes_to_the_front_takes_the_keys_from_the_one_behind(qtbot, opened):
    wait_job(qtbot, opened, "profile", lambda: opened.actions_by_id["profile"].trigger() is None)
    assert opened.focusWidget() is opened.panel("profile").view
    opened.docks.show("graph")
    assert opened.focusWidget() is opened.panel("graph").view


def test_a_dock_beside_leaves_the_keys_where_they_are(opened):
    opened.docks.show("database")
    assert opened.focusWidget() is opened.panel("graph").view


def test_a_button_that_starts_and_stops_keeps_the_keys(qtbot, opened, workbench):
    workbench.hold = True
    button = opened.header.button
    button.setFocus()
    QTest.keyClick(button, Qt.Key.Key_Space)
    assert opened.session.busy == "tune" and button.text() == "Stop"
    assert opened.focusWidget() is button
    workbench.release.set()
    qtbot.waitUntil(lambda: not opened.session.busy)
    assert opened.focusWidget() is button and button.text() == "Start tuning"


def test_tab_leaves_a_table(qtbot, opened):
    wait_job(qtbot, opened, "profile", lambda: opened.actions_by_id["profile"].trigger() is None)
    table = opened.focusWidget()
    assert table is opened.panel("profile").view and table.model().rowCount() > 1
    QTest.keyClick(table, Qt.Key.Key_Tab)
    assert opened.focusWidget() is not table


def test_tab_goes_through_all_that_is_in_sight_as_it_is_read(qtbot, opened):
    wait_job(qtbot, opened, "profile", lambda: opened.actions_by_id["profile"].trigger() is None)
    opened.header.button.setFocus()
    names = [focused(opened)]
    while QTest.keyClick(opened.focusWidget(), Qt.Key.Key_Tab) is None and len(names) < 120:
        if opened.focusWidget() is opened.header.button:
            break
        used = opened.focusWidget()
        behind = [key for key, dock in opened.docks.items() if dock.y() < 0]  # as Qt puts it
        assert not any(opened.docks[key].isAncestorOf(used) for key in behind)
        names.append(focused(opened))
    assert len(names) < 120, "it comes round"
    wanted = [
        "Start or stop", "Backend", "Profile: start or stop", "Profile: filter", "Save profile",
        "Profile", "Lite space: filter", "Lite space", "Tuning budget", "Rates of",
    ]  # fmt: skip
    assert [name for name in names if name in wanted] == wanted
    assert "Find in graph" not in names, "it is behind a tab"
    QTest.keyClick(opened.focusWidget(), Qt.Key.Key_Backtab)
    assert focused(opened) == names[-1]


def test_tab_does_not_search_what_is_out_of_sight(opened):
    """A filled window has some thousand widgets, most of them in docks behind tabs."""
    for key in opened.docks:
        opened.panel(key)
    opened.docks.show("graph")
    asked = []
    next_in_sight(
        opened, opened.docks.stage, lambda w: asked.append(w) or opened.docks.hide(w), True
    )
    behind = [dock for dock in opened.docks.values() if not dock.seen]
    assert len(behind) > 5
    held = {widget for dock in behind for widget in dock.findChildren(QWidget)}
    assert not held & set(asked)
    opened.welcome.show()
    assert opened.welcome.covers(opened.docks.stage)


def test_a_file_of_the_dialog_leaves_the_keys_to_the_graph(
    qtbot, window, workbench, monkeypatch, model_file
):
    survey, active = workbench.survey, threading.Event()
    monkeypatch.setattr(workbench, "survey", lambda path: active.wait() and survey(path))
    window.welcome.page.open_button.setFocus()
    dialog = QDialog(window)
    dialog.accepted.connect(lambda: window.open_model(model_file))
    dialog.open()
    qtbot.waitUntil(dialog.isActiveWindow)
    dialog.accept()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    wait_job(qtbot, window, "open", lambda: active.set() is None)
    assert window.focusWidget() is window.panel("graph").view
