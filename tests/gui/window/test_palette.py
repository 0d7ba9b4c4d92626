"""The command palette: found by letters, done by Return, copied as a command line."""

from __future__ import annotations

import shlex

import click
import pytest
from gui_window import wait_job
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog

from nnjit_studio.cli.main import cli
from nnjit_studio.ui.commands.palette import Palette, commands, score
from nnjit_studio.ui.window.features import ACTIONS


@pytest.fixture
def palette(window):
    window.actions_by_id["palette"].trigger()
    return window.findChild(Palette)


def test_every_action_of_the_registry_is_in_it(window):
    names = {c.action.objectName() for c in commands(window.menus.bar)}
    assert {spec.id for spec in ACTIONS} <= names
    assert any(c.name == "View > Theme > Dark" for c in commands(window.menus.bar))


def test_a_theme_has_no_command_line(qtbot, window, palette):
    qtbot.keyClicks(palette.field, "theme dark")
    assert palette.current().name == "View > Theme > Dark" and palette.line() == ""
    palette._do()
    assert window.themes.choice == "dark"
    themes = {a.text(): a.isChecked() for a in window.menus._theme_actions.actions()}
    assert themes == {"&System": False, "&Light": False, "&Dark": True}


def test_letters_in_order_find_and_words_come_first():
    assert score("Tune > Start tuning", "strt") is not None
    assert score("Tune > Start tuning", "gst") is None
    assert score("Inspect > Profile", "prof") < score(
        "Inspect > Compare with ONNX Runtime Web", "pro"
    )


def test_typing_then_return_does_it(qtbot, window, palette):
    shown = window.docks["log"].isVisible()
    qtbot.keyClicks(palette.field, "view log")
    assert palette.current().name == "View > Docks > Log"
    with qtbot.waitSignal(palette.finished):
        qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert window.docks["log"].toggleViewAction().isChecked() != shown


def test_what_needs_a_model_says_so_and_does_nothing(qtbot, window, palette):
    qtbot.keyClicks(palette.field, "starttuning")
    assert palette.hint.text() == "Not now. Open a model first."
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert palette.result() != QDialog.DialogCode.Accepted
    assert not window.session.busy


def test_the_keys_of_what_needs_a_model_say_so(qtbot, window):
    qtbot.keyClick(window, Qt.Key.Key_F5)
    assert window.host.message.text.text() == "Not now. Open a model first."


def test_no_command_found(qtbot, palette):
    qtbot.keyClicks(palette.field, "zzzz")
    assert palette.current() is None
    assert "No command" in palette.hint.text()


def test_copied_as_a_command_line(qtbot, window, model_file):
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "open"):
        assert window.open_model(model_file)
    window.actions_by_id["palette"].trigger()
    palette = window.findChild(Palette)
    qtbot.keyClicks(palette.field, "tune > start")
    qtbot.keyClick(palette.field, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    line = QGuiApplication.clipboard().text()
    assert shlex.split(line) == ["nnjit", "tune", str(model_file)]


def test_arrows_stay_in_the_list(qtbot, palette):
    qtbot.keyClick(palette.field, Qt.Key.Key_Up)
    assert palette.list.currentRow() == 0
    for _ in range(9):
        qtbot.keyClick(palette.field, Qt.Key.Key_PageDown)
    assert palette.list.currentRow() == palette.list.count() - 1


def test_command_lines_name_verbs_that_exist():
    for spec in ACTIONS:
        if spec.command:
            words = shlex.split(spec.command)
            assert words[0] == "nnjit"
            verb = cli.get_command(click.Context(cli), words[1])
            assert verb is not None
            options = {o for p in verb.params for o in p.opts}
            assert all(w in options for w in words if w.startswith("-")), spec.command


def test_a_model_that_was_just_opened_is_among_the_recent_ones(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    palette = Palette(window, window.menus.bar, None)
    qtbot.addWidget(palette)
    names = [command.name for command in palette.commands]
    assert any(model_file.name in name and "Open recent" in name for name in names)
