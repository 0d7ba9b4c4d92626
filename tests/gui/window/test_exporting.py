"""A bundle of a model that leaves sizes open: for any, or for those that it is open with."""

import pytest
from gui_window import wait_job
from PySide6.QtWidgets import QFileDialog, QMessageBox, QPushButton

from nnjit_studio.errors import ModelError
from nnjit_studio.model.survey import InputPort
from nnjit_studio.ui.state.jobs import AnySizeBundle


@pytest.fixture
def asked(qtbot, window, workbench, model_file):
    """The question, of a model whose first axis is open."""
    workbench.ports = (InputPort("x", "float32", ("batch", 16)),)
    open_it = lambda: window.session.open(model_file, lambda survey: {"x": 1})  # noqa: E731
    wait_job(qtbot, window, "open", open_it)
    window.actions_by_id["export"].trigger()
    return window.findChild(QMessageBox)


def choose(window, question, words):
    (button,) = (b for b in question.buttons() if words in b.text())
    button.click()
    return window.findChild(QFileDialog)


def test_the_sizes_of_the_open_model_are_told(window, asked):
    assert window.header.details.text().startswith("batch 8  ·  ")
    assert "leaves open: batch" in asked.text()
    assert asked.defaultButton().text() == "&Any size"


def test_a_bundle_for_any_size_is_written_and_told(qtbot, window, workbench, asked, tmp_path):
    made = []

    def any_size_bundle(out, on_phase):
        made.append(out)
        out.write_bytes(b"zip")
        return AnySizeBundle(out, ("One kernel is for one size.",))

    workbench.any_size_bundle = any_size_bundle
    dialog, out = choose(window, asked, "Any size"), tmp_path / "a.zip"
    wait_job(qtbot, window, "export", lambda: dialog.fileSelected.emit(str(out)) is not False)
    assert made == [out]
    words = window.message.text.text()
    assert words.startswith("Written: a.zip") and "any size. One kernel is for one" in words
    assert "Show in folder" in {b.text() for b in window.message.findChildren(QPushButton)}


def test_the_size_at_hand_can_be_chosen(qtbot, window, asked, tmp_path):
    dialog, out = choose(window, asked, "Only batch 8"), tmp_path / "b.zip"
    wait_job(qtbot, window, "export", lambda: dialog.fileSelected.emit(str(out)) is not False)
    assert out.is_file() and "any size" not in window.message.text.text()


def test_a_model_that_is_for_one_size_says_so(qtbot, window, workbench, asked, tmp_path):
    def refuse(out, on_phase):
        raise ModelError("A part of it is for one size alone.", "Export it for one size.")

    workbench.any_size_bundle = refuse
    dialog = choose(window, asked, "Any size")
    with qtbot.waitSignal(window.session.problem):
        dialog.fileSelected.emit(str(tmp_path / "c.zip"))
    assert "Export it for one size" in window.message.text.text()


def test_nothing_is_asked_where_all_sizes_are_fixed(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    window.actions_by_id["export"].trigger()
    assert window.findChild(QMessageBox) is None and window.findChild(QFileDialog).isVisible()
