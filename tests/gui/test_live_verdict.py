"""The verdict's bars while the model is tuned: they follow the running model."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from gui_fakes import GAIN
from gui_window import rested
from verdicts import BEGUN, FASTER

from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.verdict import live
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.live import may_follow, with_gain

UNTUNED = replace(
    FASTER, rows=FASTER.rows[:2], ratios={"ort": Interval(1.86, 1.82, 1.9)}, gain=None
)


def test_a_gain_moves_the_tuned_bar_and_the_ratio_and_widens_both_intervals():
    told = with_gain(UNTUNED, Interval(1.25, 1.2, 1.3))
    tuned, ratio = told.row("tuned"), told.ratio
    assert tuned.ms == Interval(63.8 / 1.25, 62.9 / 1.3, 64.9 / 1.2)
    assert ratio == Interval(1.86 * 1.25, 1.82 * 1.2, 1.9 * 1.3)
    assert told.row("ort") == FASTER.row("ort") and told.gain.median == 1.25
    assert tuned.shipped_bytes is None, "nothing of these kernels was shipped yet"


def test_a_verdict_that_was_tuned_goes_on_from_there():
    told = with_gain(FASTER, FASTER.gain)
    assert told.ratio.median == pytest.approx(FASTER.ratio.median)
    assert told.ratio.low < FASTER.ratio.low < FASTER.ratio.high < told.ratio.high
    assert [row.who for row in told.rows] == ["ort", "untuned", "tuned"]


def test_a_busy_machine_is_told():
    assert with_gain(UNTUNED, Interval(1.25, 1.2, 1.3), machine=0.8).busy
    assert not may_follow(BEGUN)


def test_bars_follow_the_session_and_say_how_old_they_are(
    qtbot, comparing, workbench, model_file, peer, monkeypatch
):
    window, workbench.hold = comparing, True
    rested(qtbot, window, lambda: window.open_model(model_file))
    panel = window.verdict.panel
    assert window.start_tuning(60.0)
    qtbot.waitUntil(lambda: window.verdict.live._shown is not None)
    assert panel.verdict.gain.median == pytest.approx(GAIN)
    assert panel.explanation.text().endswith("from pairs in the running model, 0:00 ago.")
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 75)
    monkeypatch.setattr(live, "time", later)
    window.verdict.live._age()
    assert "1:15 ago" in panel.explanation.text() or "1:16 ago" in panel.explanation.text()
    workbench.release.set()
    qtbot.waitUntil(lambda: window.verdict.resting and not window.session.busy)
    assert panel.verdict == FASTER, "measured again at the end"


def test_without_enough_pairs_the_bars_stay(qtbot, comparing, workbench, model_file, peer):
    window, workbench.hold = comparing, True
    workbench.script = [e for e in workbench.script if not isinstance(e, ev.ModelCompared)]
    rested(qtbot, window, lambda: window.open_model(model_file))
    assert window.start_tuning(60.0)
    qtbot.waitUntil(lambda: window.session.state.summary is not None)
    assert window.verdict.live._shown is None and window.verdict.panel.verdict == FASTER


def test_kernels_of_a_gpu_move_no_bar_of_wasm(qtbot, comparing, workbench, model_file, peer):
    window, workbench.hold = comparing, True
    rested(qtbot, window, lambda: window.open_model(model_file))
    assert window.start_tuning(60.0)
    qtbot.waitUntil(lambda: window.session.state.summary is not None)
    assert window.verdict.live._gain()[0] is not None
    window.session.state.code = "WGSL"
    assert window.verdict.live._gain() == (None, None)
