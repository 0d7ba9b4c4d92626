"""Named layouts, the list of recent models, and the settings."""

import pytest
from click.testing import CliRunner
from gui_fakes import engine_label, finish
from gui_window import StudioWindow, wait_job
from PySide6.QtCore import QSettings

from nnjit_studio.cli.main import cli
from nnjit_studio.errors import UserError
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.window import preferences
from nnjit_studio.ui.window.docks import LAYOUTS
from nnjit_studio.ui.window.features import FEATURES


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


def test_views_that_waited_are_made_one_after_the_other(qtbot, workbench, settings):
    window = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, workbench, w))
    window.docks.wait()
    window.show()

    def made():
        return {key for key, dock in window.docks.items() if dock.made is not None}

    assert window.docks["graph"].seen and made() == {"tuning"}
    assert window.space and made() == {"tuning", "space"}  # as soon as it is asked for
    window.docks.begin()
    assert made() == {"graph", "tuning", "space"}
    qtbot.waitUntil(lambda: made() == {"graph", "tuning", "space", "rounds"})


def test_what_is_behind_a_tab_is_made_when_it_is_seen(window):
    assert window.docks["profile"].widget() is None
    window.docks["profile"].raise_()
    assert window.docks["profile"].widget().widget() is window.profile
    assert window.docks["faster"].widget() is None


def test_a_dock_that_floats_from_behind_its_tab_has_its_view(window):
    dock = window.docks["database"]
    assert dock.made is None
    dock.setFloating(True)
    assert dock.made is not None and dock.made.isVisible() and dock.seen


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
