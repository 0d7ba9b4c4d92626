"""The editor of inputs: values of one's own, taken by what is measured next."""

import numpy as np
import pytest
from gui_window import wait_job

from nnjit_studio.model import TensorSpec
from nnjit_studio.ui.opening.editor import InputEditor
from nnjit_studio.ui.opening.feeding import ARRAY, KEEP, NUMBER, PICTURE, RANDOM, Feeding
from nnjit_studio.workbench.inputs.edited import port_of


@pytest.fixture
def editor(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    window.session.workbench.model.feeds["x"] = np.zeros((8, 16), np.float32)
    window.actions_by_id["feed"].trigger()
    assert isinstance(window.inputs.dialog, InputEditor)
    return window.inputs.dialog


def fed(window):
    return window.session.workbench.model.feeds["x"]


def test_random_numbers_of_another_seed_are_taken(qtbot, window, editor):
    row = editor.rows["x"]
    assert row.source.currentText() == KEEP and row.offered == [KEEP, RANDOM, NUMBER, ARRAY]
    row.source.setCurrentText(RANDOM)
    row.seed.show_number(7)
    wait_job(qtbot, window, "feed", lambda: editor.use_button.click() is None)
    assert fed(window).std() > 0.3


def test_an_array_of_a_file_is_taken_and_a_wrong_one_is_told(qtbot, window, editor, tmp_path):
    np.save(tmp_path / "wrong.npy", np.zeros((2, 2), np.float32))
    np.savez(tmp_path / "right.npz", x=np.full((8, 16), 3.0, np.float32))
    row = editor.rows["x"]
    assert row.take_file(tmp_path / "wrong.npy") and row.chosen == ARRAY
    editor.use_button.click()
    assert "is [2, 2], the model is open with [8, 16]" in editor.problem.text()
    assert not window.session.busy
    row.take_file(tmp_path / "right.npz")
    wait_job(qtbot, window, "feed", lambda: editor.use_button.click() is None)
    assert fed(window).max() == 3.0


def test_a_model_is_profiled_and_compared_again_with_new_inputs(qtbot, window, editor):
    window.first_run.on = True
    editor.rows["x"].source.setCurrentText(NUMBER)
    wait_job(qtbot, window, "profile", lambda: editor.use_button.click() is None)
    assert fed(window).min() == 1.0


def test_a_picture_is_offered_where_an_input_takes_one(qtbot, tmp_path):
    from PySide6.QtGui import QImage

    row = Feeding(port_of(TensorSpec("image", (1, 3, 8, 8), "f32")), tmp_path / "m.onnx", None)
    qtbot.addWidget(row.values)
    image = QImage(4, 4, QImage.Format.Format_RGB888)
    image.fill(0xFFFFFFFF)
    image.save(str(tmp_path / "white.png"))
    assert row.take_file(tmp_path / "white.png") and row.chosen == PICTURE
    assert row.array({}, "stretch", "-1 to 1").min() == pytest.approx(1.0)
