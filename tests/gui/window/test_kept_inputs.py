"""Inputs that were edited are there when the file is opened next, until they are forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from gui_window import wait_job

from nnjit_studio.model.survey import InputPort
from nnjit_studio.ui.opening import kept_inputs
from nnjit_studio.ui.opening.feeding import NUMBER
from nnjit_studio.ui.window.opening import KEPT

STATIC = (InputPort("x", "float32", (8, 16)),)
OPEN = (InputPort("x", "float32", ("rows", 16)),)


def open_it(qtbot, window, path):
    wait_job(qtbot, window, "open", lambda: window.open_model(path))


@pytest.fixture
def fed(qtbot, window, workbench, model_file):
    """A model whose input was set to ones."""
    workbench.ports = STATIC
    open_it(qtbot, window, model_file)
    workbench.model.feeds["x"] = np.zeros((8, 16), np.float32)
    edit(qtbot, window)
    return window


def edit(qtbot, window):
    window.actions_by_id["feed"].trigger()
    editor = window.inputs.dialog
    editor.rows["x"].source.setCurrentText(NUMBER)
    wait_job(qtbot, window, "feed", lambda: editor.use_button.click() is None)


def test_they_are_there_again_and_can_be_forgotten(qtbot, fed, workbench, model_file):
    open_it(qtbot, fed, model_file)
    assert workbench.fed[-1]["x"].shape == (8, 16) and (workbench.fed[-1]["x"] == 1).all()
    assert fed.message.isVisible() and fed.message.text.text() == KEPT
    buttons = [fed.message.steps.itemAt(i).widget() for i in range(fed.message.steps.count())]
    next(b for b in buttons if b.text() == "Forget them").click()
    open_it(qtbot, fed, model_file)
    assert not workbench.fed[-1] and not fed.message.isVisible()


def test_another_file_has_none_of_them(qtbot, fed, workbench, model_file):
    other = model_file.with_name("other.onnx")
    other.write_bytes(model_file.read_bytes())
    open_it(qtbot, fed, other)
    assert not workbench.fed[-1]


def test_the_editor_forgets_them_too(qtbot, fed):
    fed.actions_by_id["feed"].trigger()
    button = fed.inputs.dialog.forget_button
    assert not button.isHidden()
    button.click()
    assert button.isHidden() and not kept_inputs.is_kept(fed.session.state.survey.sha256)


def test_other_sizes_draw_numbers(qtbot, window, workbench, model_file):
    workbench.ports = OPEN
    kept_inputs.keep(survey_sha(qtbot, window, model_file), {"x": np.ones((64, 16), np.float32)})
    for rows, ones in ((64, True), (32, False)):
        with qtbot.waitSignal(window.session.asked):
            assert window.open_model(model_file)
        dialog = window.opener.dialog
        dialog.sizes["rows"].show_number(rows)
        wait_job(qtbot, window, "open", lambda dialog=dialog: dialog.open_button.click() is None)
        assert bool((workbench.fed[-1]["x"] == 1).all()) == ones
        assert workbench.fed[-1]["x"].shape == (rows, 16)


def survey_sha(qtbot, window, path):
    with qtbot.waitSignal(window.session.asked):
        assert window.open_model(path)
    window.opener.dialog.reject()
    return window.session.state.survey.sha256


def test_large_inputs_are_not_kept_and_that_is_said(qtbot, fed, monkeypatch):
    monkeypatch.setattr(kept_inputs, "MOST_BYTES", 100)
    edit(qtbot, fed)
    assert "are not kept" in fed.message.text.text()
    assert not kept_inputs.is_kept(fed.session.state.survey.sha256)


def test_the_oldest_make_room(monkeypatch):
    monkeypatch.setattr(kept_inputs, "MOST_FILES", 2)
    for name in ("a", "b", "c"):
        assert kept_inputs.keep(name, {"x": np.ones(3)}) == ""
    assert len(list(kept_inputs.folder().glob("*.npz"))) == 2 and kept_inputs.is_kept("c")


def test_what_cannot_be_read_is_not_taken(qtbot, fed, workbench, model_file):
    next(kept_inputs.folder().glob("*.npz")).write_bytes(b"no arrays")
    open_it(qtbot, fed, model_file)
    assert not workbench.fed[-1]


def test_inputs_are_taken_back_and_what_was_kept_with_them(qtbot, fed, workbench, model_file):
    undo, redo = (fed.actions_by_id[key] for key in ("undo", "redo"))
    assert fed.message.text.text() == "Took other inputs. Ctrl+Z undoes it."
    assert fed.message.passing.isActive(), "what confirms goes by itself"
    wait_job(qtbot, fed, "feed", lambda: undo.trigger() is None)
    assert (workbench.model.feeds["x"] == 0).all() and not undo.isEnabled()
    open_it(qtbot, fed, model_file)
    assert not workbench.fed[-1] and not redo.isEnabled()


def test_a_job_is_named_that_keeps_inputs_from_being_taken_back(qtbot, fed, workbench):
    undo = fed.actions_by_id["undo"]
    with qtbot.waitSignal(fed.session.busy_changed):
        fed.start_tuning()
    undo.trigger()
    assert fed.message.text.text() == "Tuning is running." and undo.isEnabled()
