"""The dock of the running session, what it says, and what the user does with it."""

from __future__ import annotations

import pytest
from gui_fakes import candidates, finish, play, small_model

from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.commands import actions as registry
from nnjit_studio.ui.dock.job_table import OPENING
from nnjit_studio.ui.files import unfinished_session as unfinished
from nnjit_studio.ui.profile.dock import profile_job
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.state.workload import INVALID, TIMED_OUT, CandidateRow, shown_state
from nnjit_studio.ui.tuning.dock import (
    BUDGETS_S,
    SHARES,
    known_text,
    left_text,
    served_text,
    trying_text,
)
from nnjit_studio.ui.tuning.rounds import SELECTED, next_step
from nnjit_studio.ui.tuning.space import COLUMNS, describe
from nnjit_studio.ui.window.features import ACTIONS

NARROW = 300
"""Pixels of the dock in a window of 1280."""


@pytest.fixture
def state():
    made = SessionState()
    made.open(small_model())
    return made


def first(state):
    return state.by_share()[0].workload.key


def test_an_empty_lite_space_of_a_running_session_does_not_ask_to_start_one(state):
    workload = state.by_share()[0]
    assert describe(None).startswith("Open a model")
    assert describe(None, "open") == OPENING
    assert describe(workload).startswith("Start tuning (F5)")
    assert describe(workload, "tune").startswith("The untuned model is measured first")


def test_settings_that_the_default_kernel_has_not_are_dashes():
    """Six cells of 46 pixels said "de…"."""
    by_title = {column.title: column for column in COLUMNS}
    row = CandidateRow(DEFAULT_SETTINGS, "default")
    for title in ("x0", "y1", "order"):
        column = by_title[title]
        assert column.text(column.value(row)) == "–"  # noqa: RUF001


def test_what_is_tried_is_told_with_its_phase():
    key = "matmul:8x16x32:f32+bias#aa"
    tell = lambda phase, pairs=0: trying_text(ev.Trying(1.0, key, "x0=8", phase, pairs))  # noqa: E731
    assert tell("compile") == "Compiling  ·  MatMul 8x16 by 16x32, +bias  ·  x0=8"
    assert tell("check", 2).startswith("Checking the result, first 2 pairs")
    assert "up to 16 pairs" in tell("duel", 16)
    assert trying_text(ev.Trying(1.0, "", "", "timing")) == "Timing the whole model"
    assert "default kernel" in trying_text(ev.Trying(1.0, "k", "default", "check"))
    assert trying_text(None) == ""


def test_time_left_is_unknown_until_the_session_tells(state):
    assert left_text(state, 0.0, None) == "Time left: known after a few rounds"
    assert left_text(state, 0.0, 30.0).endswith("at most 0:30 by the budget")
    state.reduce([ev.RoundDone(1.0, first(state), 1, "c", 5.0, 5.0, "c", 3, 9.0, 20.0)])
    assert left_text(state, 4.0, None) == "About 0:16 left"
    assert left_text(state, 4.0, 9.0) == "About 0:09 left, at most 0:09 by the budget"
    assert left_text(state, 60.0, None) == "About 0:00 left"
    assert left_text(state, 0.0, 0.2).startswith("The budget is used up")


def test_what_was_known_and_what_is_served_stand_in_words():
    assert known_text(0, 10) == ""
    assert known_text(7, 10) == "Goes on from what is known: 7 of 10 candidates are in the database"
    served = ev.Served(1.0, 9, 20.0, 21.5, 20.5, 0.43)
    assert served_text(served) == (
        "Serving: p95 21.50 ms, 20.50 ms untouched; tuning had 43% of the time"
    )
    assert "no inference" in served_text(ev.Served(1.0, 0, 0.0, 0.0, None, 0.9))
    assert served_text(None) == ""


def test_a_pause_is_a_state_and_ends_with_the_session(state):
    key = first(state)
    state.reduce([ev.Trying(1.0, key, "x0=8", "compile")])
    assert state.trying is not None
    state.reduce([ev.Paused(1.5)])
    assert state.paused and state.trying is None and state.phase == "Paused"
    state.reduce([ev.Resumed(1.5, 9.0)])
    assert not state.paused
    state.reduce([ev.Paused(2.0), *(e for e in play(state.model) if isinstance(e, ev.Finished))])
    assert not state.paused


def test_the_model_has_rounds_of_its_own(state):
    key = first(state)
    flops = sum(w.flops * w.uses for w in state.model.workloads)
    round_ = lambda t, ms: ev.RoundDone(t, key, 1, "c", 5.0, 5.0, "c", 3, ms)  # noqa: E731
    state.reduce([ev.ModelTimed(0.5, 4.0, (4.0,)), round_(1.0, 2.0), round_(2.0, 3.0)])
    first_, second = state.rounds
    assert first_.gflops == pytest.approx(flops / 4e6) and second.gflops == 0
    assert first_.best_gflops == second.best_gflops == pytest.approx(flops / 2e6)
    assert [p.round for p in state.rounds] == [1, 2]


