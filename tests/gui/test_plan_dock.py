"""Rounds of the plan in the window: live, in order, and the model in the form that has won."""

from gui_window import wait_job

from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.tuning.plan import PlanRun

WAYS = ("conv=direct", "qkv=apart")


def script(state="slower", speedup=0.8):
    """Events of two rounds, the second of which is won or not."""
    yield ev.SpaceBuilt(0.0, "tiny", WAYS, ("3x3, stride 1", "three products"), 4, 0)
    yield ev.Trying(0.1, "tiny", WAYS[0], "compile")
    yield ev.Measured(0.2, "tiny", WAYS[0], "wrong", "3 x the accepted difference", 0.0, 0.0)
    yield ev.Trying(0.3, "tiny", WAYS[1], "compile")
    ends = {"speedup_low": speedup - 0.1, "speedup_high": speedup + 0.1}
    yield ev.Measured(0.4, "tiny", WAYS[1], state, "told", 9.0, 5.0, speedup=speedup, **ends)
    yield ev.PlanSettled(0.5, "tiny", WAYS[1], "converged", 2, 3, 4, max(1.0, speedup))


def tune_plan(qtbot, window):
    wait_job(
        qtbot, window, "tune_plan",
        lambda: window.actions_by_id["tune_plan"].trigger() is None,
    )  # fmt: skip


def test_rounds_are_followed_event_by_event():
    run = PlanRun()
    states = []
    for event in script():
        run = run.after(event)
        states.append([row.state for row in run.rows])
    assert states[1] == ["measuring", "not tried"]
    assert states[-1] == ["wrong", "slower"] and [row.round for row in run.rows] == [1, 2]
    assert not run.won and run.end is not None


def test_the_dock_shows_the_rounds_and_what_is_left(qtbot, window, workbench, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    workbench.tune_plan = script
    tune_plan(qtbot, window)
    panel = window.panel("plan")
    shown = [(row.way, row.state) for row in panel.model.rows]
    assert shown == [("conv=direct", "wrong"), ("qkv=apart", "slower")]
    assert panel.caption.text().startswith("Nothing is left to try: the best of 3 of 4 known ways")


def test_a_winner_opens_the_model_again_and_the_rounds_stay(qtbot, window, workbench, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    workbench.tune_plan = lambda: script("won", 1.2)
    with qtbot.waitSignal(
        window.session.done, check_params_cb=lambda job, _: job == "open"
    ):  # it follows by itself
        window.actions_by_id["tune_plan"].trigger()
    panel = window.panel("plan")
    assert [row.state for row in panel.model.rows] == ["wrong", "won"]
    assert "1.20x" in panel.caption.text()
