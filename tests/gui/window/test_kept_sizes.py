"""What the window gains goes to the middle; column and drawer keep the sizes that they have.

At a size that asks for other places they get those, and first sizes: ``test_followed_sizes.py``.
"""

from __future__ import annotations

import pytest
from gui_fakes import engine_label, finish
from gui_window import StudioWindow
from PySide6.QtCore import Qt


@pytest.fixture
def docks(qtbot, window):
    window.welcome.leave()
    window.resize(1280, 720)
    window.docks.reset()
    qtbot.waitUntil(lambda: window.docks["tuning"].width() < 400)
    return window.docks


def sizes(docks):
    """Width of the column, heights of drawer and tile; share of the plots in the drawer's width."""
    plots, rest = docks["rounds"].width(), docks["space"].width()
    heights = docks["space"].height(), docks.engine.height()
    return docks["tuning"].width(), *heights, round(plots / (plots + rest), 1)


def test_the_first_change_of_size_keeps_the_first_sizes(window):
    docks, before = window.docks, sizes(window.docks)
    for width, height in ((1400, 890), (1920, 1080)):
        window.resize(width, height)
        assert sizes(docks) == pytest.approx(before, abs=2)


def test_a_window_that_grows_gives_its_room_to_the_middle(window, docks):
    before, middle = sizes(docks), docks["graph"].size()
    for width, height in ((1920, 860), (2560, 860), (1366, 768), (1280, 720)):
        window.resize(width, height)
        assert sizes(docks) == pytest.approx(before, abs=2)
        grown = docks["graph"].size() - middle
        gained = width - 1280, height - 720
        assert (grown.width(), grown.height()) == pytest.approx(gained, abs=4)


def test_docks_that_came_to_the_front_keep_the_sizes_too(qtbot, window, docks):
    before, tile = docks["tuning"].width(), docks.engine.height()
    height = docks["space"].height()
    for key in ("tensors", "plan"):
        docks.show(key)
    qtbot.waitUntil(lambda: docks["tensors"].y() > 0 and docks["plan"].y() > 0)
    docks.show("graph")
    window.resize(1920, 860)
    assert docks["tuning"].width() == pytest.approx(before, abs=2)
    assert docks["plan"].height() == pytest.approx(height, abs=2)
    assert docks.engine.height() == pytest.approx(tile, abs=2)


def test_a_column_that_the_user_widened_keeps_its_width(qtbot, window, docks):
    docks.stage.resizeDocks(
        [docks["graph"], docks["tuning"]], [780, 500], Qt.Orientation.Horizontal
    )
    qtbot.waitUntil(lambda: docks["tuning"].width() > 450)
    wanted = docks["tuning"].width()
    for size in ((1920, 1080), (900, 720), (1600, 900)):
        window.resize(*size)
    assert docks["tuning"].width() == pytest.approx(wanted, abs=2)


def test_messages_give_their_height_back(qtbot, window, docks):
    before, stage = docks["graph"].height(), docks.stage.height()
    for _ in range(3):
        window.message.say("Written: m.zip.", "good")
        qtbot.waitUntil(lambda: docks.stage.height() < stage)
        assert docks["graph"].height() < before
        window.message.hide()
        qtbot.waitUntil(lambda: docks.stage.height() == stage)
        assert docks["graph"].height() == pytest.approx(before, abs=1)


def test_an_edge_that_was_moved_under_a_message_stays(qtbot, window, docks):
    before, stage = docks["graph"].height(), docks.stage.height()
    window.message.say("Written: m.zip.", "good")
    qtbot.waitUntil(lambda: docks.stage.height() < stage)
    middle, below = docks["graph"], docks["space"]
    docks.stage.resizeDocks([middle, below], [before - 60, 330], Qt.Orientation.Vertical)
    qtbot.waitUntil(lambda: middle.height() < before - 60)
    wanted = below.height()
    window.message.hide()
    qtbot.waitUntil(lambda: docks.stage.height() == stage)
    assert below.height() == pytest.approx(wanted, abs=2)
    assert middle.height() < before - 40


def test_a_later_window_has_the_sizes_of_the_one_before(
    qtbot, window, docks, workbench, settings, monkeypatch
):
    """Its stage is seen first without what stood above it."""
    window.message.say("Written: m.zip.", "good")
    qtbot.wait(50)
    before = sizes(docks)
    window.close()
    # The offscreen screen is smaller, and would cut the geometry.
    monkeypatch.setattr(StudioWindow, "restoreGeometry", lambda w, _: w.resize(1280, 720))
    later = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(later, before_close_func=lambda w: finish(qtbot, workbench, w))
    later.show()
    later.welcome.leave()
    later.message.hide()
    later.resize(1280, 720)
    qtbot.wait(50)
    assert sizes(later.docks) == pytest.approx(before, abs=3)
    later.message.say("Written: m.zip.", "good")
    qtbot.wait(50)
    assert sizes(later.docks) == pytest.approx(before, abs=3)


def test_each_class_of_windows_has_a_layout_of_its_own(
    qtbot, window, docks, workbench, settings, monkeypatch
):
    """What suits a large screen does not fit a small one."""
    docks["latency"].hide()
    window.close()
    found = {}
    for size in ((800, 490), (1280, 720), (1600, 1000)):
        monkeypatch.setattr(
            StudioWindow, "restoreGeometry", lambda w, _, size=size: w.resize(*size)
        )
        later = StudioWindow(workbench, engine_label, settings)
        qtbot.addWidget(later, before_close_func=lambda w: finish(qtbot, workbench, w))
        where = later.docks.stage.dockWidgetArea(later.docks["rounds"])
        beside = later.docks["space"] in later.docks.stage.tabifiedDockWidgets(
            later.docks["rounds"]
        )
        found[size] = where, beside, later.docks["latency"].isHidden()
    area = Qt.DockWidgetArea
    assert found == {
        (800, 490): (area.BottomDockWidgetArea, True, False),
        (1280, 720): (area.BottomDockWidgetArea, False, True),
        (1600, 1000): (area.RightDockWidgetArea, False, False),
    }
