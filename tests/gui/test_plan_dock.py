"""Rounds of the plan in the window: live, in order, and the model in the form that has won."""

from gui_window import wait_job

from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.plan import PLAN, PlanProgress

MODEL = "plan:tiny#0123"
WAYS = ("conv=direct", "qkv=apart")


def script(state="slower", speedup=0.8):
    """Events of two rounds, the second of which is won or not."""
    yield ev.SpaceBuilt(0.0, MODEL, WAYS, ("3x3, stride 1", "three products"), 4, 0)
    yield ev.Trying(0.1, MODEL, WAYS[0], "compile")
    yield ev.Measured(0.2, MODEL, WAYS[0], "wrong", "3 x the accepted difference", 0.0, 0.0)
    yield ev.RoundDone(0.2, MODEL, 1, WAYS[0], 0.0, 8.0, "rule", 1)
    yield ev.Trying(0.3, MODEL, WAYS[1], "compile")
    ends = {"speedup_low": speedup - 0.1, "speedup_high": speedup + 0.1}
    yield ev.Measured(0.4, MODEL, WAYS[1], state, "told", 9.0, 5.0, speedup=speedup, **ends)
    if state == "won":
        yield ev.Swapped(0.4, MODEL, WAYS[1], 8.0, 9.0)
    yield ev.RoundDone(0.4, MODEL, 2, WAYS[1], 9.0, 9.0 if state == "won" else 8.0, "rule", 0)
    yield ev.PlanSettled(0.5, MODEL, WAYS[1], "converged", 2, 3, 4, max(1.0, speedup))


def tune_plan(qtbot, window):
    wait_job(
        qtbot, window, "tune_plan",
        lambda: window.actions_by_id["tune_plan"].trigger() is None,
    )  # fmt: skip


def opened(qtbot, window, workbench, model_file, script):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    workbench.tune_plan = lambda seconds: script()


def test_rounds_are_followed_event_by_event():
    plan, states = PlanProgress(), []
    for event in script():
        plan.take(event)
        states.append([row.state for row in plan.rows()])
    assert states[1] == ["measuring", "not tried"]
    assert states[-1] == ["wrong", "slower"] and [row.round for row in plan.rows()] == [1, 2]
    assert not plan.incumbent and plan.end is not None


def test_after_a_winner_other_ways_are_one_choice_away():
    plan = PlanProgress()
    for event in script("won", 1.2):
        plan.take(event)
    plan.take(ev.SpaceBuilt(0.6, MODEL, ("qkv=apart,fuse=no",), ("epilogues apart",), 4, 0))
    states = [(row.settings, row.state) for row in plan.rows()]
    assert states == [
        (WAYS[0], "wrong"), (WAYS[1], "incumbent"), ("qkv=apart,fuse=no", "not tried"),
    ]  # fmt: skip


def test_the_dock_shows_the_rounds_and_what_is_left(qtbot, window, workbench, model_file):
    opened(qtbot, window, workbench, model_file, script)
    tune_plan(qtbot, window)
    panel = window.panel("plan")
    shown = [(row.settings, row.state) for row in panel.model.rows]
    assert shown == [("conv=direct", "wrong"), ("qkv=apart", "slower")]
    assert panel.caption.text().startswith("Nothing is left to try: the best of 3 of 4 known ways")


def test_a_winner_opens_the_model_again_and_the_rounds_stay(qtbot, window, workbench, model_file):
    opened(qtbot, window, workbench, model_file, lambda: script("won", 1.2))
    with qtbot.waitSignal(
        window.session.done, check_params_cb=lambda job, _: job == "open"
    ):  # it follows by itself
        window.actions_by_id["tune_plan"].trigger()
    panel = window.panel("plan")
    assert [row.state for row in panel.model.rows] == ["wrong", "incumbent"]
    assert "1.20x" in panel.caption.text()


def test_the_rounds_are_in_the_plot_and_in_the_table_of_spaces(
    qtbot, window, workbench, model_file
):
    opened(qtbot, window, workbench, model_file, script)
    tune_plan(qtbot, window)
    window.docks.show("space")
    plot, space = window.panel("rounds"), window.panel("space")
    assert [row[:3] for row in plot.table()[1]] == [(PLAN, 1, 0.2), (PLAN, 2, 0.4)]
    assert PLAN in plot.items, "its dots are drawn"
    selected = window.session.state.selected
    space.chooser.setCurrentIndex(space.chooser.findData(PLAN))
    space.chooser.activated.emit(space.chooser.currentIndex())
    rows = [(row.settings, row.state) for row in space.model.rows]
    assert rows == [("conv=direct", "wrong"), ("qkv=apart", "slower")]
    assert "2 ways one choice away, of 4 in all" in space.summary.text()
    assert not space.mine.isEnabled() and window.session.state.selected == selected
    window.session.select_next(1)
    assert space.chooser.currentData() == window.session.state.selected != PLAN


def test_another_model_has_no_rounds_of_the_plan(qtbot, window, workbench, model_file, tmp_path):
    opened(qtbot, window, workbench, model_file, script)
    tune_plan(qtbot, window)
    other = tmp_path / "other.onnx"
    other.write_bytes(b"")
    wait_job(qtbot, window, "open", lambda: window.open_model(other))
    assert window.session.state.plan is None and not window.panel("plan").model.rows
    assert window.panel("space").chooser.findData(PLAN) == -1


def test_rounds_of_the_plan_keep_to_the_tuning_budget(qtbot, window, workbench, model_file):
    given = []
    opened(qtbot, window, workbench, model_file, script)
    workbench.tune_plan = lambda seconds: (given.append(seconds), script())[1]
    window.settings.setValue("budget_s", 30.0)
    window.tuner.show_budget()
    tune_plan(qtbot, window)
    assert given == [30.0]
