"""The verdict at the top of the window: when it is measured, what it shows and offers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gui_window import rested, wait_job
from verdicts import FASTER, REFUSED, STATES, fake_peer

from nnjit_studio.errors import PageError
from nnjit_studio.ui.verdict.bars import Bars
from nnjit_studio.ui.verdict.panel import AGAIN, COMPARE, INSTALL, LONGER, STOP, VerdictPanel
from nnjit_studio.ui.widgets.theme import DARK, LIGHT
from nnjit_studio.verdict import peers, store
from nnjit_studio.verdict.text import COLUMNS


@pytest.fixture
def panel(qtbot):
    made = VerdictPanel(LIGHT)
    qtbot.addWidget(made)
    made.resize(1250, made.height())
    return made


def test_the_columns_of_the_bars_are_explained_where_they_are_read(qtbot):
    """ "Shipped 62 KB" did not say that the weights come on top."""
    bars = Bars(LIGHT)
    qtbot.addWidget(bars)
    assert all(f"{column}: " in bars.toolTip() for column in COLUMNS[1:])
    assert "the weights come on top" in bars.toolTip()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("theme", (LIGHT, DARK))
def test_each_state_is_drawn_and_leads_on(panel, state, theme):
    panel.set_theme(theme)
    panel.show_verdict(STATES[state])
    first = {
        "no peer": INSTALL, "not told apart": LONGER, "few pairs": LONGER, "measuring": STOP,
    }  # fmt: skip
    assert panel.first.text() == first.get(state, AGAIN)
    assert panel.second.isVisibleTo(panel) == (state == "no peer")
    assert not panel.grab().isNull() and panel.headline
    assert ("ONNX Runtime Web" in panel.bars.accessibleName()) and panel.height() < 130


def test_the_narrowest_window_has_the_whole_headline_and_every_column(panel):
    panel.show()
    panel.resize(1280, panel.height())
    for verdict in (STATES["faster"], STATES["slower"], STATES["measuring"]):
        panel.show_verdict(verdict)
        panel.grab()
        assert panel.words.shown() == panel.words.text()
        assert len(panel.bars.columns()) == 4


def test_what_was_never_compared_is_not_measured_again(panel):
    panel.show_verdict(None, "Opened while another job ran.")
    assert (panel.headline, panel.first.text()) == ("Not compared yet", COMPARE)


def test_a_number_is_large_only_where_it_may_be_stated(panel):
    shown = {}
    for state, verdict in STATES.items():
        panel.show_verdict(verdict)
        shown[state] = panel.figure.text()
    assert shown == {
        "faster": "1.99x", "slower": "0.80x", "measuring": "2.0x", "no peer": "59.6 ms",
        "busy": "", "few pairs": "", "not told apart": "", "refused": "", "different": "",
        "peer alone": "119 ms",
    }  # fmt: skip


def test_the_time_of_measuring_is_in_the_tooltip(panel):
    panel.show_verdict(replace(FASTER, phase="", created="2026-11-28T12:30:00+00:00"))
    assert "Measured 2026-11-2" in panel.explanation.toolTip()
    panel.show_verdict(replace(FASTER, phase="comparing", created="2026-11-28T12:30:00+00:00"))
    assert "Measured" not in panel.explanation.toolTip()


def test_columns_that_do_not_fit_are_left_out(qtbot):
    bars = Bars(LIGHT)
    qtbot.addWidget(bars)
    bars.show_verdict(FASTER)
    for width, columns in ((1000, 4), (600, 2), (370, 0)):
        bars.resize(width, bars.height())
        assert len(bars.columns()) == columns
        assert not bars.grab().isNull()


def test_an_opened_model_is_compared_and_remembered(qtbot, comparing, model_file, peer):
    window = comparing
    rested(qtbot, window, lambda: window.open_model(model_file))
    assert window.verdict.panel.headline == "1.99x as fast as ONNX Runtime Web"
    told = window.verdict.panel.explanation.text()
    assert "\N{NO-BREAK SPACE}ms\N{NO-BREAK SPACE}[" in told, "a time is not cut from its interval"
    assert store.last_verdicts(window.session.workbench.database.path.parent) == [FASTER]
    assert not window.session.busy and "Comparing" not in window.session.state.phase


def test_after_tuning_it_is_measured_again(qtbot, comparing, workbench, model_file, peer):
    rested(qtbot, comparing, lambda: comparing.open_model(model_file))
    rested(qtbot, comparing, lambda: comparing.start_tuning(1.0))
    assert workbench.verdicts_begun == 2


def test_it_gives_way_to_any_job_and_begins_again(qtbot, comparing, workbench, model_file, peer):
    window, workbench.hold_verdict = comparing, True
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    qtbot.waitUntil(lambda: "so far" in window.verdict.panel.headline)
    assert not window.session.busy and window.actions_by_id["tune"].isEnabled()
    said: list[str] = []
    window.verdict.panel.told.connect(lambda _: said.append(window.verdict.panel.headline))
    wait_job(qtbot, window, "tune", lambda: window.start_tuning(1.0))
    assert said[0] == "1.99x as fast as ONNX Runtime Web", "what is known stays"
    workbench.hold_verdict = False
    qtbot.waitUntil(lambda: window.verdict.resting)
    assert window.verdict.panel.headline == "1.99x as fast as ONNX Runtime Web"
    assert not window.message.isVisibleTo(window), "to give way is no problem"


def test_it_can_be_stopped(qtbot, comparing, workbench, model_file, peer):
    window, workbench.hold_verdict = comparing, True
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    qtbot.waitUntil(lambda: window.verdict.panel.first.text() == STOP)
    rested(qtbot, window, window.verdict.panel.first.click)
    assert window.verdict.panel.explanation.text() == "Stopped."


def test_what_fails_is_told_in_its_place(qtbot, comparing, workbench, model_file, peer):
    workbench.job_error = PageError("The page's process ended.", "Run it again.")
    rested(qtbot, comparing, lambda: comparing.open_model(model_file))
    assert "process ended" in comparing.verdict.panel.explanation.text()
    assert not comparing.message.isVisibleTo(comparing)


def test_without_a_peer_one_button_gets_it(qtbot, comparing, model_file, monkeypatch, tmp_path):
    found: list[peers.Peer] = []
    monkeypatch.setattr(peers, "find_peer", lambda given=None: found[0] if found else None)
    monkeypatch.setattr(peers, "install", lambda: found.append(peers.Peer("1.30.0", tmp_path)))
    rested(qtbot, comparing, lambda: comparing.open_model(model_file))
    panel = comparing.verdict.panel
    assert panel.first.text() == INSTALL and "not installed" in panel.explanation.text()
    rested(qtbot, comparing, panel.first.click)
    assert panel.headline == "1.99x as fast as ONNX Runtime Web"


def test_a_folder_without_it_is_refused(qtbot, comparing, tmp_path):
    comparing.verdict.use_folder(tmp_path)
    assert "has no onnxruntime-web" in comparing.message.text.text()
    comparing.verdict.use_folder(fake_peer(tmp_path / "mine", ""))
    assert comparing.settings.value("peer_folder") == str(tmp_path / "mine")


def test_a_model_that_the_peer_refuses_says_why(panel):
    panel.show_verdict(REFUSED)
    assert "ours alone" in panel.headline and "Foo(1)" in panel.explanation.text()


def test_a_window_without_visits_compares_nothing(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    assert window.verdict.resting and not window.verdict.panel.isVisibleTo(window)