def test_a_failure_says_how():
    assert shown_state("failed", "no answer within 20 s", built=False) == TIMED_OUT
    assert shown_state("failed", "too many locals", built=False) == INVALID
    assert shown_state("failed", "The page took no sample.") == "failed"
    assert shown_state("slower", "0.9x within 3 s") == "slower"


def test_tried_is_counted_as_it_would_be_from_the_rows(state):
    key = first(state)
    a, b, c = candidates()[:3]
    known = ev.KnownCandidate(a, "slower", 12.0, 2.5)
    state.reduce([ev.SpaceBuilt(0.1, key, (a, b, c), ("",) * 3, 1000, 1, (known,))])
    assert state.tried() == (1, 3) and state.known() == 1
    measured = ev.Measured(0.3, key, b, "slower", "", 1.0, 0.5)
    state.reduce([ev.Compiled(0.2, key, b, 4.0, 900), measured, measured])
    assert state.tried() == (2, 3)
    state.reduce([ev.Compiled(0.4, key, b, 4.0, 900)])
    assert state.tried() == (1, 3), "it is measured again"


def test_unfinished_tuning_is_offered_while_its_model_is_there(settings, tmp_path):
    assert unfinished.read(settings) is None
    model = tmp_path / "a model.onnx"
    model.write_bytes(b"")
    unfinished.note(settings, model)
    found = unfinished.read(settings)
    assert found is not None and found.model == model
    assert "Tuning of a model.onnx" in str(found)
    model.unlink()
    assert unfinished.read(settings) is None
    model.write_bytes(b"")
    unfinished.forget(settings)
    assert unfinished.read(settings) is None
    for broken in ("{", "[]", '{"model": 3}', "null"):
        settings.setValue(unfinished.KEY, broken)
        assert unfinished.read(settings) is None


def test_candidates_are_filtered_by_state(qtbot, window, workbench, model_file):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    with qtbot.waitSignal(window.session.done):
        window.start_tuning()
    panel = window.space
    rows = panel.model.rows
    wrong = sum(row.state == "wrong" for row in rows)
    assert 0 < wrong < len(rows) == panel.model.rowCount()
    panel.states.setCurrentText("wrong")
    assert panel.model.rowCount() == wrong
    panel.filter.setText("nothing like this")
    assert panel.model.rowCount() == 0
    panel.filter.clear()
    panel.states.setCurrentIndex(0)
    assert panel.model.rowCount() == len(rows)


def test_an_empty_lite_space_tells_what_comes_and_what_to_do(qtbot, window, model_file):
    panel = window.space
    assert panel.nothing.words.text() == "Open a model to see its lite spaces."
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    assert not panel.model.rows and not panel.summary.text()
    assert "Start tuning (F5)" in panel.nothing.words.text()
    with qtbot.waitSignal(window.session.done):
        window.start_tuning()
    assert panel.model.rows and panel.summary.text() and not panel.nothing.words.text()


def enabled(window):
    return {
        name
        for name in ("tune", "pause", "stop", "profile")
        if window.actions_by_id[name].isEnabled()
    }


def test_tuning_pauses_and_the_model_is_free_meanwhile(qtbot, window, workbench, model_file):
    workbench.rests = True
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    window.tuning.budget.setValue(BUDGETS_S.index(30.0))
    assert window.tuner.budget_s == 30.0
    window.start_tuning()
    assert unfinished.read(window.settings) is not None
    assert enabled(window) == {"pause", "stop", "profile"}
    with qtbot.waitSignal(window.session.done) as ended:
        window.actions_by_id["pause"].trigger()
    assert ended.args[0] == "pause" and window.session.paused
    assert workbench.tuned_seconds == [30.0]
    assert enabled(window) == {"tune", "pause", "stop", "profile"}
    assert window.actions_by_id["pause"].text() == "&Resume"
    assert window.header.button.text() == "Resume tuning"
    left = window.tuning.left
    assert left.fontMetrics().horizontalAdvance(left.text()) < NARROW, "it is not cut"
    window.tuning.budget.setValue(0)
    assert workbench.asked == [("seconds", BUDGETS_S[0])]
    with qtbot.waitSignal(window.session.done):
        window.session.run(profile_job())
    assert window.session.paused and unfinished.read(window.settings) is not None
    with qtbot.waitSignal(window.session.done) as ended:
        window.actions_by_id["tune"].trigger()
    assert ended.args[0] == "tune" and not window.session.paused
    assert window.session.state.summary is not None
    assert not any(isinstance(e, ev.Trying) for e in window.session.events)
    assert unfinished.read(window.settings) is None


