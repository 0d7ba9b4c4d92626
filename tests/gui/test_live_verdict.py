"""The verdict's bars while the model is tuned: they follow the running model."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from gui_fakes import GAIN
from gui_window import rested
from verdicts import BEGUN, BUSY, FASTER, FEW

from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.verdict import live
from nnjit_studio.ui.verdict.panel import STOP
from nnjit_studio.verdict import store
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.live import may_follow, so_far, with_gain
from nnjit_studio.verdict.result import Row

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


OPENED = replace(
    FASTER,
    rows=(Row("ort", Interval(20, 18, 27)), Row("untuned", Interval(8.2, 7.4, 9.7))),
    ratios={"ort": Interval(2.5, 1.97, 3.38)},
    gain=None,
    rate=0.81,
)
"""As a stranger measured a model untuned, on a busy machine."""
NOISE = Interval(1.01, 0.36, 3.1)


def test_an_answer_is_not_lost_to_a_gain_that_is_none():
    """2.5x [1.97..3.38] became "Not told apart": [0.72..10.56]."""
    chained = with_gain(OPENED, NOISE, 0.8)
    assert chained.state == "not told apart"
    told = so_far(OPENED, NOISE, 0.8)
    assert told.state == "faster" and told.ratio == OPENED.ratio
    assert told.row("tuned") == chained.row("tuned") and told.rate == 0.8
    said = live.words(told, OPENED, "0:05")
    assert said == (
        "8.2 ms [7.4..9.7], ratio [1.97..3.38], rough. "
        "Tuning since: gain [0.36..3.10] not told apart, 0:05 ago."
    )


def test_an_answer_is_not_lost_to_a_machine_that_is_too_busy_now():
    """It became "About 8.9 ms"."""
    gain = Interval(1.25, 1.2, 1.3)
    assert with_gain(OPENED, gain, 0.3).state == "busy"
    told = so_far(OPENED, gain, 0.3)
    assert told == OPENED and "too busy" in live.words(told, OPENED, "0:05")


def test_a_gain_that_is_proven_moves_the_answer():
    for measured in (OPENED, UNTUNED, replace(UNTUNED, ratios={})):
        assert so_far(measured, Interval(1.25, 1.2, 1.3), 0.9) == with_gain(
            measured, Interval(1.25, 1.2, 1.3), 0.9
        )
    assert so_far(FASTER, FASTER.gain).ratio == FASTER.ratio, "nothing was gained since"


@pytest.mark.parametrize("later", [BUSY, FEW])
def test_an_answer_stands_until_there_is_a_better_one(
    qtbot, comparing, workbench, model_file, peer, later
):
    """After the session "About 7.2 ms" stood there, beside two bars far apart."""
    window, panel = comparing, comparing.verdict.panel
    workbench.verdict_found = OPENED
    rested(qtbot, window, lambda: window.open_model(model_file))
    workbench.verdict_found = later
    rested(qtbot, window, lambda: window.start_tuning(1.0))
    assert panel.headline == "2.5x as fast as ONNX Runtime Web" and panel.verdict == OPENED
    said = panel.explanation.text().replace("\N{NO-BREAK SPACE}", " ")
    why = "at 30% of the usual rate" if later is BUSY else "too few pairs"
    assert said == (
        f"8.2 ms [7.4..9.7], ratio [1.97..3.38], rough. Again, {why}, no ratio: 60 ms [59..60]."
    )
    window.resize(1280, 720)
    panel.fold(False)
    qtbot.waitUntil(lambda: panel.explanation.width() > 300)
    needed = panel.explanation.heightForWidth(panel.explanation.width())
    assert needed <= panel.explanation.height(), "it is read whole"
    folder = workbench.database.path.parent
    assert store.last_verdicts(folder) == [OPENED], "the welcome page keeps it too"
    workbench.verdict_found = FASTER
    rested(qtbot, window, window.verdict.measure)
    assert panel.verdict == FASTER and store.last_verdicts(folder) == [FASTER]
    workbench.verdict_found = later
    rested(qtbot, window, lambda: window.open_model(model_file))
    assert panel.headline == "About 60 ms [59..60]", "of a model opened anew nothing is known"


def test_an_answer_is_not_lost_when_measuring_is_stopped(
    qtbot, comparing, workbench, model_file, peer
):
    rested(qtbot, comparing, lambda: comparing.open_model(model_file))
    workbench.hold_verdict = True
    comparing.verdict.measure()
    panel = comparing.verdict.panel
    qtbot.waitUntil(lambda: panel.first.text() == STOP)
    rested(qtbot, comparing, panel.first.click)
    assert panel.verdict == FASTER and panel.explanation.text().endswith("Stopped.")


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
