"""Every opened model is run and profiled by itself, and gives way to what a user asks for."""

from __future__ import annotations

import pytest
from gui_fakes import measured_device
from gui_window import wait_job


@pytest.fixture
def eager_window(window):
    window.first_run.on = True
    return window


def test_an_opened_model_is_profiled_by_itself(qtbot, eager_window, workbench, model_file):
    workbench.device = measured_device()
    eager_window.session.read_device()
    qtbot.waitUntil(lambda: not eager_window.session.device_reader.job)
    assert eager_window.open_model(model_file)
    qtbot.waitUntil(lambda: "profile" in eager_window.session.results)
    assert workbench.profiled == [False]
    assert eager_window.session.state.node_ms
    qtbot.wait(50)
    assert len(workbench.profiled) == 1, "the device is known"


def test_an_unknown_device_is_measured_and_the_model_profiled_again(
    qtbot, eager_window, workbench, model_file
):
    qtbot.waitUntil(lambda: not eager_window.session.device_reader.job)
    assert eager_window.open_model(model_file)
    qtbot.waitUntil(lambda: len(workbench.profiled) == 2)
    assert workbench.device is not None
    qtbot.waitUntil(lambda: not eager_window.session.worker.job)
    qtbot.wait(50)
    assert len(workbench.profiled) == 2


def test_tuning_takes_the_place_of_what_nobody_asked_for(
    qtbot, eager_window, workbench, model_file
):
    workbench.hold = True
    assert eager_window.open_model(model_file)
    qtbot.waitUntil(lambda: eager_window.session.worker.job == "profile")
    assert eager_window.session.busy == "" and eager_window.actions_by_id["tune"].isEnabled()
    said = eager_window.panel("profile").nothing.words.text()
    assert "No profile yet" not in said, "it is being made"
    eager_window.actions_by_id["tune"].trigger()
    assert eager_window.session.busy == "tune"
    qtbot.waitUntil(
        lambda: bool(workbench.tuned_seconds) and eager_window.session.worker.job == "tune"
    )
    assert not eager_window.message.isVisible(), "nothing failed"
    assert "profile" not in eager_window.session.results
    workbench.release.set()
    qtbot.waitUntil(lambda: "profile" in eager_window.session.results)
    assert "tune" in eager_window.session.results, "it came after the tuning"


def test_stop_ends_it_too(qtbot, eager_window, workbench, model_file):
    workbench.hold = True
    assert eager_window.open_model(model_file)
    qtbot.waitUntil(lambda: eager_window.session.worker.job == "profile")
    qtbot.waitUntil(lambda: eager_window.actions_by_id["stop"].isEnabled())
    qtbot.waitUntil(lambda: bool(workbench.profiled))
    eager_window.actions_by_id["stop"].trigger()
    qtbot.waitUntil(lambda: not eager_window.session.worker.job)


def test_a_script_runs_what_it_says_alone(qtbot, window, workbench, model_file):
    assert not window.first_run.on
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    qtbot.wait(30)
    assert not workbench.profiled


def test_while_a_model_is_opened_nobody_is_told_to_open_one(qtbot, window, model_file):
    said = window.panel("profile").nothing.words
    assert "Open a model first" in said.text()
    assert window.open_model(model_file)
    assert said.text() == "The model is being opened."
    qtbot.waitUntil(lambda: not window.session.busy)
    assert said.text().startswith("No profile yet")
