"""The line where the user types a candidate."""

from __future__ import annotations

from gui_fakes import finish
from PySide6.QtCore import Qt
from test_window import open_it, tune_it

INSIDE = "x0=8,y0=6,r0=1,x1=8,y1=6,r1=64,order=nm,pack=1"
OUTSIDE = "x0=32,y0=6,r0=1,x1=32,y1=6,r1=64,order=nm,pack=1"


def type_in(qtbot, window, text):
    bar = window.space.own
    bar.field.setText(text)
    bar.judge()
    return bar


def test_the_rules_speak_while_the_user_types(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    bar = type_in(qtbot, window, INSIDE)
    assert bar.button.isEnabled()
    assert "every rule accepts it" in bar.verdict.text()
    bar = type_in(qtbot, window, OUTSIDE)
    assert bar.button.isEnabled()  # outside, yet it may be measured
    assert "registers: Reg_thread 192 of 64" in bar.verdict.text()


def test_what_is_no_candidate_cannot_be_measured(qtbot, window, workbench, model_file):
    open_it(qtbot, window, model_file)
    for text in ("x0=8", "nonsense", "x0=eight,y0=1,r0=1,x1=8,y1=1,r1=1"):
        assert type_in(qtbot, window, INSIDE).button.isEnabled()
        bar = type_in(qtbot, window, text)
        assert not bar.button.isEnabled(), text
        assert "cannot be read" in bar.verdict.text(), text
        qtbot.keyClick(bar.field, Qt.Key.Key_Return)
        assert workbench.tried == [], text


def test_enter_measures_and_the_verdict_stands_beside_it(qtbot, window, workbench, model_file):
    open_it(qtbot, window, model_file)
    bar = window.space.own
    bar.field.setText(INSIDE)
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "try"):
        qtbot.keyClick(bar.field, Qt.Key.Key_Return)
    assert not bar._judge_later.isActive(), "the rules do not speak over the verdict"
    assert workbench.tried == [(window.session.state.selected, INSIDE)]
    assert bar.verdict.text() == "41.5 GFLOP/s, slower: 0.93x, not enough"
    row = window.session.state.workloads[window.session.state.selected].candidates[INSIDE]
    assert (row.state, row.gflops) == ("slower", 41.5)


def test_a_window_that_closes_names_no_other_job(qtbot, window, workbench, model_file):
    open_it(qtbot, window, model_file)
    bar = type_in(qtbot, window, INSIDE)
    window.session.cancel_all()
    bar.measure()
    assert bar.verdict.text() == "The window is closing." and workbench.tried == []


def test_while_tuning_it_comes_next(qtbot, window, workbench, model_file):
    open_it(qtbot, window, model_file)
    workbench.hold = True
    window.start_tuning()
    qtbot.waitUntil(lambda: window.session.busy == "tune")
    bar = type_in(qtbot, window, INSIDE)
    bar.button.click()
    assert workbench.requested == [(window.session.state.selected, INSIDE)]
    assert workbench.tried == []
    finish(qtbot, workbench, window)


def test_the_kernel_that_runs_is_proposed_until_the_user_types(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    state = window.session.state
    bar = window.space.own
    assert bar.field.text() == state.workloads[state.selected].incumbent
    type_in(qtbot, window, INSIDE)
    window.session.select(state.by_share()[1].workload.key)
    assert bar.field.text() == INSIDE


def test_the_shortcut_leads_to_the_field(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    window.actions_by_id["own"].trigger()
    assert window.space.own.field.hasFocus()
