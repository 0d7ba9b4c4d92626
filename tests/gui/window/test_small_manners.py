"""Small things that a stranger met: no tick in a box, controls twice, neighbours that touch."""

from __future__ import annotations

from gui_window import wait_job
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QCheckBox, QLineEdit


def colours(box: QCheckBox) -> set[int]:
    picture = box.grab().toImage()
    middle = box.height() // 2
    return {picture.pixel(x, y) for x in range(4, 13) for y in range(middle - 4, middle + 5)}


def test_a_checked_box_has_a_tick(qtbot, window):
    window.docks.show("log")
    box = window.panel("log").findChild(QCheckBox)
    qtbot.waitUntil(box.isVisible)
    box.setChecked(True)
    ticked = colours(box)
    assert len(ticked) > 2, "a square in one colour says nothing"


def test_controls_of_the_log_do_not_touch(qtbot, window):
    window.docks.show("log")
    box = window.panel("log").findChild(QCheckBox)
    qtbot.waitUntil(box.isVisible)
    fields = window.panel("log").findChildren(QLineEdit)
    left = box.mapTo(window, QPoint(box.width(), 0)).x()
    assert all(field.mapTo(window, QPoint(0, 0)).x() - left >= 4 for field in fields)


def test_views_without_rows_of_steps_have_no_filter_for_them(qtbot, window, model_file):
    """The tab Compare had two rows of Filter and Copy."""
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "profile", lambda: window.actions_by_id["profile"].trigger() is None)
    window.docks.show("profile")
    profile = window.profile
    for place in range(profile.tabs.count()):
        profile.tabs.setCurrentIndex(place)
        fields = [f for f in profile.findChildren(QLineEdit) if "Filter" in f.placeholderText()]
        assert sum(field.isVisible() for field in fields) <= 1, profile.tabs.tabText(place)
        assert profile.filter.isVisible() == profile.copy_button.isVisible() == (place == 0)
