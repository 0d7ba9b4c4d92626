"""The stage at the sizes of common screens: every widget has its room, every tab is on screen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from gui_fakes import encoder_model
from gui_window import wait_job
from PySide6.QtWidgets import QAbstractScrollArea, QTabBar, QWidget
from verdicts import FASTER

SIZES = [(1280, 720), (1600, 1000)]
AT_TWICE = (800, 490)
"""What a screen of 1600x1000 has for a window, in pixels of twice the size."""
LAYOUTS = ("reset_layout", "layout_tune", "layout_inspect", "layout_compare", "layout_wasm")


@pytest.fixture
def fake_model(model_file):
    return encoder_model(model_file)


@pytest.fixture
def profiled(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "profile", lambda: window.actions_by_id["profile"].trigger() is None)
    return window


def settle(qtbot, window, size):
    window.resize(*size)
    window.docks.reset()
    window.resize(*size)  # which the layout before may have been too large for
    qtbot.wait(50)


def squeezed(window):
    """Visible widgets that are smaller than they can be, those that scroll aside."""
    found = []
    for widget in window.findChildren(QWidget):
        ancestor = widget.parentWidget()
        while ancestor is not None and not isinstance(ancestor, (QAbstractScrollArea, QTabBar)):
            ancestor = ancestor.parentWidget()
        if widget.isVisible() and ancestor is None and not isinstance(widget, QTabBar):
            least = widget.minimumSizeHint().expandedTo(widget.minimumSize())
            least = least.boundedTo(widget.maximumSize())
            if widget.layout() is not None or widget.accessibleName():
                room = widget.size()
                if room.width() < least.width() or room.height() < least.height():
                    found.append((type(widget).__name__, widget.accessibleName(), room, least))
    return found


def cut(window):
    """Views of docks in front that have less width than their controls need."""
    docks = [dock for dock in window.docks.values() if dock.seen and dock.widget()]
    views = {dock.objectName(): dock.widget() for dock in docks}
    return {n: v.widget().size() for n, v in views.items() if v.widget().width() > v.width()}


@pytest.mark.parametrize("size", [(1280, 720), (1180, 620), (1024, 600), AT_TWICE], ids=str)
def test_no_control_is_cut(qtbot, profiled, size):
    """The filter and Copy of the lite space were, and Refresh and Records of the database."""
    profiled.verdict.panel.show_verdict(FASTER)
    keys = {"layout_tune": ("graph", "rounds", "space", "database", "plan", "log", "advice")}
    keys |= {"layout_inspect": ("profile", "kernel", "tensors")}
    for layout, docks in (keys | {"layout_compare": ("graph", "database")}).items():
        settle(qtbot, profiled, size)
        profiled.actions_by_id[layout].trigger()
        profiled.message.hide()
        for key in docks:
            profiled.docks.show(key)
            qtbot.wait(20)
            assert not cut(profiled), (layout, key)
            assert (profiled.width(), profiled.height()) == size


def test_the_graph_has_room_beside_card_and_message_in_a_low_window(qtbot, profiled):
    """They made the window higher than its screen, and the graph had 40 pixels."""
    window = profiled
    window.verdict.panel.show_verdict(FASTER)
    wait_job(qtbot, window, "tune", window.start_tuning)
    settle(qtbot, window, AT_TWICE)
    for layout in ("reset_layout", "layout_tune"):
        window.actions_by_id[layout].trigger()
        qtbot.wait(50)
        assert window.card.isVisible() and window.message.isVisible()
        worth, tried = window.card.worth, window.card.facts
        assert worth.text() and worth.shown() == worth.text() and tried.text() in worth.tip
        assert (window.width(), window.height()) == AT_TWICE
        assert window.docks["graph"].height() >= 100
        assert not squeezed(window)
    settle(qtbot, window, SIZES[0])
    assert worth.shown() == worth.text() and tried.isVisible()


def check_layout(qtbot, window, size, layout):
    settle(qtbot, window, size)
    window.actions_by_id[layout].trigger()
    qtbot.wait(50)
    assert (window.width(), window.height()) == size, layout
    assert not squeezed(window), layout
    for bar in window.findChildren(QTabBar):
        if bar.isVisible():
            corner = bar.mapTo(window, bar.rect().bottomRight())
            assert corner.x() < size[0] and corner.y() < size[1], (layout, bar.tabText(0))
    engine = window.docks.engine
    assert engine.isVisible() and engine.widget().height() >= 60, layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_fits_half_the_pixels(qtbot, profiled, layout):
    profiled.verdict.panel.show_verdict(FASTER)
    check_layout(qtbot, profiled, AT_TWICE, layout)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_layout_fits(qtbot, profiled, size):
    """One after the other in one window, each from the first one."""
    profiled.verdict.panel.show_verdict(FASTER)
    for layout in LAYOUTS:
        check_layout(qtbot, profiled, size, layout)


def test_every_layout_fits_a_screen_of_2560_by_1440_at_2x():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            __file__,
            "-k",
            "layout and 720",
        ],
        env=os.environ | {"QT_SCALE_FACTOR": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "1 passed" in done.stdout


def test_a_profile_shows_twelve_steps_beside_the_findings(qtbot, profiled):
    settle(qtbot, profiled, (1600, 1000))
    view, findings = profiled.profile.view, profiled.profile.findings
    rows = view.viewport().height() // view.rowHeight(0)
    assert rows >= 12
    assert findings.width() >= 280 and findings.height() >= view.viewport().height()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_tables_have_rows_beside_verdict_and_card(qtbot, profiled, size):
    window = profiled
    window.verdict.panel.show_verdict(FASTER)
    assert not window.header.figures.isVisible()
    bars = window.verdict.panel.bars
    assert bars.isVisible()
    wait_job(qtbot, window, "tune", window.start_tuning)
    settle(qtbot, window, size)
    assert window.card.isVisible() and not bars.isVisible()
    view = window.space.view
    assert view.viewport().height() // view.rowHeight(0) >= 4
    assert not squeezed(window)
    window.verdict.panel.unfold.click()
    assert bars.isVisible()


def test_no_key_reaches_what_the_welcome_page_covers(window):
    def reached(forward):
        window.welcome.page.sample_button.setFocus()
        found = []
        for _ in range(80):
            window.focusNextPrevChild(forward)
            found.append(window.focusWidget().accessibleName())
        return found

    for forward in (True, False):
        names = reached(forward)
        assert {"Open minilm", "Backend"} <= set(names) and "Find in graph" not in names
        assert "Tuning budget" not in names
    window.docks.show("graph")
    assert "Find in graph" in reached(True)


def test_the_welcome_page_covers_the_stage_until_a_dock_is_wanted(window):
    assert window.welcome.page.isVisible()
    window.docks.show("database")
    assert not window.welcome.page.isVisible()
    assert window.docks["database"].seen


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_wasm_file_has_the_width_of_the_window(qtbot, window, size):
    """The engine's tile, alone in the right column, took a quarter of it and showed nothing."""
    settle(qtbot, window, size)
    window.actions_by_id["layout_wasm"].trigger()
    docks = window.docks
    qtbot.waitUntil(lambda: docks["wasm"].width() >= 0.85 * window.width())
    assert docks.engine.width() >= 100
    window.actions_by_id["layout_tune"].trigger()
    qtbot.wait(50)
    assert docks.engine.x() >= docks["tuning"].x() > docks["graph"].x()


def test_in_a_tall_window_the_column_is_full_and_no_old_tabs_stay(qtbot, profiled):
    """The lower two thirds of the column "Tuning" were blank."""
    for size in ((1280, 720), (1600, 1000), (2560, 1440)):
        settle(qtbot, profiled, size)
        bars = [bar for bar in profiled.docks.stage.findChildren(QTabBar) if bar.isVisible()]
        names = [bar.tabText(0) for bar in bars if bar.parent() is profiled.docks.stage]
        assert sorted(names) == ["GFLOP/s per round", "Lite space", "Model graph"]
    tuning, rounds = profiled.docks["tuning"], profiled.docks["rounds"]
    assert rounds.x() >= tuning.x() and tuning.height() < 300 < rounds.height()
