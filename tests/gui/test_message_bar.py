"""The bar of messages: what only confirms a stop goes by itself, and its icon follows the theme."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from nnjit_studio.ui.widgets.message_bar import MessageBar


@pytest.fixture
def bar(qtbot):
    made = MessageBar()
    qtbot.addWidget(made)
    return made


def test_a_passing_message_hides_itself_and_the_next_one_stays(qtbot, bar):
    bar.passing.setInterval(1)
    bar.say("The advice was cancelled.", passing=True)
    qtbot.waitUntil(bar.isHidden)
    bar.say("The advice was cancelled.", passing=True)
    bar.say("Written: m.zip.", "good")
    assert not bar.passing.isActive() and not bar.isHidden()


def test_its_icon_has_the_colour_of_the_theme_of_now(bar):
    first = QApplication.palette()
    bar.say("Stopped.")
    before = bar.icon.pixmap().toImage()
    other = QPalette(first)
    other.setColor(QPalette.ColorRole.ButtonText, QColor("#ff0000"))
    QApplication.setPalette(other)
    QApplication.processEvents()
    after = bar.icon.pixmap().toImage()
    QApplication.setPalette(first)
    assert before != after


def test_what_can_be_done_with_a_file_can_be_done_twice(qtbot, bar):
    done = []
    for stays in (True, False):
        bar.say("Written: m.zip.", "good", steps=[("Try", lambda: done.append(1))], stays=stays)
        bar.steps.itemAt(0).widget().click()
        assert bar.isHidden() != stays
    assert len(done) == 2
