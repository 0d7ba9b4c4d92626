"""A file that leaves sizes open gets a dialog; its raw graph is drawn before that."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gui_fakes import survey_of
from gui_window import wait_job
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDropEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QScrollArea

from nnjit_studio.errors import ModelError
from nnjit_studio.model.survey import InputPort
from nnjit_studio.ui.opening import progress
from nnjit_studio.ui.opening.answers import KEY
from nnjit_studio.ui.opening.dialog import sentence

PICTURE = (InputPort("x", "float32", ("N", 3, "x.2", "x.3"), ("Conv",), 3, 2),)
VOICE = (
    InputPort("input", "float32", ("batch", "sequence"), ("Conv",), 1, 1),
    InputPort("sr", "int64", ()),
)


def asked(qtbot, window, path):
    """The dialog that opening a file brings up."""
    with qtbot.waitSignal(window.session.asked):
        assert window.open_model(path)
    return window.opener.dialog


def key(dialog, which):
    QTest.keyClick(dialog, which)


@pytest.fixture
def picture(workbench):
    workbench.ports = PICTURE


@pytest.fixture
def voice(workbench):
    workbench.ports = VOICE


def test_a_model_with_open_axes_is_asked_for_and_opens_by_enter(
    qtbot, window, workbench, picture, model_file
):
    dialog, no_focus = asked(qtbot, window, model_file), Qt.FocusPolicy.NoFocus
    assert dialog.isVisible() and not workbench.fed
    empty = [w for w in dialog.findChildren(QScrollArea) if w.focusPolicy() != no_focus]
    assert not empty, "Tab stops at fields alone"
    assert {n: f.text() for n, f in dialog.sizes.items()} == {"N": "1", "x.2": "224", "x.3": "224"}
    dialog.sizes["x.3"].setFocus()
    dialog.sizes["x.3"].selectAll()
    QTest.keyClicks(dialog.sizes["x.3"], "320")
    with qtbot.waitSignal(window.session.done):
        key(dialog, Qt.Key.Key_Return)
    assert workbench.fed[0]["x"].shape == (1, 3, 224, 320)
    assert window.session.state.model.path == model_file


def test_a_fixed_model_opens_without_questions(qtbot, window, workbench, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    assert window.opener.dialog is None and workbench.fed == [None]


def test_escape_opens_nothing_and_shows_what_was_open(
    qtbot, window, workbench, picture, model_file
):
    dialog = asked(qtbot, window, model_file)
    qtbot.waitUntil(lambda: bool(window.graph.view.boxes))
    key(dialog, Qt.Key.Key_Escape)
    assert not workbench.fed and not window.session.busy
    assert window.welcome.page.isVisible()
    qtbot.waitUntil(lambda: not window.graph.view.boxes)


def test_the_raw_graph_is_drawn_before_the_sizes_are_known(qtbot, window, picture, model_file):
    dialog = asked(qtbot, window, model_file)
    qtbot.waitUntil(lambda: bool(window.graph.view.boxes))
    assert {b.unit.nodes[0].op[:3] for b in window.graph.view.boxes.values() if b.unit.nodes} == {
        "raw"
    }
    dialog.looked.emit()
    qtbot.wait(20)
    assert window.graph.view.boxes


def test_a_wrong_number_is_told_at_its_field_and_keeps_the_dialog(
    qtbot, window, workbench, picture, model_file
):
    dialog = asked(qtbot, window, model_file)
    field = dialog.sizes["x.2"]
    field.selectAll()
    QTest.keyClicks(field, "0")
    assert "must be a whole number from 16 to 4,096" in field.note.text()
    dialog.open_button.setFocus()
    key(dialog, Qt.Key.Key_Return)
    assert dialog.isVisible() and not workbench.fed
    assert dialog.focusWidget() is field
    assert dialog.problem.isVisible() and "--" not in dialog.problem.text()


def test_a_number_that_chooses_is_held_constant(qtbot, window, workbench, voice, model_file):
    dialog = asked(qtbot, window, model_file)
    assert dialog.constants["sr"].text() == "16000"
    with qtbot.waitSignal(window.session.done):
        key(dialog, Qt.Key.Key_Return)
    fed = workbench.fed[0]
    assert fed["sr"] == np.int64(16000) and fed["sr"].dtype == np.int64
    assert fed["input"].shape == (1, 512)


def test_answers_are_remembered_by_the_files_content(
    qtbot, window, workbench, voice, model_file, settings
):
    dialog = asked(qtbot, window, model_file)
    dialog.constants["sr"].show_number(8000)
    with qtbot.waitSignal(window.session.done):
        key(dialog, Qt.Key.Key_Return)
    again = asked(qtbot, window, model_file)
    assert again.constants["sr"].text() == "8000"
    assert again.open_button.hasFocus()
    again.reject()
    wait_job(qtbot, window, "open", lambda: window.opener.reopen(model_file))
    assert workbench.fed[-1]["sr"] == 8000
    settings.setValue(
        KEY, json.dumps({survey_of(model_file, window.session.state.model.graph).sha256: 3})
    )
    assert asked(qtbot, window, model_file).constants["sr"].text() == "16000"


def test_a_picture_is_resized_and_scaled(qtbot, window, workbench, picture, model_file, tmp_path):
    image = QImage(40, 20, QImage.Format.Format_RGB888)
    image.fill(Qt.GlobalColor.red)
    path = tmp_path / "red.png"
    assert image.save(str(path))
    dialog = asked(qtbot, window, model_file)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    dialog.dropEvent(
        QDropEvent(
            QPoint(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
    )  # fmt: skip
    with qtbot.waitSignal(window.session.done):
        key(dialog, Qt.Key.Key_Return)
    x = workbench.fed[0]["x"]
    assert x.shape == (1, 3, 224, 224) and x.dtype == np.float32
    np.testing.assert_allclose(x[0, :, 100, 100], [1, 0, 0], atol=0.02)


def test_arrays_settle_the_sizes(qtbot, window, workbench, picture, model_file, tmp_path):
    path = tmp_path / "in.npz"
    np.savez(path, x=np.ones((2, 3, 64, 96), np.float32))
    dialog = asked(qtbot, window, model_file)
    assert dialog.source.take_file(path)
    assert dialog.sizes["x.3"].text() == "96"
    with qtbot.waitSignal(window.session.done):
        key(dialog, Qt.Key.Key_Return)
    assert workbench.fed[0]["x"].shape == (2, 3, 64, 96)


def test_arrays_that_do_not_fit_are_told_in_the_dialog(
    qtbot, window, workbench, picture, model_file, tmp_path
):
    path = tmp_path / "in.npz"
    np.savez(path, x=np.ones((2, 4, 64, 96), np.float32))
    dialog = asked(qtbot, window, model_file)
    dialog.source.take_file(path)
    dialog.open_button.setFocus()
    key(dialog, Qt.Key.Key_Return)
    assert dialog.isVisible() and not workbench.fed
    assert "the model wants [any, 3, any, any]" in dialog.problem.text()


def test_a_file_that_is_no_model_is_told_without_a_dialog(qtbot, window, workbench, model_file):
    workbench.survey_error = ModelError("'tiny.onnx' is not an ONNX model.", "Export it again.")
    with qtbot.waitSignal(window.session.problem):
        assert window.open_model(model_file)
    assert "is not an ONNX model" in window.message.text.text()
    assert window.opener.dialog is None


def test_progress_tells_seconds_and_can_be_cancelled(qtbot, window, workbench, model_file):
    workbench.holds_import = True
    assert window.open_model(model_file)
    progress = window.opener.progress
    qtbot.waitUntil(lambda: "of about" in progress.label.text())
    assert "Opening tiny.onnx (0 of about" in progress.label.text() and progress.isVisible()
    with qtbot.waitSignal(window.session.problem):
        progress.cancel_button.click()
    assert not progress.isVisible()
    workbench.holds_import = False
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))


def test_a_file_that_is_read_slowly_tells_seconds_and_what_comes(
    qtbot, window, workbench, model_file, monkeypatch
):
    monkeypatch.setattr(progress, "LATE_S", 0.3)
    workbench.hold = True
    read = workbench.survey

    def slow(path):
        workbench.release.wait()
        return read(path)

    monkeypatch.setattr(workbench, "survey", slow)
    assert window.open_model(model_file)
    bar = window.opener.progress
    assert bar.isVisible() and bar.label.text() == "Reading tiny.onnx (0 s)"
    qtbot.waitUntil(lambda: bar.label.text().endswith(progress.NEXT))
    assert bar.cancel_button.isEnabled() and "Reading" in window.graph.empty.text()
    workbench.release.set()
    qtbot.waitUntil(lambda: window.session.state.model is not None)


def test_the_words_fit_what_the_model_takes(qtbot, window, workbench, model_file):
    """A line of text with its width is a picture, and sound has a length."""
    workbench.ports = (*PICTURE, InputPort("widths", "int64", ("N",)))
    dialog = asked(qtbot, window, model_file)
    assert not any("tokenizer" in label.text() for label in dialog.findChildren(QLabel))
    key(dialog, Qt.Key.Key_Escape)
    workbench.ports = VOICE
    assert "sound of any length." in sentence(workbench.survey(model_file))
