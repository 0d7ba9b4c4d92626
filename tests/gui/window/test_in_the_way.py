"""No key is dead while a job runs, and no grey entry is without a reason."""

from __future__ import annotations

import pytest
from gui_window import wait_job
from PySide6.QtWidgets import QFileDialog

from nnjit_studio.tuner.events import RoundDone


def step(window):
    """The first button of the message bar that is not on its way out."""
    return window.message.steps.itemAt(0).widget()


@pytest.fixture
def tuning(qtbot, window, workbench, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    workbench.rests = True
    assert window.start_tuning()
    events = window.session.events
    qtbot.waitUntil(lambda: any(isinstance(event, RoundDone) for event in events))
    return window


def test_open_while_tuning_offers_to_pause_and_open(qtbot, tuning):
    tuning.actions_by_id["open"].trigger()
    bar = tuning.message
    assert bar.isVisible() and bar.text.text() == "Tuning is running."
    assert step(tuning).text() == "Pause and open model"
    with qtbot.waitSignal(tuning.session.done):
        step(tuning).click()
    qtbot.waitUntil(lambda: bool(tuning.findChildren(QFileDialog)))
    assert tuning.session.paused
    tuning.findChildren(QFileDialog)[0].reject()


def test_the_offer_is_withdrawn_when_nothing_is_in_the_way_any_more(qtbot, tuning):
    tuning.actions_by_id["export"].trigger()
    assert tuning.message.isVisible()
    with qtbot.waitSignal(tuning.session.done):
        tuning.session.cancel()
    assert tuning.message.isHidden()


def test_every_command_says_what_is_in_its_way(tuning):
    for name in ("profile", "diff", "faster", "export", "device"):
        tuning.message.say("before")
        action = tuning.actions_by_id[name]
        assert action.isEnabled(), name
        action.trigger()
        assert tuning.message.isVisible(), name
        assert tuning.message.text.text() == "Tuning is running.", name
        assert step(tuning).text().startswith("Pause and "), name


def test_another_job_is_stopped_and_the_command_follows(qtbot, window, workbench, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    workbench.hold = True
    window.actions_by_id["diff"].trigger()
    qtbot.waitUntil(lambda: bool(workbench.compared))
    window.actions_by_id["profile"].trigger()
    assert step(window).text() == "Stop and profile"
    step(window).click()
    qtbot.waitUntil(lambda: bool(workbench.profiled))
    workbench.release.set()
    qtbot.waitUntil(lambda: "profile" in window.session.results)


def test_a_model_dropped_while_another_is_imported_can_take_its_place(
    qtbot, window, workbench, model_file, tmp_path
):
    other = tmp_path / "other.onnx"
    other.write_bytes(b"x")
    workbench.holds_import = True
    assert window.open_model(model_file)
    qtbot.waitUntil(lambda: bool(workbench.fed))
    assert not window.dropped.drop([other])
    assert window.message.text.text() == "A model is being opened."
    assert step(window).text() == "Stop and open other.onnx"
    step(window).click()
    qtbot.waitUntil(lambda: len(workbench.fed) == 2)
    workbench.holds_import = False
    qtbot.waitUntil(lambda: window.session.state.model is not None)
    assert window.session.state.model.path == other


def test_what_is_grey_has_the_reason_in_its_tip(window):
    for action in window.actions_by_id.values():
        if not action.isEnabled():
            assert action.toolTip().splitlines()[-1] in (
                "Open a model first.", "Nothing is being tuned.", "Nothing is running.",
                "There is nothing to undo.", "There is nothing to redo.",
            ), action.text()  # fmt: skip
    assert not window.actions_by_id["profile"].isEnabled()
