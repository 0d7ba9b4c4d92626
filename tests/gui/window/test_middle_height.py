"""What passes above the stage gives its height back to the views that it took it from."""

from __future__ import annotations

import pytest


@pytest.fixture
def stage(qtbot, window):
    """The height of the stage and of its view in front."""
    window.welcome.leave()
    window.resize(1280, 720)
    window.docks.size()
    return lambda: (window.docks.stage.height(), window.docks["graph"].height())


def test_messages_that_go_give_their_height_back(qtbot, window, stage):
    qtbot.waitUntil(lambda: window.docks.remembers_height)
    before = stage()
    for _ in range(3):
        window.message.say("Written: m.zip.", "good")
        qtbot.waitUntil(lambda: stage()[0] < before[0] and window.docks.remembers_height)
        assert stage()[1] < before[1]
        window.message.hide()
        qtbot.waitUntil(lambda: stage()[0] == before[0] and window.docks.remembers_height)
        assert abs(stage()[1] - before[1]) <= 1, "Qt lays a fixed view out a pixel lower"


def test_an_edge_that_was_moved_under_a_message_stays(qtbot, window, stage):
    qtbot.waitUntil(lambda: window.docks.remembers_height)
    before = stage()
    window.message.say("Written: m.zip.", "good")
    qtbot.waitUntil(lambda: stage()[0] < before[0] and window.docks.remembers_height)
    view = window.docks["graph"].widget()
    view.setMaximumHeight(before[1] - 90)
    qtbot.waitUntil(lambda: stage()[1] <= before[1] - 90)
    view.setMaximumHeight(2**24 - 1)
    window.message.hide()
    qtbot.waitUntil(lambda: stage()[0] == before[0] and window.docks.remembers_height)
    assert stage()[1] < before[1] - 40
