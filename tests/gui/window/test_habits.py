"""Dropped files, named layouts, settings, session files and crash reports."""

import json
import sys
import threading
import zipfile

import pytest
from click.testing import CliRunner
from gui_fakes import engine_label, finish, profile_of, record
from gui_window import StudioWindow
from PySide6.QtCore import QSettings
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox

from nnjit_studio.cli.main import cli
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import UserError
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.startup import crash
from nnjit_studio.ui.window import dropped_files as drops
from nnjit_studio.ui.window import preferences, session_file
from nnjit_studio.ui.window.docks import LAYOUTS
from nnjit_studio.ui.window.features import FEATURES


def wait_job(qtbot, window, job, start):
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda name, _: name == job):
        assert start()


# Dropped files


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("m.ONNX", b"", drops.MODEL),
        ("t.json", b'{"traceEvents": [{}, {}]}', drops.TRACE),
        ("r.json", b'{"format": "nnjit-records"}', drops.DATABASE),
        ("s.json", b' {"format": "nnjit-session"}', drops.SAVED_SESSION),
        ("p.json", b'{"model": "m", "steps": []}', drops.PROFILE_FILE),
        ("k.sqlite", b"SQLite format 3\0 and more", drops.DATABASE),
    ],
)
def test_files_are_recognised_by_what_they_hold(tmp_path, name, content, kind):
    path = tmp_path / name
    path.write_bytes(content)
    assert drops.recognise(path).kind == kind


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x89PNG", "Studio cannot open"),
        (b"", "Studio cannot open"),
        (b"{ no", "not valid JSON"),
        (b"[1]", "JSON of a kind"),
        (b"[" * 100_000, "not valid JSON"),
        (b"PK\x03\x04 cut off", "cut.bin"),
    ],
)
def test_other_files_are_refused_in_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "cut.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=sentence) as caught:
        drops.recognise(path)
    assert caught.value.hint


def test_a_damaged_bundle_and_a_folder_are_answered(qtbot, window, tmp_path):
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hi")
    for dropped in (path, tmp_path):
        window.message.hide()
        assert window.dropped.drop([dropped])
        qtbot.waitUntil(window.message.isVisible)
        assert dropped.name in window.message.text.text()


def test_a_dropped_database_asks_before_it_imports(qtbot, window, workbench, tmp_path):
    with KernelDatabase.open(tmp_path / "other.db") as other:
        other.add_records([record(workbench.model.workloads[0], "x", "failed", 0.0, 1)])
    workbench.database.look_into = KernelDatabase.look_into
    assert window.dropped.drop([tmp_path / "other.db"])
    qtbot.waitUntil(lambda: window.findChild(QMessageBox) is not None)
    assert "1 records of 1 workloads from other.db" in window.findChild(QMessageBox).text()


def test_a_dropped_profile_is_compared_with_the_model_that_is_open(
    qtbot, window, workbench, model_file, tmp_path
):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(profile_of(workbench.model).to_json()))
    window.dropped.drop([path])
    qtbot.waitUntil(lambda: "open its model first" in window.message.text.text())
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    window.dropped.drop([path])
    qtbot.waitUntil(lambda: window.profile.compare.before is not None)
    assert "Comparing with p.json" in window.message.text.text()


def test_a_dropped_trace_says_where_it_opens(qtbot, window, tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": []}')
    window.dropped.drop([path])
    qtbot.waitUntil(lambda: "Perfetto" in window.message.text.text())


# Layouts and settings


def test_named_layouts_and_the_way_back(window):
    for action in LAYOUTS:
        window.actions_by_id[action].trigger()
        shown = {f.key for f in FEATURES if action in f.layouts}
        assert {n for n, dock in window.docks.items() if not dock.isHidden()} == shown
    window.actions_by_id["reset_layout"].trigger()
    assert not any(dock.isHidden() for dock in window.docks.values())


def test_an_arrangement_that_a_layout_replaced_comes_back(window):
    window.docks["latency"].close()
    window.actions_by_id["layout_compare"].trigger()
    window.actions_by_id["reset_layout"].trigger()
    assert "Ctrl+Z undoes it" in window.message.text.text()
    window.actions_by_id["undo"].trigger()
    assert window.docks["faster"].isHidden() is False and window.docks["rounds"].isHidden()
    window.actions_by_id["undo"].trigger()
    assert [n for n, dock in window.docks.items() if dock.isHidden()] == ["latency"]
    window.actions_by_id["redo"].trigger()
    assert window.docks["rounds"].isHidden()


def test_the_list_of_recent_models_comes_back(window, tmp_path):
    for name in ("a.onnx", "b.onnx"):
        recent.remember(window.settings, tmp_path / name)
    window.menus.recent.aboutToShow.emit()
    window.menus.recent.actions()[-1].trigger()
    assert recent.recent(window.settings) == []
    recent.remember(window.settings, tmp_path / "c.onnx")
    window.actions_by_id["undo"].trigger()
    names = [path.name for path in recent.recent(window.settings)]
    assert names == ["c.onnx", "b.onnx", "a.onnx"]


def test_what_is_behind_a_tab_is_made_when_it_is_seen(window):
    assert window.docks["profile"].widget() is None
    window.docks["profile"].raise_()
    assert window.docks["profile"].widget() is window.profile
    assert window.docks["faster"].widget() is None


def test_settings_hold_at_once_where_they_can(qtbot, window, workbench, model_file):
    window.actions_by_id["settings"].trigger()
    dialog = window.findChild(preferences.PreferencesDialog)
    assert set(dialog.fields) == {s.key for s in preferences.SETTINGS}
    assert all(field.accessibleName() for field in dialog.fields.values())
    dialog.fields["theme"].setCurrentText("dark")
    dialog.fields["threads"].setValue(2)
    dialog.fields["budget_s"].setValue(7)
    dialog.accept()
    assert window.themes.choice == "dark"
    assert "next start on: Threads" in window.message.text.text()
    assert preferences.read(window.settings)["threads"] == 2
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "tune", window.start_tuning)
    wait_job(qtbot, window, "tune", lambda: window.start_tuning(3.0))
    assert workbench.tuned_seconds == [7.0, 3.0]
    change = {"backend": "WebGPU"}
    wait_job(qtbot, window, "backend", lambda: window.preferences.apply(change) is None)
    assert workbench.backend.is_gpu


