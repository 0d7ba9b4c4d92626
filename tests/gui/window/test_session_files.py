"""Sessions as files."""

import json

import pytest
from gui_fakes import engine_label, finish
from gui_window import StudioWindow, wait_job

from nnjit_studio.errors import UserError
from nnjit_studio.ui.window import session_file


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
    qtbot.waitUntil(lambda: "There is no gone.onnx in " in window.message.text.text())