def test_events_are_kept_of_the_latest_session_alone(qtbot, window, workbench, model_file):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    kept = []
    for _ in range(3):
        with qtbot.waitSignal(window.session.done):
            window.start_tuning()
        kept.append(len(window.session.events))
        assert isinstance(window.session.events[0], ev.SessionStarted)
    assert kept[0] == kept[1] == kept[2] > 1
    assert window.session.events.count_all >= sum(kept)


def test_the_limit_of_a_model_in_use_is_explained_where_it_is_read(window):
    tuning = window.tuning
    assert tuning.serve.text() == "while it is used" and "people used it" in tuning.serve.toolTip()
    assert tuning.share_label.text() == "at most 5% slower"
    assert "95 of 100" in tuning.share_label.toolTip() == tuning.share.toolTip()


def test_a_paused_session_stops_and_a_serving_one_rests(qtbot, window, workbench, model_file):
    workbench.rests = True
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    window.tuning.serve.setChecked(True)
    window.start_tuning()
    with qtbot.waitSignal(window.session.done):
        window.actions_by_id["pause"].trigger()
    window.tuning.share.setValue(SHARES.index(0.5))
    with qtbot.waitSignal(window.session.done) as ended:
        window.actions_by_id["stop"].trigger()
    assert ended.args[0] == "tune" and window.session.state.summary.reason == "cancelled"
    assert [what for what, _ in workbench.asked] == ["serve", "share", "rest"]
    assert workbench.asked[0][1].budget == SHARES[1] and workbench.asked[1][1] == 0.5


def test_a_window_that_closes_while_tuning_pauses_offers_it_again(
    qtbot, window, workbench, model_file, monkeypatch
):
    workbench.rests = True
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    window.start_tuning()
    with qtbot.waitSignal(window.session.done):
        window.actions_by_id["pause"].trigger()
    resumed = []
    monkeypatch.setattr(workbench, "resume", lambda **given: resumed.append(given))
    finish(qtbot, workbench, window)
    found = unfinished.read(window.settings)
    assert resumed == [] and found is not None and found.model == model_file


def test_a_session_that_a_closing_window_breaks_off_is_offered_again(
    qtbot, window, workbench, model_file
):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    unfinished.note(window.settings, model_file)
    with qtbot.waitSignal(window.closed):
        window.close()
        window.session.problem.emit(JobProblem("tune", "cancelled"))
    assert unfinished.read(window.settings) is not None


def test_the_last_tuning_is_resumed_by_a_command(qtbot, window, workbench, model_file):
    window.actions_by_id["resume_last"].trigger()
    assert "No tuning waits" in window.message.text.text()
    unfinished.note(window.settings, model_file)
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "tune"):
        window.actions_by_id["resume_last"].trigger()
    assert window.session.state.summary is not None
    assert workbench.tuned_seconds == [None]


def test_every_state_of_the_window_leaves_a_way_on(window):
    for job in ("", "tune", "profile"):
        for paused in (False, True):
            now = registry.Possible(job, has_model=True, paused=paused)
            registry.enable(window.actions_by_id, ACTIONS, now)
            assert enabled(window), (job, paused)
            assert window.actions_by_id["pause"].isEnabled() == (
                job == "tune" or (paused and not job)
            )


def test_an_empty_plot_of_rounds_tells_the_next_step_of_each_state(qtbot, window, model_file):
    panel, session = window.rounds, window.session
    step = lambda: panel.empty.text().rsplit("\n", 1)[1]  # noqa: E731
    assert step() == "Open a model (Ctrl+O), then start tuning (F5)."
    told = []
    session.busy_changed.connect(lambda job: told.append((job, step())))
    with qtbot.waitSignal(session.done):
        window.open_model(model_file)
    assert ("open", "The model is being opened.") in told
    assert step() == "Start tuning (F5)."
    with qtbot.waitSignal(session.done):
        window.start_tuning()
    assert ("tune", "Tuning has begun: the first candidate is being measured.") in told
    assert not panel.empty.isVisibleTo(panel)
    idle = next(k for k, w in session.state.workloads.items() if not w.rounds)
    session.select(idle)
    panel.scope.setCurrentText(SELECTED)
    assert panel.empty.isVisibleTo(panel) and "choose “all workloads”" in step()


def test_an_empty_plot_of_rounds_tells_of_a_pause_and_of_a_file_that_is_only_read(window, state):
    window.session.state = state
    state.paused = True
    assert next_step(window.session) == "Tuning is paused: F5 continues."
    state.model, state.survey = None, "read"
    assert "only an imported one can be tuned" in next_step(window.session)


def test_a_lite_space_whose_rows_are_all_hidden_shows_them_again(qtbot, window, model_file):
    panel = window.space
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    with qtbot.waitSignal(window.session.done):
        window.start_tuning()
    panel.states.setCurrentText("timed out")
    panel.filter.setText("x0")
    assert not panel.model.rowCount() and "hides all" in panel.nothing.words.text()
    panel.nothing.button.click()
    assert panel.model.rowCount() == len(panel.model.rows) and panel.nothing.isHidden()