@pytest.mark.parametrize(
    ("key", "value"),
    [("theme", "pink"), ("threads", 0), ("threads", "many"), ("budget_s", -1), ("speed", 1)],
)
def test_settings_that_cannot_be_are_refused(key, value):
    with pytest.raises(UserError):
        preferences.checked(key, value)


def test_a_broken_settings_file_means_the_defaults(tmp_path):
    path = tmp_path / "s.ini"
    path.write_text("[General]\ntheme=pink\nthreads=-4\nbudget_s=ten\n")
    found = preferences.read(QSettings(str(path), QSettings.Format.IniFormat))
    assert found == {s.key: s.default for s in preferences.SETTINGS}


def test_the_studio_starts_with_its_settings_but_flags_go_first(monkeypatch):
    asked = []

    def workbench(target, *_):
        asked.append((str(target.database), target.threads))
        raise UserError("Enough.")

    monkeypatch.setattr("nnjit_studio.cli.studio.workbench", workbench)
    monkeypatch.setattr(preferences, "stored", lambda: {"threads": 3, "database": "mine.db"})
    for words in ([], ["--threads", "1", "--database", "other.db"], ["--quit"]):
        CliRunner(env={"NNJIT_DATABASE": None}).invoke(cli, ["studio", *words])
    assert asked == [("mine.db", 3), ("other.db", 1), ("None", 1)]


# Session files


def test_a_session_comes_back_with_its_results(
    qtbot, window, workbench, model_file, tmp_path, settings
):
    out = tmp_path / "mine.json"
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "tune", window.start_tuning)
    state = window.session.state
    chosen = state.by_share()[-1].workload.key
    window.session.select(chosen)
    window.docks["log"].hide()
    window.menus.choose_theme("dark")
    assert window.session_files.save(out)
    qtbot.waitUntil(lambda: "Written" in window.message.text.text())
    latency, rounds = state.latency, [w.rounds for w in state.workloads.values()]
    finish(qtbot, workbench, window)
    settings.clear()
    again = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(again, before_close_func=lambda w: finish(qtbot, workbench, w))
    again.show()
    wait_job(qtbot, again, "open", lambda: again.session_files.open(out))
    shown = again.session.state
    assert shown.latency == latency and [w.rounds for w in shown.workloads.values()] == rounds
    assert shown.selected == chosen and shown.summary is not None
    assert again.docks["log"].isHidden() and again.themes.choice == "dark"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"format": "x"}, {"model": 3}, {"layout": "%"}, {"settings": {"theme": 1}},
        {"settings": {"colour": "red"}}, {"events": [{"event": "nothing"}]},
        {"events": [{"event": "model", "t_s": "1", "ms": 2.0}]}, {"events": [{"event": "model"}]},
        {"events": [{"event": "round", "t_s": 1.0, "evil": 1}]}, {"events": 4},
    ],
)  # fmt: skip
def test_sessions_that_are_not_whole_are_refused(tmp_path, change):
    path = tmp_path / "s.json"
    session_file.write(path, session_file.SavedSession(None, "", b"", {"theme": "dark"}, []))
    assert session_file.read(path).settings == {"theme": "dark"}
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=r"s\.json is not a session"):
        session_file.read(path)


def test_a_session_of_a_missing_model_says_so(qtbot, window, tmp_path):
    path = tmp_path / "s.json"
    gone = tmp_path / "gone.onnx"
    session_file.write(path, session_file.SavedSession(gone, "", b"", {}, []))
    window.session_files.open(path)
    qtbot.waitUntil(lambda: "gone.onnx is not there" in window.message.text.text())


# Crash reports


def test_what_nobody_caught_becomes_a_report_and_a_dialog(qtbot, window, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *args: seen.append(args[1]))
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_value))
    before = sys.excepthook, threading.excepthook

    def breaks():
        raise RuntimeError("not expected")

    with crash.reporting(window, tmp_path / "crashes") as reporter:
        thread = threading.Thread(target=breaks, name="some-thread")
        thread.start()
        thread.join()
        qtbot.waitUntil(lambda: reporter.dialog is not None)
        try:
            breaks()
        except RuntimeError as error:
            sys.excepthook(RuntimeError, error, error.__traceback__)
        assert len(seen) == 2
        reporter.dialog.copy_button.click()
        words = QGuiApplication.clipboard().text()
        assert "Thread some-thread" in words and "RuntimeError: not expected" in words
        reports = sorted((tmp_path / "crashes").iterdir())
        assert len(reports) == 2 and reports[0].read_text("utf-8") == words
    assert (sys.excepthook, threading.excepthook) == before


def test_reports_are_few_and_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    for _ in range(crash.KEPT + 3):
        crash.write_report(tmp_path, "words")
    assert len(list(tmp_path.iterdir())) == crash.KEPT
    (tmp_path / "file").write_text("")
    assert crash.write_report(tmp_path / "file", "words") is None
