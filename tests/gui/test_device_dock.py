"""The Device dock: plots of what was measured, and the button that measures."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from gui_fakes import measured_device
from PySide6.QtCore import QPointF

from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.ui.device.dock import START, STOP, facts_of


@pytest.fixture
def dock(qtbot, window):
    qtbot.waitUntil(lambda: not window.session.device_reader.job)
    window.docks["device"].raise_()
    panel = window.device  # made here, and it reads what is known
    qtbot.waitUntil(lambda: not window.session.device_reader.job)
    return panel


def measure(qtbot, dock, window):
    with qtbot.waitSignal(window.session.device_changed):
        dock.button.click()


def test_before_anything_is_measured_it_says_so(dock):
    assert "not measured yet" in dock.facts.text()
    assert all(plot.empty.isVisibleTo(plot) for plot in dock.plots)
    assert dock.button.text() == START and dock.button.isEnabled()


def test_what_an_earlier_session_measured_is_shown_at_start(qtbot, dock, window, workbench):
    workbench.device = measured_device()
    with qtbot.waitSignal(window.session.device_changed):
        window.session.read_device()
    assert "12 accumulators and 3 operands" in dock.facts.text()


def test_the_button_measures_and_the_plots_show_it(qtbot, dock, window):
    measure(qtbot, dock, window)
    facts = dock.facts.text()
    assert "a file of 16 vectors" in facts
    assert "L1 48 KiB, L2 2 MiB" in facts
    assert "read 11.3 GB/s" in facts
    assert "Engine started with: no flags." in facts
    flagged = facts_of(replace(measured_device(), flags="--no-sandbox"))
    assert "Engine started with: --no-sandbox." in flagged
    spill, latency, effects = dock.plots
    marks = [i.label.format for i in spill.item.items if hasattr(i, "label")]
    assert marks == ["spills above 12"]
    marks = [i.label.format for i in latency.item.items if hasattr(i, "label")]
    assert marks == ["L1 48 KiB", "L2 2 MiB"]
    (bars,) = [i for i in effects.item.items if type(i).__name__ == "BarGraphItem"]
    speeds = [e.speedup for e in measured_device().effects]
    assert np.allclose(bars.opts["width"], np.abs(np.array(speeds) - 1))
    assert not any(plot.empty.isVisibleTo(plot) for plot in dock.plots)
    assert "was measured" in window.message.text.text()


def test_after_a_busy_moment_it_says_that_nothing_changed(qtbot, dock, window, monkeypatch):
    monkeypatch.setattr(MeasuredDevice, "steady", property(lambda device: False))
    measure(qtbot, dock, window)
    assert "too busy" in window.message.text.text()


def test_while_it_measures_the_button_stops_it(qtbot, dock, window, workbench):
    workbench.hold = True
    dock.button.click()
    qtbot.waitUntil(lambda: "vector registers" in dock.phase.text())
    assert dock.button.text() == STOP and dock.progress.isVisibleTo(dock)
    assert not window.actions_by_id["device"].isEnabled()
    with qtbot.waitSignal(window.session.problem):
        dock.button.click()
    assert "cancelled" in window.message.text.text()
    assert dock.button.text() == START and not dock.progress.isVisibleTo(dock)
    assert workbench.device is None and "not measured" in dock.facts.text()


def test_another_job_keeps_it_waiting(qtbot, dock, window, workbench, model_file):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    workbench.hold = True
    window.start_tuning()
    assert not dock.button.isEnabled()
    workbench.release.set()
    qtbot.waitUntil(lambda: not window.session.busy)
    assert dock.button.isEnabled()


def test_the_menu_opens_the_dock_and_measures(qtbot, dock, window):
    window.docks["device"].hide()
    with qtbot.waitSignal(window.session.device_changed):
        window.actions_by_id["device"].trigger()
    assert window.docks["device"].isVisibleTo(window)


def test_every_plot_gives_its_numbers(qtbot, dock, window, tmp_path):
    measure(qtbot, dock, window)
    for plot, rows, header in (
        (0, 37 * 3, ["accumulators", "GFLOP/s"]),
        (1, 26 * 3, ["working set bytes", "ns"]),
        (2, 14, ["primitive", "setting", "speed", "low", "high", "verdict", "error"]),
    ):
        path = tmp_path / f"plot{plot}.csv"
        dock.plots[plot].export_csv(path)
        with path.open(encoding="utf-8") as file:
            first, *rest = csv.reader(file)
        assert first == header
        assert len(rest) == rows


def test_a_theme_repaints_and_reset_keeps_the_data(qtbot, dock, window):
    measure(qtbot, dock, window)
    before = [len(plot.item.items) for plot in dock.plots]
    window.menus.choose_theme("dark")
    window.actions_by_id["reset_plots"].trigger()
    assert [len(plot.item.items) for plot in dock.plots] == before


def test_in_a_narrow_dock_the_plots_stand_in_two_rows_and_no_labels_overlap(qtbot, dock, window):
    measure(qtbot, dock, window)
    for width, rows in ((544, 2), (1200, 1)):
        dock.parentWidget().parentWidget().resize(width, 190)
        dock.resize(width, max(190, dock.minimumSizeHint().height()))
        dock.layout().activate()
        assert len({part.y() for part in dock._parts}) == rows
        assert max(part.geometry().right() for part in dock._parts) < width, "none is cut"
        _, caches, primitives = dock.plots
        caches.grab()
        sizes, _ = caches.item.getAxis("bottom")._tickLevels
        box = caches.item.getViewBox()
        places = [box.mapViewToScene(QPointF(at, 0)).x() for at, _ in sizes]
        metrics = caches.fontMetrics()
        widths = [metrics.horizontalAdvance(words) for _, words in sizes]
        named = pairwise(zip(places, widths, strict=True))
        assert all(to - at > (a + b) / 2 for (at, a), (to, b) in named)
        (names,) = primitives.item.getAxis("left")._tickLevels
        primitives.grab()
        assert primitives.item.getViewBox().height() / len(names) >= 12
