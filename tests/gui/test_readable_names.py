"""Workloads are named in words everywhere; their keys are in tooltips, copies and exports."""

from gui_fakes import record
from gui_window import wait_job
from PySide6.QtCore import Qt

from nnjit_studio.analysis.session_events import words

NAME, KEY = "MatMul 8x16 by 16x16, +bias", "matmul:8x16x16:f32+bias"
TIP = Qt.ItemDataRole.ToolTipRole


def test_space_plot_and_kernel_say_words_and_keep_the_key(qtbot, window, workbench, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "tune", lambda: window.start_tuning(1.0))
    chooser = window.space.chooser
    assert NAME in chooser.currentText() and chooser.currentData().startswith(KEY)
    assert chooser.itemData(chooser.currentIndex(), TIP).startswith(KEY)
    labels = {label.text: label.toolTip() for _, label in window.rounds.legend.items}
    assert labels[NAME].startswith(f"{NAME}\n{KEY}")
    assert any(row[0].startswith(KEY) for row in window.rounds.table()[1])
    window.docks.show("kernel")
    qtbot.waitUntil(lambda: NAME in window.kernel.caption.text())
    assert KEY in window.kernel.caption.tip


def test_records_are_found_by_words_and_by_key_and_copied_by_key(
    qtbot, window, workbench, model_file
):
    workload = workbench.model.workloads[0]
    workbench.stored = [record(workload, "x0=8", "slower", 9.0, 1)]
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    window.docks.show("database")
    panel = window.database
    qtbot.waitUntil(lambda: bool(panel.model.rows))
    shown = panel.model.index(0, 0)
    assert shown.data() == NAME and KEY in shown.data(TIP)
    assert KEY in panel.as_text([0], "excel")
    for searched in ("by 16x16", KEY):
        panel.filter.setText(searched)
        assert len(panel.model.rows) == 1


def test_reports_and_plots_say_words():
    assert words(f"{KEY}#0123") == NAME
