"""Menus, message bars and the welcome page: nothing dead, and every message with its next step."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from gui_window import wait_job
from PySide6.QtWidgets import QFileDialog, QLabel, QPushButton

from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.errors import ModelError
from nnjit_studio.ui.commands.actions import ICONS
from nnjit_studio.ui.commands.documentation import Documentation, pages
from nnjit_studio.ui.files import recent, trial, unfinished_session
from nnjit_studio.ui.state.jobs import export_bundle
from nnjit_studio.ui.widgets.icons import paths
from nnjit_studio.ui.window.features import ACTIONS


def buttons(message):
    return {b.text(): b for b in message.findChildren(QPushButton) if b.isVisibleTo(message)}


def test_undo_and_redo_are_grey_while_there_is_nothing(window):
    undo, redo = window.actions_by_id["undo"], window.actions_by_id["redo"]
    assert not undo.isEnabled() and not redo.isEnabled()
    window.actions_by_id["layout_compare"].trigger()
    assert undo.isEnabled() and not redo.isEnabled()
    undo.trigger()
    assert not undo.isEnabled() and redo.isEnabled()


def test_the_page_is_told_that_it_is_a_tile(window):
    """It took any page of 300 px for one."""
    assert window.page.view.text().endswith("&tile")


def test_menus_are_in_groups_and_settings_stand_alone(window):
    for menu in ("&File", "&Edit", "&Tune", "&Inspect", "&View", "&Help"):
        assert any(action.isSeparator() for action in window.menus._menus[menu].actions()), menu
    edit = window.menus._menus["&Edit"].actions()
    settings = edit.index(window.actions_by_id["settings"])
    assert edit[settings - 1].isSeparator() and settings == len(edit) - 1
    assert not window.actions_by_id["open"].icon().isNull()
    assert set(ICONS) <= {action.id for action in ACTIONS} and set(ICONS.values()) <= set(paths())


def test_two_comparisons_with_onnx_runtime_are_told_apart_by_name(window):
    """*Compare with ONNX Runtime Web* was of speed, *Compare with ONNX Runtime* of numbers."""
    names = {key: action.text().replace("&", "") for key, action in window.actions_by_id.items()}
    assert names["diff"] == window.docks["diff"].windowTitle() == "Numerical diff"
    assert names["diff_node"].startswith("Numerical diff of this tensor")
    assert [n for n in names.values() if n.startswith("Compare with ONNX")] == [names["compare"]]


def test_the_documentation_is_in_the_window(window):
    window.actions_by_id["documentation"].trigger()
    dialog = window.findChild(Documentation)
    assert [page.stem for page in pages()][:2] == ["tour", "window"]
    dialog.list.setCurrentRow(1)
    assert "How to read each view" in dialog.text.toPlainText()
    dialog.close()


def test_a_file_that_is_no_model_leads_to_another_one(qtbot, window, workbench, model_file):
    """*Copy details* was its only button."""
    workbench.survey_error = ModelError("'tiny.onnx' is not an ONNX model.", "Export it again.")
    with qtbot.waitSignal(window.session.problem):
        assert window.open_model(model_file)
    buttons(window.message)["Open the documentation"].click()
    assert window.findChild(Documentation).isVisible()
    window.findChild(Documentation).close()
    window.dropped.drop([model_file.with_name("gone.onnx")])
    buttons(window.message)["Open another file"].click()
    assert window.findChild(QFileDialog).isVisible()


def test_a_report_needs_a_session_that_has_ended(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "profile", lambda: window.actions_by_id["profile"].trigger() is None)
    assert not window.actions_by_id["report"].isEnabled()
    wait_job(qtbot, window, "tune", window.start_tuning)
    assert window.actions_by_id["report"].isEnabled()


def test_an_export_goes_to_the_last_folder_and_not_to_the_model(
    qtbot, window, model_file, tmp_path, monkeypatch
):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    documents = tmp_path / "documents"
    documents.mkdir()
    monkeypatch.setattr(
        "PySide6.QtCore.QStandardPaths.writableLocation", lambda where: str(documents)
    )
    window.actions_by_id["export"].trigger()
    dialog = window.findChild(QFileDialog)
    assert Path(dialog.directory().absolutePath()) == documents
    (tmp_path / "elsewhere").mkdir()
    dialog.fileSelected.emit(str(tmp_path / "elsewhere" / "a.zip"))
    dialog.close()
    assert window.host.saver.save_folder == tmp_path / "elsewhere"


def test_after_an_export_the_bar_has_its_size_and_what_to_do_with_it(
    qtbot, window, model_file, tmp_path, monkeypatch
):
    found = (
        Browser("chromium", "chromium", Path("/c")),
        Browser("edge", "chromium", Path("/e")),
        Browser("firefox", "firefox", Path("/f")),
    )
    monkeypatch.setattr(trial, "find_all", lambda: found)
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    out = tmp_path / "tiny.zip"
    wait_job(qtbot, window, "export", lambda: window.session.run(export_bundle(out)) is not False)
    words = window.message.text.text()
    assert words.startswith("Written: tiny.zip, ") and words.endswith(" B.")
    assert {"Try in Chromium", "Try in Firefox", "Show in folder"} <= set(buttons(window.message))
    assert "Try in Edge" not in buttons(window.message)


def test_a_bundle_is_served_to_the_browser_that_tries_it(qtbot, window, tmp_path, monkeypatch):
    opened = []

    class Launched:
        def __init__(self, browser, url, no_sandbox, extras):
            opened.append((browser.name, url, extras.headless))

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            opened.append("ended")

    monkeypatch.setattr(trial, "launch", Launched)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as bundle:
        bundle.writestr("index.html", "<p>tried")
    window.exporting.trials.open(tmp_path / "b.zip", Browser("firefox", "firefox", Path("/f")))
    qtbot.waitUntil(lambda: bool(opened))
    name, url, headless = opened[0]
    assert name == "firefox" and url.endswith("/bundle/index.html") and not headless
    qtbot.waitUntil(lambda: not window.exporting.trials._worker.job)
    window.exporting.trials.close()
    assert opened[-1] == "ended"


def test_unfinished_tuning_has_a_button_that_resumes_it(
    qtbot, settings, workbench, model_file, request
):
    unfinished_session.note(settings, model_file)
    window = request.getfixturevalue("window")
    shown = buttons(window.message)
    assert "Ctrl" not in window.message.text.text() and {"Resume", "Forget"} <= set(shown)
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "tune"):
        shown["Resume"].click()
    assert not window.message.isVisible()


@pytest.mark.parametrize("day", ["today"])
def test_recent_models_have_folder_and_date(window, model_file, day):
    recent.remember(window.settings, model_file)
    window.welcome.show()
    row = [label.text() for label in window.welcome.page.findChildren(QLabel)]
    assert day in row and any(text.endswith(model_file.parent.name) for text in row)
    button = next(
        b for b in window.welcome.page.findChildren(QPushButton) if b.text() == model_file.name
    )
    assert button.x() <= window.welcome.page.recent_heading.x() + 4
