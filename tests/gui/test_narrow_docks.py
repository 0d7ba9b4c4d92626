"""What a view shows in a narrow or low dock: texts end in an ellipsis, labels do not overlap."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QTabBar, QToolTip

from nnjit_studio.ui.profile.roofline import StepRoofline
from nnjit_studio.ui.widgets.panel import chooser
from nnjit_studio.ui.widgets.theme import LIGHT

LONG = "24.6 %   MatMul 200x32 by 32x784, +subtract +divide +multiply +add"


@pytest.fixture
def narrow(qtbot):
    made = chooser("Workload", "The heaviest first", ["short", LONG])
    qtbot.addWidget(made)
    made.setCurrentIndex(1)
    made.resize(made.minimumSizeHint())
    made.show()
    return made


def test_a_chooser_without_room_ends_its_text_in_an_ellipsis(narrow):
    assert narrow.minimumSizeHint().width() < 100, "a narrow dock can hold it"
    assert narrow.shown().endswith("…") and LONG.startswith(narrow.shown()[:-1])
    assert narrow.fontMetrics().horizontalAdvance(narrow.shown()) < narrow.width()
    narrow.resize(narrow.sizeHint())
    assert narrow.shown() == LONG
    narrow.grab()


def test_a_chooser_without_room_tells_all_of_its_text_in_the_tooltip_and_in_its_list(narrow):
    QApplication.sendEvent(narrow, QHelpEvent(QEvent.Type.ToolTip, QPoint(), QPoint()))
    assert QToolTip.text() == f"{LONG}\nThe heaviest first"
    narrow.showPopup()
    assert narrow.view().width() >= narrow.fontMetrics().horizontalAdvance(LONG)
    narrow.hidePopup()


def test_an_axis_without_room_for_its_name_has_the_unit_alone(qtbot):
    plot = StepRoofline(LIGHT)
    qtbot.addWidget(plot)
    plot.resize(500, 500)
    plot.show()
    assert plot.item.getAxis("left").labelText == "rate (GFLOP/s)"
    plot.resize(500, 150)
    assert plot.item.getAxis("left").labelText == "GFLOP/s"


def test_the_live_tab_scrolls_where_its_plot_would_be_too_low(qtbot, window):
    live = window.wasm.live
    live.setParent(None)
    qtbot.addWidget(live)
    live.resize(900, 200)
    live.show()
    assert live.parts.height() >= 200 and live.plot.plot.height() > 100


def test_tabs_without_room_keep_their_names_and_scroll(window):
    """ "Pr…" and "Te…" stood there in a window of twice the scale."""
    stage = window.docks.stage
    bars = [bar for bar in stage.findChildren(QTabBar) if bar.isVisible()]
    assert bars
    assert {bar.elideMode() for bar in bars} == {Qt.TextElideMode.ElideNone}
    assert all(bar.usesScrollButtons() for bar in bars)
